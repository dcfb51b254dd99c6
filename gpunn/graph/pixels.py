"""The scale of pixels: the numbers that a network wants for the bytes of a photo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.errors import ModelError
from gpunn.types import Array

Numbers = float | tuple[float, ...]  # one for all channels, or one for each
GivenNumbers = float | Sequence[float] | Array  # the same as callers give them: see given_scale()

_LARGEST = 1e30  # what a byte may become: float32 ends at 3e38, and networks multiply

RANGES: dict[str, tuple[float, float]] = {  # mean and std by the range that bytes get
    "-1..1": (127.5, 127.5),
    "0..1": (0.0, 255.0),
    "0..255": (0.0, 1.0),
}


@dataclass(frozen=True, slots=True)
class PixelScale:
    """The numbers that stand for the bytes of a photo: (byte - mean) / std."""

    mean: Numbers
    std: Numbers

    def __str__(self) -> str:
        for name, (mean, std) in RANGES.items():
            if (self.mean, self.std) == (mean, std):
                return name
        return f"(byte - {text_of(self.mean)}) / {text_of(self.std)}"

    def usable(self, channels: int) -> bool:
        """Tell whether all bytes of a photo with so many channels become finite numbers, in float32, too."""
        if not {len(tuple_of(self.mean)), len(tuple_of(self.std))} <= {1, channels}:
            return False
        means, stds = tuple_of(self.mean), tuple_of(self.std)
        if not all(map(math.isfinite, (*means, *stds))) or 0 in stds:
            return False
        return (max(map(abs, means)) + 255) / min(map(abs, stds)) < _LARGEST


def given_scale(mean: GivenNumbers | None, std: GivenNumbers | None) -> tuple[Numbers | None, Numbers | None]:
    """Return the mean and the std that a caller gives; None for what is left open.

    Raises ModelError for what is neither one number nor one for each channel, for numbers that are not
    finite, and for a std of 0.
    """
    means, stds = _numbers_of(mean, "mean"), _numbers_of(std, "std")
    for what, numbers, least in (("mean", means, "finite"), ("std", stds, "finite and not 0")):
        if numbers is None:
            continue
        if not all(map(math.isfinite, tuple_of(numbers))) or (what == "std" and 0 in tuple_of(numbers)):
            raise ModelError(f"{what} must be {least}, got {text_of(numbers)}")
    return means, stds


def _numbers_of(given: GivenNumbers | None, what: str) -> Numbers | None:
    """Return a caller's number, or its list, tuple or array of them, one for each channel; None for None.

    Raises ModelError for anything else; `what` is its name.
    """
    if given is None:
        return None
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iuf" or array.ndim > 1:
        raise ModelError(f"{what} must be one number or one for each channel, got {given!r}")
    found: Numbers = tuple(array.tolist()) if array.ndim else array.item()
    return found


def tuple_of(numbers: Numbers) -> tuple[float, ...]:
    """Return one number, or one for each channel, as a tuple."""
    return numbers if isinstance(numbers, tuple) else (numbers,)


def text_of(numbers: Numbers) -> str:
    """Format one number as itself, and several as a list."""
    texts = [f"{n:g}" for n in tuple_of(numbers)]
    return f"[{', '.join(texts)}]" if isinstance(numbers, tuple) else texts[0]
