"""Fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from gpunn.kernel import (
    MAX_GROUPS,
    Candidate,
    Kernel,
    Param,
    Read,
    Scratch,
    Write,
    ceil_div,
    fits_i32,
    spans,
    vec_width,
)
from gpunn.ops.accuracy import Accuracy, filter_terms
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_bool
from gpunn.ops.compiled import real_loops
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.contraction import gradients
from gpunn.ops.contraction.blocks import PointSums, Sums, Terms, early_product
from gpunn.ops.contraction.broadcast_tile import shared_product, with_shared_rows
from gpunn.ops.contraction.byte_sums import dot_filter
from gpunn.ops.contraction.computed_filter import block_packed, packed_reads
from gpunn.ops.contraction.half_products import dense_errors
from gpunn.ops.contraction.integer_product import MakeProduct, check_types, integer_product, quantized_product
from gpunn.ops.contraction.pieces import filter_matrix
from gpunn.ops.contraction.prepared import clamp_ends, constants_only, finisher, integer_matrix, prepared
from gpunn.ops.contraction.product_kernel import product_kernels
from gpunn.ops.contraction.product_loop import bound_rows
from gpunn.ops.contraction.product_rescaling import Rounding
from gpunn.ops.contraction.register_product import products
from gpunn.ops.contraction.shared_operands import Product, matrix_product, step_library, step_pitch
from gpunn.ops.contraction.word_products import Form
from gpunn.ops.contraction.workgroup_product import with_workgroup_tiles
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.filter import Filter
from gpunn.ops.kernels.tiling import ROWS, WORKGROUP
from gpunn.ops.kernels.window import resolve
from gpunn.ops.op import Op, op
from gpunn.ops.parts import by_batch
from gpunn.rows import Start
from gpunn.types import Array, DType, Shape, TensorType


def _infer_fully_connected(call: Call) -> TensorType:
    filter = call.expect_rank(1, 2)
    channels, depth = filter.shape
    x = call.x
    if call.has(2) and call.input(2).shape != (channels,):
        call.fail(f"bias must have shape [{channels}], got {list(call.input(2).shape)}")
    check_types(call, 0, ((DType.INT16, DType.INT16),))
    expect_bool(call, "halves_away")
    if call["keep_dims"]:
        if x.rank == 0 or x.shape[-1] != depth:
            call.fail(f"the last dimension must be {depth} as in the filter, got input shape {list(x.shape)}")
        return x.with_shape((*x.shape[:-1], channels))
    if depth == 0 or x.size % depth:
        call.fail(f"{x.size} input elements cannot be cut into rows of {depth} as the filter asks")
    return x.with_shape((x.size // depth, channels))


def _fully_connected_kernels(call: Call) -> Iterator[Candidate]:
    channels, depth = call.input(1).shape
    rows = math.prod(call.y.shape[:-1])
    if constants_only(call) and fits_i32(rows * depth):
        packed = products(call, (rows, depth, channels), "a packed filter")
        shared = partial(shared_product, call, rows, depth, channels)
        ways = with_shared_rows(call, depth, lambda: [shared()], packed)
        yield from with_workgroup_tiles(call, matrix_product(depth), ways)
        yield _plain(call, rows, depth, channels, "the filter as it is")
        return
    plain = _plain(call, rows, depth, channels, "the filter is not a constant")
    if call.input(1).dtype in FLOATS and fits_i32(rows * depth, channels * depth, rows * channels):
        ways = chain(_of_computed_filter(call, rows, depth, channels), [plain])
        yield from with_workgroup_tiles(call, _computed_product(call), ways)
    else:
        yield plain


def _of_computed_filter(call: Call, rows: int, depth: int, channels: int) -> Iterator[Candidate]:
    """Yield the ways that pack a computed filter of real numbers first, which pays off for several rows."""
    if rows < ROWS or not call.input(1).size:
        return
    sizes = rows, depth, channels

    def in_tiles() -> Iterator[Candidate]:
        packs, reads = packed_reads(call)
        return products(call, sizes, "a product of matrices", reads, packs)

    def shared() -> list[Kernel]:
        packs, reads = block_packed(call, channels, depth, (depth, 1))
        return [*packs, shared_product(call, *sizes, reads)]

    yield from with_shared_rows(call, depth, shared, () if depth % 4 else in_tiles())


def _computed_product(call: Call) -> Product:
    """Describe the product with a filter that may be computed, for tiles that a workgroup shares."""
    depth = call.input(1).shape[1]
    params: dict[str, Param] = {
        "K": depth,
        "batch": (1, 1, 1, 1),
        "b_batch": (0, 0, 0, 0),
        "b_step": (1, depth, 0, 0),
        **Start().params("b"),
    }
    libraries = step_library(depth), "stack_columns", "columns_apart"
    reads = Read("b", 1, pitch=Start()), Read("bias", 2 if call.has(2) else None)
    pitch = step_pitch(depth)
    return Product(
        "matmul_workgroup", depth, vec_width(depth), params, libraries, reads, computed=True, pitch=pitch
    )


def _plain(call: Call, rows: int, depth: int, channels: int, reason: str) -> Candidate:
    """Return the way for any filter: each kernel adds as many products as the loops of the device take."""
    kernels: list[Kernel] = []
    layers, wide = max(ceil_div(rows, MAX_GROUPS), 1), WORKGROUP[0]
    of_layer = ceil_div(rows, layers)
    across = max(ceil_div(channels, wide * MAX_GROUPS), 1)
    columns = ceil_div(ceil_div(channels, across), wide) * wide if across > 1 else channels
    sizes = {"M": rows, "K": depth, "N": channels, "ROWS": of_layer, "COLUMNS": columns, "ACROSS": across}
    total: Scratch | None = None
    for span in spans(depth, call.device.max_loop_iterations):
        first, last = span.start == 0, span.stop == depth
        after = None if last else Scratch(TensorType(DType.FLOAT32, (rows, channels)))
        bias = Read("bias", 2 if call.has(2) and first else None)
        kernels.append(
            Kernel(
                body="matmul_any",
                threads=(columns, of_layer, layers * across),
                workgroup=WORKGROUP,
                reads=(Read("x", 0), Read("w", 1), bias, Read("sum", total)),
                writes=(Write(output=0 if after is None else after),),
                params={**sizes, "first": span.start, "end": span.stop},
                functions=activation_function(call) if last else {},
                loop_iterations=len(span),
                any_width=True,
                reason=reason,
            )
        )
        total = after
    return Candidate(kernels, reason)


def _upwards(call: Call) -> int:
    return 0 if call["halves_away"] else call.y.shape[-1]


_ROUNDING = Rounding(_upwards, single=True, product16=True)


def _integer(call: Call) -> MakeProduct:
    def sums(filter: Array, terms: Terms) -> Sums:
        dots = dot_filter(filter[:, None], terms)
        return (
            PointSums.of(integer_matrix(call, filter), terms)
            if dots is None
            else dots.of_pixels(filter.shape[1])
        )

    return integer_product(call, fully_connected.reference, 0, _ROUNDING, sums)


def _integer_kernels(call: Call) -> Iterator[Candidate]:
    pixel = resolve((1, 1), (1, 1), (1, 1), (1, 1), "valid")
    return product_kernels(call, Form(pixel, (1, 1), call.input(1).shape[1]), _ROUNDING)


def _by_pixel(shape: Shape, factor: Array) -> Array | None:
    """Return Filter.along_input: a row may contain several pixels."""
    return np.tile(factor, shape[1] // factor.size) if shape[1] % factor.size == 0 else None


def _bind_fully_connected(call: Call, filter: Array, bias: Array | None = None) -> Callable[[Array], Array]:
    in_tiles = bound_rows(call, filter, bias)
    if in_tiles is not None:
        return in_tiles
    shape, (channels, depth) = call.y.shape, call.input(1).shape
    rows = math.prod(shape[:-1])
    in_rows, as_rows = call.x.shape == (rows, depth), shape == (rows, channels)
    matrix = filter_matrix(filter, constants_only(call) and rows == 1, rows)
    multiply = early_product(depth)
    finish = _finish(call.attrs.get("activation"), filter.dtype, bias, (rows, channels))

    def compute(x: Array) -> Array:
        result = multiply(x if in_rows else x.reshape(rows, depth), matrix)
        finish(result)
        return result if as_rows else result.reshape(shape)

    return compute


def _finish(
    activation: str | None, dtype: np.dtype[Any], bias: Array | None, shape: tuple[int, int]
) -> Callable[[Array], None]:
    """Return what adds a bias to sums of a shape, and applies an activation."""
    loops, ends = real_loops(), clamp_ends(activation)
    if loops is None or ends is None or bias is None or dtype != np.float32:
        return finisher(bias, activation, dtype, shape[1], shape[0])
    compiled = loops.finish
    parts = rows_divided(shape[0], math.prod(shape))
    return lambda result: compiled(parts, result, bias, *ends)


@op(
    _infer_fully_connected,
    _fully_connected_kernels,
    flops=lambda call: 2 * call.y.size * call.input(1).shape[1],
    fusible=True,
    divide=by_batch,
    filter=Filter(output_axis=0, along_input=_by_pixel),
    accuracy=Accuracy(terms=filter_terms, arithmetic=True, halves=dense_errors),
    quantized=quantized_product(_integer, _integer_kernels),
    prepare=prepared(_bind_fully_connected),
    bind=_bind_fully_connected,
    gradient=gradients.FULLY_CONNECTED,
)
def fully_connected(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    keep_dims: bool = False,
    halves_away: bool = False,
) -> Array:
    """Compute y = x . filter^T + bias.

    x: any shape, flattened to [rows, I] (with keep_dims only its last dimension is I, and the others stay);
    filter [O, I]; bias [O]; result [rows, O]. halves_away: quantised sums of 32 bits, which have no bias of
    int64, round halves away from zero as TFLite's kernel for shuffled weights does, and not upwards.
    NeuralNetworks.h, ANEURALNETWORKS_FULLY_CONNECTED; TFLite schema, FullyConnectedOptions.
    """
    channels, depth = filter.shape
    leading = x.shape[:-1] if keep_dims else (x.size // depth,)
    result = x.reshape(math.prod(leading), depth) @ filter.T
    if bias is not None:
        result += bias
    return result.reshape(*leading, channels)


OPS: tuple[Op, ...] = (fully_connected,)
