"""Constants in which each block of a row has a scale of its own (BlockwiseQuantization)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

from gpunn.graph.operation import Operand
from gpunn.importers.tflite.quantization import Blocks
from gpunn.importers.tflite.subgraph import FileTensor
from gpunn.types import DType, Shape

BLOCKWISE = ("EMBEDDING_LOOKUP", "FULLY_CONNECTED")  # the operators of LiteRT that know such constants


class RowBlocks(NamedTuple):
    """The scales and zero points of blocks of `size` elements: constants [rows, blocks].

    `zeros` is None if all zero points are 0.
    """

    size: int
    scales: Operand
    zeros: Operand | None


def row_blocks(
    tensor: FileTensor,
    blocks: Blocks,
    operands: Sequence[Operand | None],
    fail: Callable[[str], NoReturn],
) -> RowBlocks:
    """Return the blocks of a tensor [rows, elements], given the constants of scales and zero points.

    `fail` raises FormatError. Zero points that are no integers, one for each block, are none: the schema
    cannot say that there are none, and files name tensor 0 then, or the scales.
    """
    size, shape = blocks.size, tensor.stored
    if len(shape) != 2 or size < 1 or shape[1] % size:
        fail(f"{tensor} of shape {list(shape)} does not consist of blocks of {size} elements in a row")
    each = shape[0], shape[1] // size
    scales, zeros = (None if o is None else _reshaped(o, each) for o in operands)
    if scales is None or scales.type.dtype not in (DType.FLOAT16, DType.FLOAT32):
        fail(f"the scales of {tensor} should be constants, FLOAT16 or FLOAT32 {list(each)}")
    integers = DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64
    if zeros is None or zeros.value is None or zeros.type.dtype not in integers or not zeros.value.any():
        zeros = None
    return RowBlocks(size, scales, zeros)


def _reshaped(operand: Operand, shape: Shape) -> Operand | None:
    """Return a constant in another shape; None if it has another number of elements."""
    if operand.value is None or operand.type.size != shape[0] * shape[1]:
        return None
    type = replace(operand.type, shape=shape, quantization=None)
    return replace(operand, type=type, value=operand.value.reshape(shape))
