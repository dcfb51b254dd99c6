"""The quantisation of a tensor of a .tflite file, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import DType, Quantization, Shape


@dataclass(frozen=True, slots=True)
class Parameters:
    """QuantizationParameters as they are in the file; `axis` is the dimension of several scales."""

    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis: int = 0


def quantization_of(
    dtype: DType | None,
    shape: Shape,
    parameters: Parameters,
    fail: Callable[[str], NoReturn],
    warn: Callable[[str], None],
) -> Quantization | None:
    """Return the quantisation of an integer tensor; one scale of 0 is none, absent zero points are 0.

    Several scales may be 0, those of dead channels. `fail` raises an error that says what the tensor has,
    `warn` notes it.
    """
    scales, zeros, axis = parameters.scales, parameters.zeros or (0,), parameters.axis
    if dtype not in LIMITS or scales in ((), (0.0,)):
        return None
    if len(shape) == 1 and shape[0] == len(scales) > 1 and axis != 0:
        warn(f"has {len(scales)} scales along dimension {axis}, though it has only dimension 0")
        axis = 0
    if len(scales) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scales)):
        fail(f"has {len(scales)} scales along dimension {axis} of shape {list(shape)}")
    if len(zeros) not in (1, len(scales)):
        fail(f"has {len(zeros)} zero points for {len(scales)} scales")
    if not all(0 <= s < math.inf for s in scales):
        fail("has a scale that is not a positive number")
    low, high = LIMITS[dtype]
    if not all(low <= z <= high for z in zeros):
        fail(f"has a zero point outside of {dtype.value}")
    return Quantization(scales, zeros, axis if len(scales) > 1 else 0)
