"""Colours what a network sees where in a photo, with a legend.

    python demos/segmentation.py MODEL [PHOTO] [--labels FILE] [--output segmented.png]

MODEL is a .tflite or .mlmodel file such as DeepLab v3, which takes a photo and gives every class a score at
every pixel; its first class is the background.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from pictures import class_names, colour, run, text_size, the_cat, write
from PIL import Image, ImageDraw

import gpunn
from gpunn import vision

SMALLEST = 0.002  # share of the photo below which a class is taken for noise
STRENGTH = 0.55  # of the colours on the photo


def segment(model: gpunn.Model, photo: Image.Image, backend: str) -> np.ndarray:
    """Return the best class [height, width] of each pixel of the model's output."""
    wanted = vision.photo_input(model)
    (x,) = wanted.batches(iter([wanted.values(photo)]))
    with model.compile(backend=backend) as compiled:
        scores = np.asarray(compiled(x))
    if scores.ndim == 3:  # as Core ML gives them: [classes, height, width]
        return scores.argmax(0)
    if scores.ndim != 4:
        raise SystemExit(f"{model.name} gives {scores.ndim} axes, expected [batch, height, width, classes]")
    return scores[0].argmax(-1)


def paint(photo: Image.Image, classes: np.ndarray, names: list[str]) -> Image.Image:
    """Paint every class except the background in its colour on the photo, and write their shares on it."""
    share = np.bincount(classes.ravel(), minlength=len(names)) / classes.size
    found = [index for index in np.argsort(-share) if index and share[index] >= SMALLEST]
    palette = np.array([colour(index) for index in range(len(names))], np.uint8)
    shape = Image.fromarray(np.where(np.isin(classes, found), 255, 0).astype(np.uint8))
    layer = Image.fromarray(palette[classes]).resize(photo.size, Image.Resampling.NEAREST)
    mask = shape.resize(photo.size, Image.Resampling.BILINEAR).point(lambda v: round(STRENGTH * v))
    painted = Image.composite(layer, photo, mask)
    draw, size = ImageDraw.Draw(painted), text_size(photo)
    for line, index in enumerate(found):
        write(draw, size, size + 2 * line * size, f"{names[index]} {share[index]:.0%}", colour(index), size)
    return painted


def main() -> None:
    """Segment one photo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("photo", type=Path, nargs="?", metavar="PHOTO")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="class names, one a line")
    parser.add_argument("--backend", choices=["auto", "webgpu", "cpu"], default="auto")
    parser.add_argument("--output", type=Path, metavar="FILE", default=Path("segmented.png"))
    options = parser.parse_args()

    model = gpunn.load(options.model)
    photo = vision.load_photo(options.photo or the_cat())
    classes = segment(model, photo, options.backend)
    names = class_names(model, options.labels, model.outputs[0].type.shape[-1])
    paint(photo, classes, names).save(options.output)
    for index, count in zip(*np.unique(classes, return_counts=True), strict=True):
        print(f"{count / classes.size:6.1%}  {names[index]}")
    print(f"the picture is in {options.output}")


if __name__ == "__main__":
    run(main)
