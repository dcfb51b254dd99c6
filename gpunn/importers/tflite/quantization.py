"""The quantisation of a tensor of a .tflite file, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from flatbuffers.number_types import Int32Flags

from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import DType, Quantization, Shape

_BLOCKWISE = 2  # of the union QuantizationDetails; the schema's package does not know it yet
_SCALES, _ZERO_POINTS, _BLOCK_SIZE = 4, 6, 8  # the places of BlockwiseQuantization's fields in its vtable


class Blocks(NamedTuple):
    """BlockwiseQuantization: every `size` elements of a row have a scale of their own.

    `scales` and `zeros` are numbers of tensors; the schema has no value of `zeros` that means none.
    """

    scales: int
    zeros: int
    size: int


class Parameters(NamedTuple):
    """QuantizationParameters as they are in the file; `axis` is the dimension of several scales."""

    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis: int = 0
    blocks: Blocks | None = None


def read_parameters(table: Any, vector: Callable[..., tuple[Any, ...]]) -> Parameters:
    """Return QuantizationParameters without minima and maxima.

    `vector` reads a vector of numbers (TfliteFile). Errors are those of reading out of bounds.
    """
    if table is None:
        return Parameters()
    scales = vector(table.ScaleAsNumpy, table.ScaleLength)
    zeros = vector(table.ZeroPointAsNumpy, table.ZeroPointLength, 8)
    return Parameters(scales, zeros, table.QuantizedDimension(), _blocks(table))


def _blocks(table: Any) -> Blocks | None:
    if table.DetailsType() != _BLOCKWISE:
        return None
    details = table.Details()
    if details is None:
        raise ValueError("the blocks of a quantisation are missing")
    return Blocks(*(details.GetSlot(place, 0, Int32Flags) for place in (_SCALES, _ZERO_POINTS, _BLOCK_SIZE)))


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
