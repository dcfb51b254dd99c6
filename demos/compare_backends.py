"""Shows how far backends are apart on a folder of photos, and where they disagree.

    python demos/compare_backends.py [PHOTO or FOLDER ...] [--model FILE] [--backends webgpu,cpu,litert]

Without photos it takes the cat that scikit-image brings along, without --model the classifier inside gpunn.
`litert` needs the extra `compare`. The command `gpunn compare` shows more: every layer, accuracy, a report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pictures import run, the_cat
from rich.console import Console
from rich.table import Table

import gpunn
from gpunn import vision


def errors(found: gpunn.Comparison) -> Table:
    """Describe every two backends: the largest error, the SNR, and how often their best class is the same."""
    table = Table("one", "the other", "largest error", "allowed", "SNR, dB", "same best class", box=None)
    for pair in found.pairs:
        for output in pair.outputs:
            metrics = output.metrics
            table.add_row(
                pair.candidate,
                pair.reference,
                "none" if metrics.identical else f"{metrics.max_abs_error:.1e}",
                "-" if output.tolerance is None else f"{output.tolerance:.1e}",
                "-" if metrics.identical else f"{metrics.snr_db:.0f}",
                f"{pair.agreement.top1:.1%}" if pair.agreement else "-",
            )
    return table


def answers(found: gpunn.Comparison) -> Table:
    """Describe each photo's best class on every backend."""
    names = [side.name for side in found.sides]
    table = Table("photo", *names, box=None)
    for answer in found.answers:
        best = [answer.guesses[name][0] for name in names]
        alike = len({guess.index for guess in best}) == 1
        cells = [f"{guess.label} {guess.score:.1%}" for guess in best]
        table.add_row(answer.name, *cells, style=None if alike else "bold red")
    return table


def main() -> None:
    """Compare on photos."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="*", metavar="PHOTO or FOLDER")
    parser.add_argument("--model", type=Path, metavar="FILE", default=vision.default_model())
    parser.add_argument("--backends", default="webgpu,cpu", metavar="NAMES")
    options = parser.parse_args()

    photos = options.photos or [the_cat()]
    model = gpunn.load(options.model)
    found = gpunn.compare(model, photos, options.backends.split(","))
    console = Console(width=None if Console().is_terminal else 160, markup=False, highlight=False)
    for side in found.sides:
        console.print(f"{side.name}: {side.device}")
    console.print(errors(found))
    if found.answers:
        console.print(answers(found))
        console.print(vision.known_classes(model, vision.class_labels(model)))
    if found.inputs.pixels is not None:
        console.print(found.inputs.pixels.described())
    console.print("every output is within its tolerance" if found.ok else "an output is over its tolerance")


if __name__ == "__main__":
    run(main)
