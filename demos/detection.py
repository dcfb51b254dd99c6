"""Draws boxes round what a network finds in a photo, with their names.

    python demos/detection.py MODEL [PHOTO] [--labels FILE] [--least 0.5] [--output detected.png]

MODEL is a .tflite file such as SSD MobileNet, which takes a photo and ends in TFLite_Detection_PostProcess:
it gives boxes (top, left, bottom and right as shares of the photo), their classes, scores and number.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pictures import class_names, colour, run, text_size, the_cat, write
from PIL import Image, ImageDraw

import gpunn
from gpunn import vision


@dataclass(frozen=True)
class Thing:
    """Something found: its class, how sure the network is, and left, top, right, bottom in pixels."""

    index: int
    score: float
    box: tuple[float, float, float, float]


def detect(model: gpunn.Model, photo: Image.Image, backend: str, least: float) -> list[Thing]:
    """Return the model's objects with a score of `least` or more, best first."""
    if [len(o.type.shape) for o in model.outputs] != [3, 2, 2, 1]:
        raise SystemExit(f"{model.name} is no detector: expected boxes, classes, scores and their number")
    wanted = vision.photo_input(model)
    with model.compile(backend=backend) as compiled:
        boxes, classes, scores, count = compiled(wanted.values(photo)[np.newaxis])
    things = []
    for box, index, score in list(zip(boxes[0], classes[0], scores[0], strict=True))[: int(count[0])]:
        top, left, bottom, right = np.clip(box, 0, 1) * np.tile(photo.size[::-1], 2)
        if score >= least and top < bottom and left < right:
            things.append(Thing(int(index), float(score), (left, top, right, bottom)))
    return sorted(things, key=lambda thing: -thing.score)


def draw_boxes(photo: Image.Image, things: list[Thing], names: list[str]) -> Image.Image:
    """Return a copy of the photo with boxes, names over them, the best on top."""
    drawn = photo.copy()
    draw, size = ImageDraw.Draw(drawn), text_size(photo)
    for thing in reversed(things):
        draw.rectangle(thing.box, outline=colour(thing.index), width=max(2, size // 6))
    for thing in reversed(things):
        left, top, *_ = thing.box
        text = f"{names[thing.index]} {thing.score:.0%}"
        write(draw, left, max(0, top - 1.5 * size), text, colour(thing.index), size)
    return drawn


def main() -> None:
    """Find things in one photo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("photo", type=Path, nargs="?", metavar="PHOTO")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="class names, one a line")
    parser.add_argument("--least", type=float, metavar="SCORE", default=0.5, help="of what is drawn")
    parser.add_argument("--backend", choices=["auto", "webgpu", "cpu"], default="auto")
    parser.add_argument("--output", type=Path, metavar="FILE", default=Path("detected.png"))
    options = parser.parse_args()

    model = gpunn.load(options.model)
    photo = vision.load_photo(options.photo or the_cat())
    things = detect(model, photo, options.backend, options.least)
    names = class_names(model, options.labels, 1 + max((thing.index for thing in things), default=0))
    draw_boxes(photo, things, names).save(options.output)
    for thing in things:
        print(f"{thing.score:6.1%}  {names[thing.index]}")
    print(f"{len(things)} found; the picture is in {options.output}")


if __name__ == "__main__":
    run(main)
