"""Sums of products in integers: what quantised conv2d, depthwise_conv2d and fully_connected share.

y = zy + rescale(sum of (x - zx) * (w - zw) + bias, sx * sw / sy), clamped to the fused activation, where s
and z are scales and zero points: Jacob et al., Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference, section 2. The filter may have a scale for each output channel; the bias
is int32 and counts in steps of sx * sw. What becomes of the sums: product_rescaling.py.

On the GPU (x - zx)(w - zw) is multiplied out: what the input does not enter is folded into the bias when the
model is compiled, and padding is zx and so adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpunn.kernel import (
    Function,
    Kernel,
    Pack,
    Read,
    Unsupported,
    ceil_div,
    fits_i32,
    flat_threads,
)
from gpunn.ops.affine import (
    LIMITS,
    activation_bounds,
    dequantize,
    rescale,
    rescale_wide,
    scale_of,
    store,
    wrap32,
)
from gpunn.ops.check import QUANTIZED
from gpunn.ops.op import Call
from gpunn.ops.product_rescaling import FINISH, Rescaling, rescaling
from gpunn.ops.tiling import COLUMNS, ROWS, WORKGROUP, lines, row_library, tiles
from gpunn.ops.unary import apply_activation
from gpunn.ops.window import Pair, Window, window_params
from gpunn.types import Array, DType

BLOCK = 1 << 14  # sums that the CPU rescales at a time
MIXED = (DType.UINT8, DType.INT8)
PAIRS = (
    (DType.UINT8, DType.UINT8),
    (DType.INT8, DType.INT8),
    MIXED,
    (DType.INT16, DType.INT8),
)  # input, filter
BIAS_TOLERANCE = 1e-3  # by which a bias's scale may miss input * filter: files state all three as float32
DOT_PRODUCTS = {
    DType.UINT8: "i32(dot4U8Packed(u32(w), u32(x)))",
    DType.INT8: "dot4I8Packed(u32(w), u32(x))",
}


def check_types(call: Call, axis: int) -> None:
    """ModelError unless input, filter (with its output channels at `axis`) and bias fit together.

    Reals pass, with a quantised filter too.
    """
    x, filter = call.x, call.input(1)
    if x.quantization is None:
        if x.dtype in QUANTIZED:
            call.fail(f"an input of {x.dtype.value} needs a scale and a zero point")
        return
    if (x.dtype, filter.dtype) not in PAIRS or filter.quantization is None:
        call.fail(f"a quantised {x} does not go with a filter of {filter} and {filter.quantization}")
    scale_x, _ = scale_of(call, x)
    activation_bounds(call, x)
    scales, channels = filter.quantization.scale, filter.shape[axis]
    low, high = LIMITS[filter.dtype]
    zeros = filter.quantization.zero_point
    if not all(0 <= s < math.inf for s in scales) or not all(low <= z <= high for z in zeros):
        call.fail(f"a filter of {filter.dtype.value} cannot have {filter.quantization}")
    if not filter.quantization.per_tensor:
        if filter.quantization.axis != axis or len(scales) != channels:
            call.fail(f"a filter of {channels} channels along axis {axis} has {filter.quantization}")
        if any(zeros):
            call.fail("a filter with a scale for each channel must have zero points of 0")
    _check_bias(call, scale_x * np.asarray(scales))


def _check_bias(call: Call, products: Array) -> None:
    """ModelError unless the bias counts in steps of `products`; one without a scale, or with 0, does."""
    if not call.has(2):
        return
    bias = call.input(2)
    wide = call.x.dtype is DType.INT16
    if bias.dtype is not DType.INT32 and not (wide and bias.dtype is DType.INT64):
        call.fail(f"the bias of a quantised operation must be int32{' or int64' * wide}, got {bias}")
    if bias.quantization is None:
        return
    scales = np.asarray(bias.quantization.scale)
    if any(bias.quantization.zero_point) or len(scales) not in (1, len(products)):
        call.fail(f"the bias must have the zero point 0 and the filter's scales, got {bias.quantization}")
    wrong = np.abs(scales - products) > BIAS_TOLERANCE * products
    if scales.any() and wrong.any():
        wanted, got = (np.broadcast_to(s, wrong.shape)[wrong][0] for s in (products, scales))
        call.fail(f"the bias's scale must be that of input * filter, {wanted}, got {got}")


def integer_product(
    call: Call, real: Callable[..., Array], axis: int, x: Array, filter: Array, bias: Array | None = None
) -> Array:
    """The stored result of an op whose reference on reals is `real`, filter output channels at `axis`.

    The sums are done by the op on reals, in which they are exact (exact_type). An input of reals meets the
    reals of its quantised filter.
    """
    attrs = {k: v for k, v in call.attrs.items() if k != "activation"}
    if call.x.quantization is None:
        wide = dequantize(filter, call.input(1)).astype(x.dtype)
        biases = bias if bias is None or not call.input(2).quantization else dequantize(bias, call.input(2))
        return apply_activation(real(x, wide, biases, **attrs), call.attrs.get("activation"))
    how = rescaling(call)
    centred = filter.astype(np.float32) - np.float32(how.zero_w)
    low, high = LIMITS[call.x.dtype]
    exact = exact_type(centred, axis, max(high - how.zero_x, how.zero_x - low))
    sums = real(x.astype(exact) - exact.type(how.zero_x), centred.astype(exact, copy=False), None, **attrs)
    return _stored(call, how, sums, 0 if bias is None else bias.astype(np.int64))


def is_wide(call: Call) -> bool:
    """Whether sums have 64 bits: those of 16-bit inputs, but under a bias of 32."""
    return call.x.dtype is DType.INT16 and not (call.has(2) and call.input(2).dtype is DType.INT32)


def _stored(call: Call, how: Rescaling, sums: Array, bias: Array | int) -> Array:
    """Sums of products as stored results, worked off in blocks that stay in the CPU's cache."""
    channels = sums.shape[-1]
    rows = sums.reshape(-1, channels) if channels else sums.reshape(0, 0)
    result = np.empty(rows.shape, call.y.dtype.numpy)
    away = np.arange(channels) >= how.upwards
    block = max(1, BLOCK // max(1, channels))
    wide = is_wide(call)
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        total = rows[part].astype(np.int64) + bias
        factors = how.multiplier, how.shift
        rescaled = rescale_wide(total, *factors) if wide else rescale(total, *factors, away)
        result[part] = store(rescaled + how.zero_y, call.y, how.bounds)
    return result.reshape(sums.shape)


def exact_type(filter: Array, axis: int, largest: int) -> np.dtype[Any]:
    """The narrowest float type in which sums of integers up to `largest` times the filter are exact.

    No partial sum, in any order, exceeds `largest` times the sum of a channel's absolute weights; float32
    counts to 2^24, float64 to 2^53, which no filter reaches.
    """
    others = tuple(k for k in range(filter.ndim) if k != axis)
    reach = largest * np.abs(filter).sum(axis=others, dtype=np.float64).max(initial=0)
    return np.dtype(np.float32 if reach < 2**24 else np.float64)


def pack_words(filter: Array, zero: int, offset: int) -> Array:
    """[O, KH, KW, I] or [O, I] -> int32 [cells * I / 4, O]: words of four input channels.

    O is padded to a multiple of COLUMNS and I to one of 4, with the zero point, which adds nothing to a sum;
    `offset` turns int8 into the uint8 of its input.
    """
    channels, depth = filter.shape[0], filter.shape[-1]
    cells = filter.reshape(channels, -1, depth)
    pads = [(0, -channels % COLUMNS), (0, 0), (0, -depth % 4)]
    cells = np.pad(cells, pads, constant_values=zero)
    cells = (cells.astype(np.int16) + offset).astype(np.uint8)
    words = np.ascontiguousarray(cells).view("<i4")
    return np.ascontiguousarray(words.reshape(words.shape[0], -1).T)


def fold_bias(filter: Array, bias: Array | None, zero_x: int, zero_w: int) -> Array:
    """bias - zero of x * sum of (w - zero of w) for each output channel, padded to a multiple of COLUMNS."""
    sums = (filter.astype(np.int64) - zero_w).reshape(filter.shape[0], -1).sum(axis=1)
    folded = (0 if bias is None else bias.astype(np.int64)) - zero_x * sums
    return np.pad(wrap32(folded).astype(np.int32), (0, -folded.size % COLUMNS))


def constants_only(call: Call) -> bool:
    """Whether filter and bias are known at compile time, so that they can be packed."""
    return call.constant[1] and (not call.has(2) or call.constant[2])


def centre_filter(filter: Array, zero: int) -> Array:
    """The filter as int32 without its zero point."""
    return filter.astype(np.int32) - zero


@dataclass(frozen=True, slots=True)
class Form:
    """An op as a convolution with groups; `axis` is that of the filter's output channels."""

    window: Window
    spatial: Pair
    depth: int
    groups: int = 1
    axis: int = 0


def refuse_wide(call: Call) -> None:
    """Unsupported for an input of 16 bits: sums of its products do not fit 32."""
    if call.x.dtype is DType.INT16:
        raise Unsupported("sums of products of int16 do not fit 32 bits")


def product_kernel(call: Call, form: Form) -> Kernel:
    """The kernel of an op whose sums of products have a form."""
    refuse_wide(call)
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    if call.x.quantization is None:
        raise Unsupported("the filter is quantised, the input is not")
    even = form.groups == 1 or call.y.shape[-1] // form.groups % COLUMNS == 0
    if constants_only(call) and form.axis == 0 and even:
        return _by_words(call, form)
    return _one_by_one(call, form)


def _by_words(call: Call, form: Form) -> Kernel:
    how = rescaling(call)
    channels = call.y.shape[-1]
    packed = ceil_div(channels, COLUMNS) * COLUMNS
    rows = call.y.size // max(1, channels)
    few = rows < ROWS and form.window.pointwise and form.groups == 1 and form.depth % 4 == 0
    work = (lines if few else tiles)(rows, packed, ceil_div(form.depth, 4), call.parallel)
    offset = 128 if (call.x.dtype, call.input(1).dtype) == MIXED else 0
    zero_w = how.zero_w + offset
    return Kernel(
        body="integer_row" if few else "integer_product",
        threads=work.threads,
        workgroup=WORKGROUP,
        reads=_word_reads(how, offset),
        params={
            **window_params(form.window, *form.spatial),
            **how.params(zero_w, 4),
            **work.params,
            "SCALES": packed // 4,
            "M": rows,
            "N": channels,
            "N4": packed // 4,
            "C": form.depth * form.groups,
            "GC": form.depth,
            "GN": channels // form.groups,
            "PAD": (how.zero_x & 255) * 0x01010101,
        },
        constants={"ALIGNED": int(form.depth % 4 == 0), "CENTRED": int(zero_w == 0), "SLICES": work.slices},
        functions={"products": Function(("w", "x"), DOT_PRODUCTS[call.x.dtype]), "finish": FINISH},
        libraries=row_library(rows, channels),
        lanes=4,
        reason="integers, words of 4 input channels: "
        + ("few rows: one row x 4 channels" if few else f"{ROWS} pixels x {COLUMNS} channels in registers")
        + work.words,
    )


def _word_reads(how: Rescaling, offset: int) -> tuple[Read, ...]:
    return (
        Read("x", 0),
        Read("w", 1, 4, Pack(pack_words, (how.zero_w, offset)), dtype=DType.INT32),
        Read("bias", 1, 4, Pack(fold_bias, (how.zero_x, how.zero_w)), (2,), DType.INT32),
        Read("scales", None, 4, value=how.table(COLUMNS)),
    )


def of_integers(call: Call, real: Kernel, pack: Callable[..., Array] | None = None) -> Kernel:
    """The kernel `real` of sums of products of reals, made one of integers.

    pack: what makes int32 without zero point of its filter, a constant; without it, the shader takes the
    zero point away.
    """
    refuse_wide(call)
    how = rescaling(call)
    x, w, *bias = real.reads
    if pack is not None:
        w = Read(w.name, 1, real.lanes, Pack(pack, (how.zero_w,)), dtype=DType.INT32)
    return replace(
        real,
        reads=(x, w, *bias, Read("scales", None, real.lanes, value=how.table())),
        params={
            **real.params,
            **how.params(how.zero_w, real.lanes),
            "SCALES": call.y.shape[-1] // real.lanes,
        },
        functions={"finish": FINISH},
        libraries=("requantize",),
        reason=f"integers: {real.reason}",
    )


def _one_by_one(call: Call, form: Form) -> Kernel:
    how = rescaling(call)
    channels = call.y.shape[-1]
    cells = form.window.size[0] * form.window.size[1]
    return Kernel(
        body="conv2d_grouped",
        threads=flat_threads(call.y.size),
        workgroup=(64, 1, 1),
        reads=(
            Read("x", 0),
            Read("w", 1),
            Read("bias", 2 if call.has(2) else None),
            Read("scales", None, value=how.table()),
        ),
        params={
            **window_params(form.window, *form.spatial),
            **how.params(how.zero_w, 1),
            "SCALES": channels,
            "SIZE": call.y.size,
            "N": channels,
            "C": form.depth * form.groups,
            "GC": form.depth,
            "GN": channels // form.groups,
            "WN": 1 if form.axis else cells * form.depth,
            "WC": channels if form.axis else form.depth,
        },
        functions={"finish": FINISH},
        libraries=("requantize",),
        reason="integers, one value at a time: the filter is not a constant, or its groups are uneven",
    )
