"""Integer sums of products on the GPU: kernels of quantised convolutions and matrix products.

If filter and bias are constants, (x - zx)(w - zw) is expanded and words of four input channels are multiplied
at a time. The part without the input is added to the bias when the model is compiled, and padding is zx and
so adds nothing. The other kernels are those for real numbers with another library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpunn.kernel import (
    Candidate,
    Kernel,
    Pack,
    Read,
    Scratch,
    Unsupported,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    vec_width,
)
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import SHARED_ROWS, ByTile, with_shared_rows
from gpunn.ops.contraction.conv_tile import tile_kernel
from gpunn.ops.contraction.filter_packing import STEP, channel_reads, pack_filter
from gpunn.ops.contraction.integer_product import MIXED
from gpunn.ops.contraction.prepared import constants_only
from gpunn.ops.contraction.product_rescaling import (
    AS_SUMMED,
    Rescaling,
    Rounding,
    Steps,
    rescaling,
)
from gpunn.ops.contraction.shared_integers import (
    OF_FEW_CHANNELS,
    OF_FEW_ROWS,
    OF_INTEGER_PRODUCTS,
    OF_INTEGER_WINDOWS,
    of_shared_sums,
    shared_integers,
)
from gpunn.ops.contraction.unfolded import with_unfolded
from gpunn.ops.contraction.wide_sums import keep_words, reach, widen
from gpunn.ops.contraction.winograd_integers import with_whole_tiles
from gpunn.ops.contraction.word_products import (
    WORD,
    Form,
    by_words,
    endings,
    fold_zero,
    ways_of_words,
    workgroup_words,
)
from gpunn.ops.contraction.workgroup_product import with_workgroup_tiles
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.ops.kernels.chain import NO_LOOPS, Box, chained, keeping
from gpunn.ops.kernels.tiling import COLUMNS
from gpunn.ops.kernels.window import window_params
from gpunn.types import Array, DType, TensorType

_OWN_PIPELINE = 1 << 26  # multiplications of a layer that are worth a pipeline of its own


def centre_filter(filter: Array, zero: int) -> Array:
    """Return the filter as int32 without its zero point."""
    return filter.astype(np.int32) - zero


def product_kernels(call: Call, form: Form, rounding: Rounding) -> Iterator[Candidate]:
    """Yield the ways to compute an op whose sums of products have a form. Raises Unsupported."""
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")
    if call.x.quantization is None:
        raise Unsupported("the filter is quantised, the input is not")
    even = form.groups == 1 or call.y.shape[-1] // form.groups % COLUMNS == 0
    terms, how = form.depth * math.prod(form.window.size), rescaling(call, rounding)
    reason = "one value at a time: the filter is not a constant, or its groups are uneven"
    if constants_only(call) and form.axis == 0 and even:
        if call.x.dtype in MIXED:
            yield from _of_bytes(call, form, how, terms)
            reason = "one value at a time"
        elif call.input(1).dtype in MIXED and 255 * reach(call.input(1), how.zero_w) * terms < 2**31:
            yield Candidate(_by_planes(call, form, how, terms), "upper and lower bytes")
            reason = "one value at a time"
    kernels = of_integers(call, one_by_one(call, form, reason), terms, how, form.boxes(call))
    yield Candidate(kernels, reason, fallback=True)


def _of_bytes(call: Call, form: Form, how: Rescaling, terms: int) -> Iterator[Candidate]:
    """Yield ways for tensors of 8 bits: words, and what the device may compute in less time."""
    ways: Iterable[Candidate] = ways_of_words(call, form, how)
    if form.groups > 1:
        yield from ways
        return
    shared = partial(shared_integers, call, form.window, form.depth, how)
    if form.depth % 4 and not form.window.pointwise and call.device.software:
        # SwiftShader takes half as long, lavapipe as long as for words, which other layers need, too.
        directly = Candidate([_directly(call, form, how)], "one input channel at a time")
        ways = (directly, *ways) if call.device.subgroups_of_four else (*ways, directly)
    if form.depth % WORD == 0:
        ways = with_workgroup_tiles(call, workgroup_words(call, form, how), ways)
    gain, alike = _gain(call, form, terms), form.window.pointwise
    rows = with_shared_rows(call, terms, lambda: [shared()], ways, gain=gain, alike=alike)
    of_rows = partial(of_shared_sums, call, how)
    gain = OF_INTEGER_PRODUCTS if form.depth % STEP else OF_INTEGER_WINDOWS
    several = with_unfolded(call, form.window, of_rows, rows, how.zero_x, gain)
    yield from with_whole_tiles(call, form.window, how, several)


def _gain(call: Call, form: Form, terms: int) -> ByTile:
    """Return how many times as quick as words in register tiles full tiles of shared rows count."""
    if form.window.pointwise:
        return OF_INTEGER_PRODUCTS if math.prod(call.y.shape[:-1]) >= SHARED_ROWS else OF_FEW_ROWS
    own = form.depth % STEP and terms * call.y.size < _OWN_PIPELINE
    return OF_FEW_CHANNELS if own else OF_INTEGER_WINDOWS


def pack_columns(filter: Array, zero: int) -> Array:
    """Pack a filter of 8 bits without its zero point as pack_filter() does, as int32."""
    return pack_filter(centre_filter(filter, zero))


def _directly(call: Call, form: Form, how: Rescaling) -> Kernel:
    """Make the kernel of register tiles that takes one input channel after the other."""
    params = window_params(form.window, *form.spatial)
    real = tile_kernel(call, form.window.size, params, channel_reads(call), "window", {})
    x, w, _ = real.reads
    channels = ceil_div(call.y.shape[-1], COLUMNS) * COLUMNS
    nbytes = 4 * channels * form.depth * math.prod(form.window.size)
    further = {"SCALES": channels // 4, "absent": how.zero_x & 0xFFFFFFFF}
    kernel = replace(
        real,
        reads=(
            x,
            replace(w, pack=Pack(pack_columns, (how.zero_w,)), dtype=DType.INT32, nbytes=nbytes),
            *endings(how, channels),
        ),
        params={**real.params, **how.params(how.zero_w, 4), **further},
        functions={},
        libraries=tuple("requantize" if name == "real_sums" else name for name in real.libraries),
        lanes=4,
        reason=f"integers: {real.reason}",
    )
    return how.finish.of(kernel)


def _by_planes(call: Call, form: Form, how: Rescaling, terms: int) -> Sequence[Kernel]:
    """Make kernels for products of int16: its upper and lower bytes are int8 tensors with their own zero
    points.
    """
    kernels, sums = [], []
    for name, byte, zero in (
        ("low", "(x & 255) - 128", (how.zero_x & 255) - 128),
        ("high", "x >> 8u", how.zero_x >> 8),
    ):
        plane = Scratch(TensorType(DType.INT8, call.x.shape))
        total = Scratch(TensorType(DType.INT32, call.y.shape))
        split = replace(elementwise(call, byte), writes=(Write(output=plane, width=4),))
        words = by_words(call, form, replace(how, zero_x=zero))
        x, w, bias, _ = words.reads
        bias = replace(bias, pack=Pack(fold_zero, (zero, how.zero_w)), also=())
        words = replace(
            words,
            reads=(replace(x, operand=plane), w, bias, Read("scales", None)),
            writes=(Write(output=total, width=vec_width(call.y.shape[-1])),),
        )
        kernels += [split, AS_SUMMED.of(words)]
        sums.append(Read(name, total, vec_width(call.y.shape[-1])))
    return [*kernels, _join_planes(call, sums, terms, how)]


def _join_planes(call: Call, sums: Sequence[Read], terms: int, how: Rescaling) -> Kernel:
    """Make the kernel that converts the sums of lower and upper bytes to stored results."""
    lanes = vec_width(call.y.shape[-1])
    count = call.y.size // lanes
    real = Kernel(
        body="join_planes",
        threads=flat_threads(count),
        reads=(*sums, Read("bias", 2 if call.has(2) else None, lanes)),
        writes=(Write(width=lanes),),
        params={"count": count, "N": call.y.shape[-1] // lanes},
        lanes=lanes,
        reason="sums of products with lower and with upper bytes",
    )
    (joined,) = of_integers(call, real, terms, how, [NO_LOOPS])
    if how.steps is Steps.TWICE:
        return joined
    return replace(joined, constants={**joined.constants, "SPLIT": 8})


def of_integers(
    call: Call,
    real: Kernel,
    terms: int,
    how: Rescaling,
    parts: Sequence[Box],
    pack: Callable[..., Array] | None = None,
) -> list[Kernel]:
    """Convert a kernel of sums of that many real products to one for integers, or several for parts of a sum.

    pack: a function that converts the kernel's filter, a constant, to int32 without its zero point; without
    it, the shader subtracts the zero point.
    """
    x, w, bias = real.reads
    if pack is not None:
        nbytes = 4 * call.input(1).size
        w = Read(w.name, 1, real.lanes, Pack(pack, (how.zero_w,)), dtype=DType.INT32, nbytes=nbytes)
    kernel = replace(
        real,
        reads=(x, w, bias, Read("scales", None, real.lanes, value=how.table())),
        params={
            **real.params,
            **how.params(how.zero_w, real.lanes),
            "SCALES": call.y.shape[-1] // real.lanes,
        },
        functions={},
        libraries=("requantize", *(name for name in real.libraries if name == "chain")),
        reason=f"integers: {real.reason}",
    )
    sums = TensorType(DType.INT32, call.y.shape)
    if how.steps is Steps.TWICE:
        kernel, part = how.finish.of(kernel), AS_SUMMED.of(kernel)
        return chained(kernel, keeping(part, {"y": sums}, part.functions), parts)
    widened = widen(call, kernel, how, terms if len(parts) == 1 else max(part.terms for part in parts))
    return chained(widened, keep_words(widened, sums), parts)


def one_by_one(call: Call, form: Form, reason: str) -> Kernel:
    """Make a kernel for any real convolution, one output value an invocation, on the unpacked filter.

    real_sums() or of_integers() completes it for parts of a sum.
    """
    channels = call.y.shape[-1]
    cells = math.prod(form.window.size)
    return Kernel(
        body="conv2d_grouped",
        threads=flat_threads(call.y.size),
        reads=(Read("x", 0), Read("w", 1), Read("bias", 2 if call.has(2) else None)),
        params={
            **window_params(form.window, *form.spatial),
            "count": call.y.size,
            "N": channels,
            "C": form.depth * form.groups,
            "GC": form.depth,
            "GN": channels // form.groups,
            "WN": 1 if form.axis else cells * form.depth,
            "WC": channels if form.axis else form.depth,
        },
        functions=activation_function(call),
        libraries=("real", "chain"),
        reason=reason,
    )
