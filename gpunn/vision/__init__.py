"""Photos in, class names out: the input and output of image classifiers."""

from __future__ import annotations

from gpunn.graph.pixels import RANGES
from gpunn.vision.answers import Answer, Classifier, classifier
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
from gpunn.vision.steps import gives_best, takes_bytes

__all__ = [
    "MEAN",
    "RANGES",
    "STD",
    "Answer",
    "Classifier",
    "Guess",
    "PhotoInput",
    "ScoreOutput",
    "class_labels",
    "classifier",
    "default_model",
    "gives_best",
    "known_classes",
    "load_photo",
    "mandatory",
    "photo_input",
    "preprocess",
    "scales_photos",
    "score_output",
    "takes_bytes",
    "top_k",
    "verdict",
]
