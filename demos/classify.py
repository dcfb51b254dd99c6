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
    classifier = vision.classifier(model, top=3)  # scales bytes and finds the best classes on the device
    pixels = vision.preprocess(classifier.model, options.photo or the_cat())  # bytes, in its size

    with classifier.model.compile(backend=options.backend) as compiled:
        (answer,) = classifier.answers(compiled(pixels))  # one answer a photo

    for guess in answer.best:
        print(f"{guess.score:6.1%}  {guess.label}")
    print(answer.said)
    print(vision.known_classes(model, classifier.labels))
    print(classifier.wanted.described())
    print(f"on {compiled.device}")


if __name__ == "__main__":
    run(main)
