"""Photos in, class names out: the input and output of image classifiers."""

from __future__ import annotations

from gpunn.graph.pixels import RANGES
from gpunn.vision.classes import (
    Guess,
    ScoreOutput,
    class_labels,
    default_model,
    known_classes,
    score_output,
    top_k,
    verdict,
)
from gpunn.vision.photos import MEAN, STD, PhotoInput, mandatory, photo_input, preprocess, scales_photos
from gpunn.vision.pictures import load_photo

__all__ = [
    "MEAN",
    "RANGES",
    "STD",
    "Guess",
    "PhotoInput",
    "ScoreOutput",
    "class_labels",
    "default_model",
    "known_classes",
    "load_photo",
    "mandatory",
    "photo_input",
    "preprocess",
    "scales_photos",
    "score_output",
    "top_k",
    "verdict",
]
