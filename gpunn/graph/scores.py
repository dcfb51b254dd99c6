"""The scoring of a classifier: how its scores are calibrated, and below which it knows nothing for sure.

The formulas are those of TensorFlow Lite's metadata (metadata_schema.fbs: ScoreCalibrationOptions,
ScoreThresholdingOptions), but any importer may state them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpunn.types import Array

Transform = Literal["identity", "logarithm", "log odds"]

_LEAST = 1e-16  # logarithms of less go on as a mirror image, and stay finite


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """The calibrated score of one class: scale / (1 + exp(-(slope * g(score) + offset))).

    Scores below `least`, if it is given, count as the default score.
    """

    scale: float
    slope: float
    offset: float
    least: float | None = None

    @property
    def usable(self) -> bool:
        """Tell whether all numbers are finite, and no score becomes negative."""
        numbers = (self.scale, self.slope, self.offset, 0.0 if self.least is None else self.least)
        return all(map(math.isfinite, numbers)) and self.scale >= 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """A sigmoid for each class, after g: the score itself, its logarithm, or log(score) - log(1 - score).

    A class without a sigmoid always has the `default` score.
    """

    transform: Transform
    sigmoids: tuple[Sigmoid | None, ...]
    default: float = 0.0

    @property
    def rises(self) -> bool:
        """Tell whether a class with a higher score never has a lower calibrated one than another class."""
        first = self.sigmoids[0] if self.sigmoids else None
        same = first is not None and all(s == first for s in self.sigmoids)
        return same and first is not None and first.slope > 0 and first.least is None

    def __call__(self, scores: Array) -> Array:
        """Return calibrated scores, float32 like `scores`; the last axis is the classes."""
        known = [s or Sigmoid(0.0, 0.0, 0.0) for s in self.sigmoids]
        scale, slope, offset = np.array([(s.scale, s.slope, s.offset) for s in known]).T
        with np.errstate(over="ignore", invalid="ignore"):
            found = scale / (1 + np.exp(-(slope * self._transformed(scores.astype(np.float64)) + offset)))
        least = np.array([-np.inf if s.least is None else s.least for s in known])
        without = np.array([s is None for s in self.sigmoids]) | (scores < least)
        return np.where(without, self.default, found).astype(np.float32)

    def _transformed(self, scores: Array) -> Array:
        if self.transform == "identity":
            return scores
        return _log(scores) if self.transform == "logarithm" else _log(scores) - _log(1 - scores)


@dataclass(frozen=True, slots=True)
class Scoring:
    """The scoring that a model states of its classes; None where it states nothing.

    threshold: the calibrated score that the best class must reach; below it the model knows nothing for sure.
    """

    calibration: Calibration | None = None
    threshold: float | None = None


def _log(x: Array) -> Array:
    """Return logarithms that rise with x everywhere and are finite, as TFLite's task library has them."""
    mirrored = 2 * math.log(_LEAST) - np.log(2 * _LEAST - np.minimum(x, _LEAST))
    return np.where(x < _LEAST, mirrored, np.log(np.maximum(x, _LEAST)))
