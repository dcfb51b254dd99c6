"""Products of stacks of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpunn.kernel import (
    Candidate,
    Kernel,
    Param,
    Read,
    Unsupported,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    size_of,
    vec_width,
)
from gpunn.ops.accuracy import Accuracy
from gpunn.ops.call import Call, broadcast_shapes
from gpunn.ops.check import FLOATS, expect_bool, expect_dtype
from gpunn.ops.contraction import gradients
from gpunn.ops.contraction.broadcast_tile import shared_product, with_shared_rows
from gpunn.ops.contraction.computed_filter import block_packed
from gpunn.ops.contraction.filter_packing import STEP
from gpunn.ops.contraction.half_products import matrix_errors
from gpunn.ops.contraction.integer_product import MakeProduct, integer_product, quantized_product
from gpunn.ops.contraction.matrix_loop import prepare_products
from gpunn.ops.contraction.product_kernel import of_integers
from gpunn.ops.contraction.product_rescaling import AS_SUMMED, Rescaling, Rounding, rescaling
from gpunn.ops.contraction.register_product import products
from gpunn.ops.contraction.shared_operands import Product, matrix_product, step_library, step_pitch
from gpunn.ops.contraction.shared_stacks import depth_of, integer_stack, packed_stack, stack_of
from gpunn.ops.contraction.wide_sums import most_iterations
from gpunn.ops.contraction.workgroup_integers import workgroup_integers
from gpunn.ops.contraction.workgroup_product import with_workgroup_tiles
from gpunn.ops.filter import Filter
from gpunn.ops.fixed_point.affine import scale_of, wrap32
from gpunn.ops.kernels.chain import Box, boxes, real_sums
from gpunn.ops.kernels.strides import matrix_steps, stack_params
from gpunn.ops.kernels.tiling import COLUMNS, ROWS, row_library
from gpunn.ops.op import EIGHT_BITS, Op, op
from gpunn.rows import Start
from gpunn.types import Array, DType, TensorType


def _matrix(call: Call, index: int, adjoint: str) -> tuple[int, int]:
    """Return rows and columns of the matrices of an input, as the product takes them."""
    rows, columns = call.input(index).shape[-2:]
    return (columns, rows) if call[adjoint] else (rows, columns)


def _infer(call: Call) -> TensorType:
    for index, adjoint in enumerate(("adj_a", "adj_b")):
        if expect_dtype(call, index, *FLOATS, DType.INT8).rank < 2:
            call.fail(f"input {index} must have rank 2 or more, got {call.input(index)}")
        expect_bool(call, adjoint)
    a, b = call.x, call.input(1)
    fits = a.dtype is b.dtype or (a.dtype, b.dtype) == (DType.INT16, DType.INT8)
    if not fits or (a.quantization is None) != (b.quantization is None):
        call.fail(f"inputs must have one dtype and both be quantised or neither, got {a} and {b}")
    (rows, depth), (height, columns) = _matrix(call, 0, "adj_a"), _matrix(call, 1, "adj_b")
    if depth != height:
        call.fail(f"matrices of {rows} x {depth} and {height} x {columns} cannot be multiplied")
    shape = (*broadcast_shapes(call, a.shape[:-2], b.shape[:-2]), rows, columns)
    return TensorType(DType.INT32, shape) if _plain(call) else a.with_shape(shape)


def _plain(call: Call) -> bool:
    """Tell whether integers without a scale are multiplied."""
    return call.x.dtype is DType.INT8 and call.x.quantization is None


def _one_by_one(call: Call) -> list[Kernel]:
    real = _real_kernel(call)
    if not _plain(call):
        return real_sums(call, real, _boxes(call))
    one = np.zeros(call.y.shape[-1], np.int64)
    how = Rescaling(0, 0, 0, one, one, 0, (0, 0))
    return [_stored_as_summed(k) for k in of_integers(call, real, depth_of(call), how, _boxes(call))]


def _stored_as_summed(kernel: Kernel) -> Kernel:
    reads = tuple(Read("scales", None) if read.name == "scales" else read for read in kernel.reads)
    return AS_SUMMED.of(replace(kernel, reads=reads))


def _boxes(call: Call) -> list[Box]:
    """Return the parts of the sums of _real_kernel()."""
    return boxes((depth_of(call),), most_iterations(call))


def _real_kernel(call: Call) -> Kernel:
    """Make the kernel that real_sums() or of_integers() completes for parts of a sum."""
    (rows, _), (_, columns) = _matrix(call, 0, "adj_a"), _matrix(call, 1, "adj_b")
    lanes = 1 if call["adj_b"] else vec_width(columns)
    return Kernel(
        body="batch_matmul",
        threads=flat_threads(call.y.size // lanes),
        reads=(Read("a", 0, pitch=Start()), Read("b", 1, lanes, pitch=Start(lanes)), Read("bias", None)),
        writes=(Write(width=lanes),),
        params={
            "count": call.y.size // lanes,
            "M": rows,
            "N": columns // lanes,
            **Start().params("a"),
            **Start().params("b"),
            **_walks(call, lanes),
        },
        libraries=("real", "chain"),
        lanes=lanes,
        reason=f"{lanes} columns of a row in an invocation",
    )


def _walks(call: Call, lanes: int = 1) -> dict[str, Param]:
    """Return strides along both stacks, and along rows and columns of their matrices. lanes: of b's."""
    a, b = call.x, call.input(1)
    if not fits_i32(a.size, b.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    steps = {"a": matrix_steps(a.shape, call["adj_a"]), "b": matrix_steps(b.shape, call["adj_b"])}
    return stack_params(call.y.shape[:-2], {"a": a.shape, "b": b.shape}, steps, {"b": lanes})


# Products of numbers; fewer take less time than dispatches that pack a matrix, and zeros behind its depth.
_LEAST_WITH_ZEROS = 1 << 20
_SIDE = 4  # rows and columns of a tile


def _tile_kernel(call: Call) -> Kernel | None:
    """Make the kernel of tiles of each matrix; None for small matrices, or too long sums."""
    one = _real_kernel(call)
    (rows, depth), (_, columns) = _matrix(call, 0, "adj_a"), _matrix(call, 1, "adj_b")
    tiles, count = (ceil_div(rows, _SIDE), ceil_div(columns, _SIDE)), _tile_count(call)
    if len(_boxes(call)) > 1 or rows < _SIDE or columns < _SIDE:
        return None
    return replace(
        one,
        body="batch_matmul_tile",
        threads=flat_threads(count),
        reads=(Read("a", 0, pitch=Start()), _fours(call)),
        writes=(Write(width=vec_width(columns)),),
        params={
            "count": count,
            **{"M": rows, "N": columns, "K": depth, "rows": tiles[0], "columns": tiles[1]},
            **Start().params("a"),
            **Start().params("b"),
            **_walks(call),
        },
        libraries=(_column_library(call), *row_library(size_of(call.y.shape[:-1]), columns)),
        lanes=_SIDE,
        loop_iterations=depth,
        reason=f"tiles of {_SIDE} rows and columns in an invocation",
    )


def _tile_count(call: Call) -> int:
    rows, columns = call.y.shape[-2:]
    return size_of(call.y.shape[:-2]) * ceil_div(rows, _SIDE) * ceil_div(columns, _SIDE)


def _together(call: Call) -> bool:
    """Tell whether four columns of b always lie in one vector."""
    return call.y.shape[-1] % 4 == 0 and not call["adj_b"]


def _fours(call: Call) -> Read:
    """Return the read of b in fours of columns."""
    return Read("b", 1, 4 if _together(call) else 1, pitch=Start())


def _column_library(call: Call) -> str:
    return "columns_together" if _together(call) else "columns_apart"


def _stack_product(call: Call) -> Product:
    """Describe the products of each matrix for tiles that a workgroup shares."""
    batch, rows, depth = size_of(call.y.shape[:-2]), call.y.shape[-2], depth_of(call)
    dense = call.x.size == batch * rows * depth and not call["adj_a"]
    return Product(
        "matmul_workgroup",
        depth,
        vec_width(depth) if dense else 1,
        {"K": depth, **Start().params("b"), **_walks(call)},
        (step_library(depth) if dense else "stack_row_steps", "stack_columns", _column_library(call)),
        (_fours(call), Read("bias", None)),
        computed=True,
        matrices=1 if dense and size_of(call.input(1).shape[:-2]) == 1 else batch,
        pitch=step_pitch(depth) if dense else Start(),
        stacked=True,
    )


def _in_one_matrix(call: Call) -> Call:
    """Return the call whose matrices with the same second factor are rows of one, as they lie in memory."""
    a, b, y = call.x, call.input(1), call.y
    stack = (1,) * (y.rank - b.rank) + b.shape[:-2]
    kept = len(stack)
    while kept and stack[kept - 1] == 1:
        kept -= 1
    if kept == len(stack) or call["adj_a"] or a.shape[:-1] != y.shape[:-1]:
        return call
    around, rows = y.shape[:kept], math.prod(y.shape[kept:-1])
    inputs = (
        a.with_shape((*around, rows, a.shape[-1])),
        b.with_shape((*stack[:kept], *b.shape[-2:])),
    )
    return replace(call, inputs=inputs, outputs=(y.with_shape((*around, rows, y.shape[-1])),))


def _kernels(call: Call) -> Iterator[Candidate]:
    """Yield ways for real numbers; a computed matrix that lies as products take filters needs no packing."""
    call = _in_one_matrix(call)
    rows, columns = math.prod(call.y.shape[:-1]), call.y.shape[-1]
    b, plain = call.input(1), not (call["adj_a"] or call["adj_b"] or _plain(call))
    one = size_of(b.shape[:-2]) == 1 and not call.constant[1]
    fits = rows >= ROWS and columns and columns % COLUMNS == 0 and depth_of(call) and depth_of(call) % 4 == 0
    if plain and one and fits and fits_i32(call.x.size, call.y.size):
        reads = (Read("w", 1, 4), Read("bias", None))
        ways = products(call, (rows, depth_of(call), columns), "tiles of one product", reads)
        if depth_of(call) % STEP == 0 or rows * depth_of(call) * columns >= _LEAST_WITH_ZEROS:
            ways = with_shared_rows(call, depth_of(call), lambda: _shared(call, rows, columns), ways)
        yield from with_workgroup_tiles(call, matrix_product(depth_of(call), reads), ways)
        yield from _singly(call)
    elif _plain(call):
        yield from _singly(call)
    else:
        yield from with_workgroup_tiles(call, _stack_product(call), _each(call))


def _each(call: Call) -> Iterator[Candidate]:
    """Yield ways to multiply each matrix of a stack that are not for tiles that a workgroup shares."""
    stack = stack_of(call)
    if stack is None:
        return _singly(call)
    return with_shared_rows(call, stack[2], partial(packed_stack, call, stack), _singly(call), stack[0])


def _singly(call: Call) -> Iterator[Candidate]:
    kernel = None if _plain(call) else _tile_kernel(call)
    tiles = [] if kernel is None else [Candidate([kernel], "tiles of each matrix of the stack")]
    first = _tile_count(call) >= call.device.parallel_invocations
    if first:
        yield from tiles
    yield Candidate(_one_by_one(call), "one matrix of the stack for each")
    if not first:
        yield from tiles


def _shared(call: Call, rows: int, columns: int) -> list[Kernel]:
    """Make the kernels that pack a computed matrix, and the one of rows that subgroups share."""
    packs, reads = block_packed(call, columns, depth_of(call), (1, columns))
    return [*packs, shared_product(call, rows, depth_of(call), columns, reads)]


def _check(call: Call) -> None:
    """Raise ModelError unless each tensor has one scale."""
    for type in (call.x, call.input(1), call.y):
        scale_of(call, type)


_ROUNDING = Rounding(lambda call: 0, single=True)


def _integer(call: Call) -> MakeProduct:
    def real(a: Array, b: Array, _: None, **attrs: Any) -> Array:
        return np.asarray(batch_matmul.reference(a, b, **attrs))

    axis = call.input(1).rank - (2 if call["adj_b"] else 1)
    return integer_product(call, real, axis, _ROUNDING)


def _integer_kernels(call: Call) -> Iterator[Candidate]:
    how, stack = rescaling(call, _ROUNDING), stack_of(call)
    kernels = of_integers(call, _real_kernel(call), depth_of(call), how, _boxes(call))
    ways: Iterable[Candidate] = [Candidate(kernels, "one matrix of the stack for each")]
    if {call.x.dtype, call.input(1).dtype} <= {*EIGHT_BITS}:
        if stack is not None:
            shared = partial(integer_stack, call, stack, how)
            ways = with_shared_rows(call, stack[2], shared, ways, stack[0])
        ways = with_workgroup_tiles(call, workgroup_integers(call, _stack_product(call), how), ways)
    yield from ways


def _prepare(call: Call) -> Callable[[Array, Array], Array] | None:
    return prepare_products(batch_matmul.reference, call)


@op(
    _infer,
    _kernels,
    flops=lambda call: 2 * call.y.size * depth_of(call),
    quantized=quantized_product(_integer, _integer_kernels, _check),
    filter=Filter(),
    accuracy=Accuracy(terms=depth_of, arithmetic=True, halves=matrix_errors),
    dtypes=(DType.INT8,),
    prepare=_prepare,
    gradient=gradients.BATCH_MATMUL,
)
def batch_matmul(a: Array, b: Array, *, adj_a: bool = False, adj_b: bool = False) -> Array:
    """Compute the matrix product a . b over the last two dimensions; the dimensions before them broadcast.

    a [..., M, K], or [..., K, M] with adj_a; b [..., K, N], or [..., N, K] with adj_b; result [..., M, N].
    dtype: float32, float16; quantised uint8, int8 and int16, in integers, also a of int16 with b of int8;
    int8 without a scale, which gives sums of int32 that wrap around.
    Raises ModelError for other dtypes, ranks below 2, and shapes that do not fit. Accuracy: K^2 eps / 2
    max |a| max |b| of float32, plus the general promise, because every term rounds. TFLite schema,
    BatchMatMulOptions.
    """
    left = np.swapaxes(a, -1, -2) if adj_a else a
    right = np.swapaxes(b, -1, -2) if adj_b else b
    if a.dtype == np.int8:  # exact sums, by BLAS
        return wrap32((left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)).astype(np.int32)
    return np.asarray(left @ right)


OPS: tuple[Op, ...] = (batch_matmul,)
