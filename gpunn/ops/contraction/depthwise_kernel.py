"""Kernels of depthwise convolutions: strips of pixels, and single rows of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

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
    nested,
    vec_width,
)
from gpunn.ops.call import Call
from gpunn.ops.contraction.depthwise_strip import Strip, strip_of
from gpunn.ops.contraction.product_kernel import centre_filter, of_integers
from gpunn.ops.contraction.product_rescaling import Rounding, rescaling
from gpunn.ops.contraction.wide_sums import most_iterations
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.chain import NO_LOOPS, Box, boxes, real_sums
from gpunn.ops.kernels.window import UNKNOWN_SIZE, Window, known_size, window_params
from gpunn.rows import Pitch

_COLUMNS = 4  # output pixels along x of an invocation that computes a part of a row
_OF_ALL_STRIDES = ", with the pipeline of all strides"
# What strips may read, relative to rows, to come first on hardware. An NVIDIA H200 takes 0.9 times as long as
# in rows for 5 x 5 in strips that read 1.2 times as much, and 1.3 times for 3 x 3 if they read 0.9 times.
_FEW_TAPS, _OF_FEW_TAPS, _OF_MANY_TAPS = 9, 0.8, 1.3

# Completes a kernel of depthwise sums for reals or integers, for parts of the sums.
Complete = Callable[[Kernel, Sequence[Box]], Sequence[Kernel]]


def real_kernels(call: Call, window: Window) -> Iterator[Candidate]:
    """Yield the ways to compute a depthwise convolution of reals. Raises Unsupported."""
    return _kernels(call, window, lambda kernel, parts: real_sums(call, kernel, parts))


def integer_kernels(call: Call, window: Window, rounding: Rounding) -> Iterator[Candidate]:
    """Yield the ways to compute a quantised depthwise convolution with constants. Raises Unsupported."""
    cells, how = math.prod(window.size), rescaling(call, rounding)
    return _kernels(
        call, window, lambda kernel, parts: of_integers(call, kernel, cells, how, parts, centre_filter)
    )


def _kernels(call: Call, window: Window, complete: Complete) -> Iterator[Candidate]:
    """Yield strips first if they read less than rows: on hardware much less, or for large windows as much.

    Short strips, as of devices with many processors, save little. On software devices strips with the
    pipeline of all strides come before others: they compile sooner.
    """
    if not fits_i32(call.x.size, call.y.size):
        raise Unsupported("more elements than the shaders can count")

    turned, down = _turned(call, window, 0)
    lying, along = _turned(call, window, 1)

    def rows() -> Candidate:
        parts = boxes(along.size, most_iterations(call))
        kernel = _row_kernel(lying, along, whole=len(parts) == 1)
        return Candidate(complete(kernel, parts), f"{_COLUMNS} pixels of a row")

    batch, channels = call.y.shape[0], call.y.shape[3]
    values = max(1, batch * channels // _lanes(call))
    count = ceil_div(call.device.parallel_invocations, values)

    def strips(strip: Strip, shared: bool) -> Candidate:
        kernels = complete(_strip_kernel(turned, down, strip), [NO_LOOPS])
        kernels = [replace(kernel, loop_iterations=_iterations(strip)) for kernel in kernels]
        reason = f"strips of {strip.rows} x {strip.columns} pixels{_OF_ALL_STRIDES * shared}"
        return Candidate(kernels, reason, quick_to_compile=shared and own is not None)

    own = strip_of(down, count)
    of_all = strip_of(down, count, shared=True) if call.device.software else None
    shared = () if of_all == own else (of_all,)
    found = [strip for strip in (*shared, own) if strip is not None]
    late = [strip for strip in found if strip.reads >= _most_reads(along, call.device.software)]
    yield from (strips(strip, strip is of_all) for strip in found if strip not in late)
    yield rows()
    yield from (strips(strip, strip is of_all) for strip in late)


def _turned(call: Call, window: Window, axis: int) -> tuple[Call, Window]:
    """Return a convolution of single rows (axis 0), as of a sound, as one of columns; or the other way round.

    Both lie alike in memory. Strips go down columns, other invocations along rows.
    """
    batch, height, width, depth = call.x.shape
    if ((height, width)[axis], window.size[axis], window.out[axis]) != (1, 1, 1) or window.before[axis]:
        return call, window
    x = call.x.with_shape((batch, width, height, depth))
    y = call.y.with_shape((batch, *window.out[::-1], call.y.shape[3]))
    return replace(call, inputs=(x, *call.inputs[1:]), outputs=(y,)), window.turned


def _lanes(call: Call) -> int:
    depth, channels = call.x.shape[3], call.y.shape[3]
    return vec_width(depth) if channels == depth else 1


def _kernel(
    call: Call, window: Window, body: str, count: int, params: Mapping[str, Param], reason: str
) -> Kernel:
    """Make a kernel of so many invocations for each V of channels, which a Complete completes."""
    _, height, width, depth = call.x.shape
    channels, lanes = call.y.shape[3], _lanes(call)
    multiplier, invocations = channels // depth, channels // lanes * count
    pixels = Pitch(depth, lanes)
    return Kernel(
        body=body,
        threads=flat_threads(invocations),
        reads=(
            Read("x", 0, lanes, pitch=pixels),
            Read("w", 1, lanes),
            Read("bias", 2 if call.has(2) else None, lanes),
        ),
        writes=(Write(width=lanes),),
        params={
            **window_params(window, height, width),
            **pixels.params("x"),
            "C": depth // lanes,
            "N": channels // lanes,
            "MULTIPLIER": multiplier,
            "count": invocations,
            **params,
        },
        functions=activation_function(call),
        libraries=("real", "chain"),
        lanes=lanes,
        reason=f"{reason} x {lanes} channels in registers"
        + ("" if lanes == 4 else f"; multiplier {multiplier}, {depth} input channels"),
    )


def _row_kernel(call: Call, window: Window, whole: bool) -> Kernel:
    """Make the kernel whose invocations compute some pixels of a row: `whole` sums, or any part of them."""
    across = ceil_div(window.out[1], _COLUMNS)
    count = across * call.y.shape[0] * window.out[0]
    kernel = _kernel(call, window, "depthwise_conv2d", count, {"TILES": across}, f"{_COLUMNS} pixels")
    size = known_size(window, call.device) if whole else UNKNOWN_SIZE
    return replace(kernel, constants={"SLIDE": int(_slides(window)), **size})


def _slides(window: Window) -> bool:
    """Tell whether windows of neighbouring pixels share all but one of their columns."""
    return window.stride[1] == window.dilation[1]


def _reads_of_row(window: Window) -> float:
    """Return how many V's _row_kernel() loads for each one of the result."""
    height, width = window.size
    pixels = width + _COLUMNS - 1 if _slides(window) else width * _COLUMNS
    return height * (pixels + width) / _COLUMNS


def _most_reads(window: Window, software: bool) -> float:
    """Return how much strips that come before rows read, at most, for each element of the result."""
    few = math.prod(window.size) <= _FEW_TAPS
    return _reads_of_row(window) * (1 if software else _OF_FEW_TAPS if few else _OF_MANY_TAPS)


def _strip_kernel(call: Call, window: Window, strip: Strip) -> Kernel:
    """Make the kernel whose invocations walk down strips."""
    down, across = strip.y.strips(strip.rows), strip.x.strips(strip.columns)
    params: dict[str, Param] = {
        "TILES": across,
        "STRIPS": down,
        "ROWS": strip.rows,
        "COLUMNS": strip.columns,
        "STEPS": strip.steps,
        "APART": (strip.y.apart, strip.x.apart),
        "TAPS": strip.taps,
    }
    reason = f"strips of {strip.rows} x {strip.columns} pixels"
    count = across * down * call.y.shape[0]
    kernel = _kernel(call, window, "depthwise_strip", count, params, reason)
    constants = {"LIVE": strip.live, "LINES": strip.spread[0], "TAPS_AT_ONCE": strip.taps_at_once}
    return replace(kernel, constants=constants, generated=strip.wgsl, unrolled=True)


def _iterations(strip: Strip) -> int:
    """Count the iterations of the loops of an invocation: over the taps, and down the strip."""
    return nested(strip.taps // strip.taps_at_once).iterations + nested(strip.rounds).iterations
