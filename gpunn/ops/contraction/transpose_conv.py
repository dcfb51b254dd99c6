"""Transposed convolution: every input pixel is spread over a window of output pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpunn.kernel import (
    Kernel,
    Pack,
    Read,
    Unsupported,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    vec_width,
)
from gpunn.ops.accuracy import filter_terms, sums
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_dtype, expect_ints
from gpunn.ops.contraction import gradients
from gpunn.ops.contraction.computed_filter import spread_reads
from gpunn.ops.contraction.integer_product import MakeProduct, check_types, integer_product, quantized_product
from gpunn.ops.contraction.phases import by_phases
from gpunn.ops.contraction.prepared import constants_only
from gpunn.ops.contraction.product_kernel import centre_filter, of_integers
from gpunn.ops.contraction.product_rescaling import Rounding, eights, rescaling
from gpunn.ops.contraction.wide_sums import most_iterations
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.filter import Filter, by_groups
from gpunn.ops.kernels.chain import Box, boxes, real_sums
from gpunn.ops.kernels.window import Padding, Pair, Window, check_window, resolve, window_params
from gpunn.ops.op import EIGHT_BITS, Op, op
from gpunn.types import Array, DType, TensorType

_ROUNDING = Rounding(lambda call: call.y.shape[-1] if call.x.dtype is DType.UINT8 else eights(call))
PIXELS = 4  # output pixels, a stride apart along x, of one invocation of transpose_conv2d


def pack_spread(filter: Array) -> Array:
    """Pack [O, KH, KW, I] as [KH, KW, I, O]: output channels become the fast axis."""
    return np.ascontiguousarray(np.moveaxis(filter, 0, -1))


def pack_centred(filter: Array, zero: int) -> Array:
    """Pack as pack_spread(), as int32 without the zero point."""
    return pack_spread(centre_filter(filter, zero))


def _window(call: Call) -> Window:
    """Return the window of the convolution that leads from the output back to the input."""
    size = expect_ints(call, "size", 2)
    if min(size) < 1:
        call.fail(f"size must be positive (height, width), got {list(size)}")
    _, height, width, _ = call.input(1).shape
    return check_window(call, (size[0], size[1]), (height, width))


def _infer(call: Call) -> TensorType:
    x, filter = call.expect_rank(0, 4), call.expect_rank(1, 4)
    for index in range(2):
        expect_dtype(call, index, *FLOATS)
    channels, depth = filter.shape[0], filter.shape[3]
    if x.shape[3] != depth:
        call.fail(f"filter has {depth} input channels, input has {x.shape[3]}")
    if call.has(2) and call.input(2).shape != (channels,):
        call.fail(f"bias must have shape [{channels}], got {list(call.input(2).shape)}")
    check_types(call, 0)
    window = _window(call)
    if window.out != x.shape[1:3]:
        call.fail(f"an output of {tuple(call['size'])} comes of an input of {window.out}, got {x.shape[1:3]}")
    return x.with_shape((x.shape[0], *call["size"], channels))


def _rewrite(call: Call, to: Expansion, x: Tensor, filter: Tensor, bias: Tensor | None = None) -> Tensor:
    if call.x.quantization is not None or call.input(1).quantization is not None:
        same = {call.x.dtype, call.input(1).dtype} <= {*EIGHT_BITS} and constants_only(call)
        if not same or _ROUNDING.upwards(call) < call.y.shape[-1]:
            raise Unsupported("convolutions round integers otherwise")
    return by_phases(call, to, _window(call), (x, filter, bias))


def _kernels(call: Call) -> list[Kernel]:
    """Return the kernels for real numbers, behind one that packs the filter if that is computed."""
    kernel = _kernel(call)
    x, filter, bias = kernel.reads
    packs, filter = spread_reads(call, filter)
    return [*packs, *real_sums(call, replace(kernel, reads=(x, filter, bias)), _boxes(call))]


def _boxes(call: Call) -> list[Box]:
    """Return the parts of the sums of _kernel()."""
    return boxes((*_window(call).size, call.x.shape[3]), most_iterations(call))


def _kernel(call: Call) -> Kernel:
    """Make the kernel that real_sums() or of_integers() completes for parts of a sum."""
    window = _window(call)
    _, height, width, depth = call.x.shape
    batch, out_height, out_width, channels = call.y.shape
    if not constants_only(call) and (call.input(1).quantization is not None or not call.input(1).size):
        raise Unsupported("the filter is not a constant")
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    lanes = vec_width(channels)
    tiles = ceil_div(ceil_div(out_width, window.stride[1]), PIXELS) * window.stride[1]
    count = channels // lanes * tiles * batch * out_height
    return Kernel(
        body="transpose_conv2d",
        threads=flat_threads(count),
        reads=(
            Read("x", 0),
            Read("w", 1, lanes, Pack(pack_spread), nbytes=call.input(1).nbytes),
            Read("bias", 2 if call.has(2) else None, lanes),
        ),
        writes=(Write(width=lanes),),
        params={
            **window_params(window, height, width),
            "OH": out_height,
            "OW": out_width,
            "C": depth,
            "N": channels // lanes,
            "count": count,
            "TILES": tiles,
        },
        functions=activation_function(call),
        libraries=("real", "chain"),
        lanes=lanes,
        reason=f"{PIXELS} pixels x {lanes} channels in registers",
    )


def _integer(call: Call) -> MakeProduct:
    return integer_product(call, transpose_conv2d.reference, 0, _ROUNDING)


def _integer_kernels(call: Call) -> list[Kernel]:
    if call.x.quantization is None:
        raise Unsupported("the filter is quantised, the input is not")
    terms = math.prod(call.input(1).shape[1:])
    return of_integers(call, _kernel(call), terms, rescaling(call, _ROUNDING), _boxes(call), pack_centred)


@op(
    _infer,
    _kernels,
    rewrite=_rewrite,
    flops=lambda call: 2 * call.x.size * math.prod(call.input(1).shape[:3]),
    unbounded=True,
    filter=Filter(output_axis=0, along_input=by_groups),
    accuracy=sums(filter_terms),
    fusible=True,
    quantized=quantized_product(_integer, _integer_kernels),
    gradient=gradients.TRANSPOSE_CONV2D,
)
def transpose_conv2d(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    size: Sequence[int],
    stride: Pair = (1, 1),
    padding: Padding = "valid",
) -> Array:
    """Compute the transpose of a convolution over height and width, which leads from images of `size` to x.

    x [N, H, W, I]; filter [O, KH, KW, I]; bias [O]; result [N, size[0], size[1], O]. Each input pixel times
    the filter is added to a window of the result: the window that conv2d, with this stride and padding, would
    read for that pixel. dtype: float32, float16, or quantised uint8, int8 or int16, in integers; on the GPU
    these need a constant filter. Raises ModelError for other dtypes and shapes, and unless such a convolution
    of `size` gives x's height and width. TFLite schema, TransposeConvOptions.
    """
    channels, height, width, _ = filter.shape
    batch, rows, columns, _ = x.shape
    (sy, sx), (out_height, out_width) = stride, size
    window = resolve((out_height, out_width), (height, width), stride, (1, 1), padding)
    (top, left) = window.before
    extent = ((rows - 1) * sy + height, (columns - 1) * sx + width)
    full = np.zeros(
        (batch, max(extent[0], top + out_height), max(extent[1], left + out_width), channels), x.dtype
    )
    for ky in range(height):
        for kx in range(width):
            place = full[:, ky : ky + (rows - 1) * sy + 1 : sy, kx : kx + (columns - 1) * sx + 1 : sx]
            place += x @ filter[:, ky, kx].T
    result = full[:, top : top + out_height, left : left + out_width]
    return np.ascontiguousarray(result if bias is None else result + bias)


OPS: tuple[Op, ...] = (transpose_conv2d,)
