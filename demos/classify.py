"""Says what a photo shows, in the fewest steps: load a model, compile it, call it with pixels.

    python demos/classify.py [PHOTO] [--backend auto|webgpu|cpu]

Without PHOTO it takes the cat that scikit-image brings along (pip install 'gpunn[demo]').
"""

from __future__ import annotations

import argparse

from pictures import run, the_cat

import gpunn
from gpunn import vision


def main() -> None:
    """Classify one photo with the model that gpunn brings along."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("photo", nargs="?", metavar="PHOTO")
    parser.add_argument("--backend", choices=["auto", "webgpu", "cpu"], default="auto")
    options = parser.parse_args()

    model = gpunn.load(vision.default_model())
    x = vision.preprocess(model, options.photo or the_cat())  # its size, and pixels as -1 ... 1

    with model.compile(backend=options.backend) as compiled:
        (row,) = compiled(x)  # one row a photo

    output = vision.score_output(model)
    scores = output.scores(row)  # calibrated, as the model's file says
    guesses = vision.top_k(scores, model.labels, 3)
    for guess in guesses:
        print(f"{guess.score:6.1%}  {guess.label}")
    print(vision.verdict(guesses[0], output.knows(scores)))
    print(vision.known_classes(model, model.labels))
    print(vision.photo_input(model).described())
    print(f"on {compiled.device}")


if __name__ == "__main__":
    run(main)
