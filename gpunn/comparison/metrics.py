"""Distances between two tensors, gathered over any number of inputs.

With reference r and candidate c, n elements, e = c - r, over the elements that are finite on both sides:

    max and mean absolute error   max |e|, sum |e| / n
    RMSE                          sqrt(sum e^2 / n)
    cosine                        sum r c / sqrt(sum r^2 sum c^2)
    Pearson                       the cosine of r - mean(r) and c - mean(c)
    SNR                           10 log10(sum r^2 / sum e^2) dB
    PSNR                          10 log10(max |r|^2 / (sum e^2 / n)) dB

Quotients 0 / 0 and x / 0: without any error, SNR and PSNR are infinite, even for a signal of zeros, and
cosine and correlation are 1, as for any two equal tensors. With an error and a signal of zeros, SNR and PSNR
are minus infinity. A cosine with one side all zeros, and a correlation with one side constant, are None.
Without elements everything is None, except the errors, which are 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gpunn.types import Array, DType, Shape

F16_MAX = 65504.0  # the largest finite number of IEEE 754 binary16

# The error histogram: zeros, smaller ones, half decades from 1e-12 to 1e6, larger ones.
HISTOGRAM_EDGES = tuple(10.0 ** (k / 2) for k in range(-24, 13))
FLOAT32_MAX = float(np.finfo(np.float32).max)
# The largest magnitude that a type does not round to infinity; 65520 rounds upwards.
LARGEST = {DType.FLOAT32: FLOAT32_MAX, DType.COMPLEX64: FLOAT32_MAX, DType.FLOAT16: 65519.99}


@dataclass(frozen=True, slots=True)
class Health:
    """A count of NaN, infinite and large values in a tensor.

    max_abs: of the finite values. beyond_f16: the number of finite values larger than float16's 65504.
    """

    count: int = 0
    nan: int = 0
    inf: int = 0
    max_abs: float = 0.0
    beyond_f16: int = 0

    def __add__(self, other: Health) -> Health:
        return Health(
            self.count + other.count,
            self.nan + other.nan,
            self.inf + other.inf,
            max(self.max_abs, other.max_abs),
            self.beyond_f16 + other.beyond_f16,
        )


def health(values: Array) -> Health:
    """Make the Health of a floating-point tensor."""
    size = np.abs(values)
    finite = np.isfinite(size)
    nan = int(np.count_nonzero(np.isnan(size)))
    kept = size[finite]
    return Health(
        count=values.size,
        nan=nan,
        inf=values.size - kept.size - nan,
        max_abs=float(kept.max(initial=0.0)),
        beyond_f16=int(np.count_nonzero(kept > F16_MAX)),
    )


@dataclass(frozen=True, slots=True)
class Metrics:
    """The module's formulas for one pair of tensors.

    count: elements compared. different: elements that are not equal. unmatched: elements that are NaN or
    infinite on one side only, or in different ways, and all elements of tensors with different shapes; they
    count as different and in nothing else. max_steps: for quantised tensors the largest difference of stored
    integers. worst: the index of the element with the largest error, an unmatched one first; None if all are
    equal, or if shapes differ. histogram: the number of |e| that are 0, below the first of HISTOGRAM_EDGES,
    between each two of them, and from the last one on.
    """

    count: int
    different: int
    unmatched: int
    max_abs_error: float
    mean_abs_error: float
    rmse: float
    cosine: float | None
    pearson: float | None
    snr_db: float | None
    psnr_db: float | None
    max_steps: int | None
    worst: Shape | None
    histogram: tuple[int, ...]

    @property
    def identical(self) -> bool:
        """Tell whether every element is equal; NaN equals NaN."""
        return self.different == 0


@dataclass(slots=True)
class _Moments:
    """Count, mean and central second moments of pairs; merged as in Chan, Golub and LeVeque (1979)."""

    count: int = 0
    mean: tuple[float, float] = (0.0, 0.0)
    squares: tuple[float, float] = (0.0, 0.0)
    product: float = 0.0

    def add(self, r: Array, c: Array) -> None:
        if r.size == 0:
            return
        count = self.count + r.size
        means = float(r.mean()), float(c.mean())
        dr, dc = r - means[0], c - means[1]
        step = means[0] - self.mean[0], means[1] - self.mean[1]
        weight = self.count * r.size / count
        self.squares = (
            self.squares[0] + float(dr @ dr) + step[0] ** 2 * weight,
            self.squares[1] + float(dc @ dc) + step[1] ** 2 * weight,
        )
        self.product += float(dr @ dc) + step[0] * step[1] * weight
        share = r.size / count
        self.mean = self.mean[0] + step[0] * share, self.mean[1] + step[1] * share
        self.count = count


@dataclass(slots=True)
class Tally:
    """A sum over pairs of tensors, one input after the other, in float64."""

    count: int = 0
    different: int = 0
    unmatched: int = 0
    max_error: float = 0.0
    max_size: float = 0.0
    max_steps: int | None = None
    worst: Shape | None = None
    sum_error: float = 0.0
    sum_square: float = 0.0
    products: tuple[float, float, float] = (0.0, 0.0, 0.0)
    histogram: Array = field(default_factory=lambda: np.zeros(len(HISTOGRAM_EDGES) + 2, np.int64))
    _moments: _Moments = field(default_factory=_Moments)

    def add(self, reference: Array, candidate: Array) -> None:
        """Count a pair of floating-point tensors; if the shapes differ, all elements of the larger one are
        unmatched.
        """
        if np.shape(reference) != np.shape(candidate):
            count = max(np.size(reference), np.size(candidate), 1)
            self.count += count
            self.different += count
            self.unmatched += count
            return
        r = np.asarray(reference, np.float64).reshape(-1)
        c = np.asarray(candidate, np.float64).reshape(-1)
        both = np.isfinite(r) & np.isfinite(c)
        equal = (r == c) | (np.isnan(r) & np.isnan(c))
        self.count += r.size
        self.different += int(np.count_nonzero(~equal))
        unmatched = int(np.count_nonzero(~equal & ~both))
        self.unmatched += unmatched
        places = None
        if not both.all():
            if self.unmatched == unmatched > 0:
                self.worst = _index(int(np.argmax(~equal & ~both)), np.shape(reference))
            r, c, places = r[both], c[both], np.flatnonzero(both)
        error = np.abs(c - r)
        if not self.unmatched and error.max(initial=0.0) > self.max_error:
            largest = int(np.argmax(error))
            self.worst = _index(largest if places is None else int(places[largest]), np.shape(reference))
        self.max_error = max(self.max_error, float(error.max(initial=0.0)))
        self.max_size = max(self.max_size, float(np.abs(r).max(initial=0.0)))
        self.sum_error += float(error.sum())
        self.sum_square += float(error @ error)
        rr, cc, rc = self.products
        self.products = rr + float(r @ r), cc + float(c @ c), rc + float(r @ c)
        self._moments.add(r, c)
        self.histogram[0] += np.count_nonzero(error == 0)
        places = np.searchsorted(HISTOGRAM_EDGES, error[error > 0], "right")
        self.histogram[1:] += np.bincount(places, minlength=len(HISTOGRAM_EDGES) + 1)

    def add_steps(self, reference: Array, candidate: Array) -> None:
        """Count a pair of stored integers for max_steps."""
        steps = np.abs(reference.astype(np.int64) - candidate.astype(np.int64)).max(initial=0)
        self.max_steps = max(self.max_steps or 0, int(steps))

    def metrics(self) -> Metrics:
        """Return the metrics of all pairs so far."""
        equal = self.different == 0
        compared = self._moments.count
        mean_square = self.sum_square / compared if compared else 0.0
        rr, cc, rc = self.products
        return Metrics(
            count=self.count,
            different=self.different,
            unmatched=self.unmatched,
            max_abs_error=self.max_error,
            mean_abs_error=self.sum_error / compared if compared else 0.0,
            rmse=math.sqrt(mean_square),
            cosine=_cosine(rc, rr, cc, equal) if compared else None,
            pearson=_cosine(self._moments.product, *self._moments.squares, equal) if compared else None,
            snr_db=_decibels(rr, self.sum_square) if compared else None,
            psnr_db=_decibels(self.max_size**2, mean_square) if compared else None,
            max_steps=self.max_steps,
            worst=self.worst,
            histogram=tuple(int(n) for n in self.histogram),
        )


def _index(place: int, shape: Shape) -> Shape:
    """Return the index of an element from its place in row-major order."""
    return tuple(int(i) for i in np.unravel_index(place, shape))


def _cosine(product: float, a: float, b: float, equal: bool) -> float | None:
    if equal:
        return 1.0
    size = math.sqrt(a) * math.sqrt(b)
    return max(-1.0, min(1.0, product / size)) if size > 0 and math.isfinite(size) else None


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf
