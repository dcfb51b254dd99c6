"""Gradients of convolutions with respect to their filters: conv2d_filter_gradient, depthwise_filter_gradient.

Each weight is a sum over all pixels of the result, of the product of the gradient there and the input that
the weight meets. There are few weights and many pixels, so a GPU computes sums over parts of the pixels, and
then adds these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.device import SUBGROUPS
from gpunn.kernel import (
    Candidate,
    Kernel,
    Loop,
    Read,
    Unsupported,
    Write,
    ceil_div,
    fits_i32,
    flat_threads,
    nested,
    vec_width,
)
from gpunn.ops.accuracy import sums
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_dtype, expect_int, expect_ints
from gpunn.ops.contraction.broadcast_tile import SHARED_ROWS, subgroup
from gpunn.ops.contraction.filter_packing import STEP
from gpunn.ops.kernels.added_parts import added_parts
from gpunn.ops.kernels.tiling import WORKGROUP
from gpunn.ops.kernels.window import (
    Padding,
    Pair,
    Window,
    check_window,
    pad_input,
    resolve,
    tap,
    window_params,
)
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType

TILE = 8  # input and output channels whose sums an invocation keeps
_LEAST, _MOST = 32, 4096  # pixels of a part: more would round more often
_MOST_BYTES = 1 << 26  # of the sums over parts
_MOST_CELLS = 25  # of a window whose sums an invocation keeps


def _window(call: Call) -> Window:
    height, width = expect_ints(call, "size", 2)
    return check_window(call, (call.x.shape[1], call.x.shape[2]), (height, width))


def _check(call: Call) -> Window:
    """Return the window; raise ModelError unless the gradient has a pixel for each of its places."""
    x, g = call.expect_rank(0, 4), call.expect_rank(1, 4)
    for index in range(2):
        expect_dtype(call, index, *FLOATS)
    window = _window(call)
    if x.dtype is not g.dtype or g.shape[:3] != (x.shape[0], *window.out):
        call.fail(f"the gradient should be {x.dtype.value} [{x.shape[0]}, {window.out}, channels], got {g}")
    return window


def _infer_conv2d(call: Call) -> TensorType:
    window = _check(call)
    depth, channels = call.x.shape[3], call.input(1).shape[3]
    groups = expect_int(call, "groups", call["groups"])
    if groups < 1 or depth % groups or channels % groups:
        call.fail(f"{depth} and {channels} channels cannot be divided into {groups} groups")
    return call.x.with_shape((channels, *window.size, depth // groups))


def _pixels(call: Call) -> int:
    return math.prod(call.input(1).shape[:3])


@dataclass(frozen=True, slots=True)
class _Terms:
    """State what is divided into parts: how many pixels or lines, the bounds of a part, its loops."""

    name: str
    count: int
    least: int
    most: int
    loops: Callable[[int], Loop]


def _by_pixels(call: Call) -> _Terms:
    return _Terms("pixels", _pixels(call), _LEAST, _MOST, nested)


def _by_lines(call: Call, size: Pair) -> _Terms:
    """Divide lines of pixels, for invocations that walk along them with the whole window."""
    *lines, along, _ = call.input(1).shape

    def loops(share: int) -> Loop:
        pixel = Loop(along, (nested(*size), Loop(math.prod(size))))
        return Loop(share, (nested(*size), pixel))

    least, most = (max(pixels // along, 1) for pixels in (_LEAST, _MOST))
    return _Terms("lines", math.prod(lines), least, most, loops)


def _in_parts(call: Call, kernel: Kernel, invocations: int, terms: _Terms) -> list[Kernel]:
    """Return a kernel that sums over parts of the terms, with invocations of each, and one that adds."""
    limit, most = call.device.max_loop_iterations, terms.most
    if limit is not None:
        most = max(min(most, limit // terms.loops(1).iterations), 1)
    parts = min(ceil_div(call.device.parallel_invocations, invocations), ceil_div(terms.count, terms.least))
    parts = max(min(parts, _MOST_BYTES // (4 * call.y.size)), ceil_div(terms.count, most), 1)
    share = ceil_div(terms.count, parts)
    parts = ceil_div(terms.count, share)
    first = replace(
        kernel,
        threads=flat_threads(invocations * parts),
        params={
            **kernel.params,
            "count": invocations * parts,
            "units": invocations,
            "share": share,
            "M": terms.count,
            "SIZE": call.y.size,
        },
        loop_iterations=terms.loops(share).iterations,
        reason=f"{kernel.reason}, {parts} parts of {terms.count} {terms.name}",
    )
    return [first] if parts == 1 else added_parts(call, first, parts)


def _conv2d_kernels(call: Call) -> Iterator[Candidate]:
    _expect_terms(call)
    device, fours = call.device, vec_width(call.y.shape[0], call.y.shape[3]) == 4
    if call["groups"] == 1 and fours and device.software and subgroup(device) == STEP:
        yield Candidate(_by_subgroups(call), "products of subgroups", frozenset({SUBGROUPS}))
    yield Candidate(_by_tiles(call), "tiles of input and output channels")


def _by_subgroups(call: Call) -> list[Kernel]:
    window = _window(call)
    _, height, width, _ = call.x.shape
    cells, fours = math.prod(window.size), call.y.shape[3] // 4
    padded = ceil_div(call.y.shape[0], SHARED_ROWS) * SHARED_ROWS
    wide = int(fours > STEP)
    across = ceil_div(fours, STEP * (1 + wide))
    kernel = Kernel(
        body="conv2d_filter_subgroup",
        threads=(1, 1, 1),
        workgroup=WORKGROUP,
        reads=(Read("x", 0, 4), Read("g", 1, 4)),
        writes=(Write(width=4),),
        params={
            **window_params(window, height, width),
            "N4": fours,
            "ACROSS": across,
            "N": call.y.shape[0],
            "ROWS": padded,
            "CELLS": cells,
        },
        constants={"WIDE": wide, "POINTWISE": int(window.pointwise)},
        reason=f"{SHARED_ROWS} output channels x 8 input channels of a cell, which a subgroup shares",
    )
    return _in_parts(call, kernel, across * cells * padded // SHARED_ROWS * STEP, _by_pixels(call))


def _by_tiles(call: Call) -> list[Kernel]:
    window = _window(call)
    _, height, width, channels = call.x.shape
    outputs, groups, depth = call.y.shape[0], call["groups"], call.y.shape[3]
    of_group = outputs // groups
    across, blocks = ceil_div(depth, TILE), ceil_div(of_group, TILE)
    fours = {"X_FOURS": vec_width(depth), "G_FOURS": vec_width(of_group)}
    kernel = Kernel(
        body="conv2d_filter_gradient",
        threads=(1, 1, 1),
        reads=(Read("x", 0, fours["X_FOURS"]), Read("g", 1, fours["G_FOURS"])),
        writes=(Write(width=fours["X_FOURS"]),),
        params={
            **window_params(window, height, width),
            "C": channels,
            "N": outputs,
            "DEPTH": depth,
            "OF_GROUP": of_group,
            "ACROSS": across,
            "BLOCKS": blocks,
        },
        constants={**fours, "POINTWISE": int(window.pointwise)},
        reason=f"{TILE} input x {TILE} output channels of a cell in registers",
    )
    return _in_parts(call, kernel, across * blocks * groups * math.prod(window.size), _by_pixels(call))


def _expect_terms(call: Call) -> None:
    """Raise Unsupported where there is nothing to add, or more than the shaders can count."""
    if not math.prod(call.input(1).shape[:3]):
        raise Unsupported("sums without a term")
    if not fits_i32(call.x.size, call.input(1).size, call.y.size):
        raise Unsupported("more elements than the shaders can count")


@op(
    _infer_conv2d,
    _conv2d_kernels,
    flops=lambda call: 2 * call.input(1).size * math.prod(call.y.shape[1:]),
    unbounded=True,
    precise=True,
    accuracy=sums(_pixels),
)
def conv2d_filter_gradient(
    x: Array,
    g: Array,
    *,
    size: Sequence[int],
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = "valid",
    groups: int = 1,
) -> Array:
    """Compute the gradient of a conv2d with respect to its filter.

    x [N, H, W, C], the input of the convolution; g [N, OH, OW, O], the gradient with respect to its result;
    result [O, *size, C / groups]: sums over all images and places of the product of g and the cell of x that
    the weight meets there. Attributes as in conv2d. dtype: float32 or float16. Raises ModelError for other
    dtypes, and unless such a convolution of x gives OH and OW. Meaning: the gradient of CONV_2D in
    NeuralNetworks.h, and of the updatable convolutions in NeuralNetwork.proto of Core ML.
    """
    window = resolve((x.shape[1], x.shape[2]), (size[0], size[1]), stride, dilation, padding)
    padded, (batch, *out, channels) = pad_input(x, window), g.shape
    depth = x.shape[3] // groups
    gradients = g.reshape(batch * math.prod(out), groups, channels // groups).transpose(1, 2, 0)
    result = np.empty((channels, *window.size, depth), x.dtype)
    for row in range(window.size[0]):
        for column in range(window.size[1]):
            cells = tap(padded, window, row, column).reshape(-1, groups, depth).transpose(1, 0, 2)
            result[:, row, column] = (gradients @ cells).reshape(channels, depth)
    return result


def _infer_depthwise(call: Call) -> TensorType:
    window = _check(call)
    depth, channels = call.x.shape[3], call.input(1).shape[3]
    if depth == 0 or channels % depth:
        call.fail(f"the gradient has {channels} channels, which is no multiple of the input's {depth}")
    return call.x.with_shape((1, *window.size, channels))


def _depthwise_kernels(call: Call) -> Iterator[Candidate]:
    _expect_terms(call)
    window = _window(call)
    cells = math.prod(window.size)
    kernel = _depthwise_kernel(call, window)
    units = call.y.size // cells // kernel.lanes
    if cells <= _MOST_CELLS:
        body, size = "depthwise_filter_lines", dict(zip(("HIGH", "WIDE"), window.size, strict=True))
        constants = {**size, "SLIDE": int(window.stride[1] == window.dilation[1])}
        reason = f"all cells of {kernel.lanes} channels"
        lines = replace(kernel, body=body, constants=constants, reason=reason)
        yield Candidate(_in_parts(call, lines, units, _by_lines(call, window.size)), reason)
    yield Candidate(_in_parts(call, kernel, units * cells, _by_pixels(call)), "one cell an invocation")


def _depthwise_kernel(call: Call, window: Window) -> Kernel:
    """Make the kernel that _in_parts() completes."""
    _, height, width, depth = call.x.shape
    channels = call.y.shape[3]
    lanes = vec_width(depth) if channels == depth else 1
    return Kernel(
        body="depthwise_filter_gradient",
        threads=(1, 1, 1),
        reads=(Read("x", 0, lanes), Read("g", 1, lanes)),
        writes=(Write(width=lanes),),
        params={
            **window_params(window, height, width),
            "C": depth // lanes,
            "N": channels // lanes,
            "MULTIPLIER": channels // depth,
        },
        lanes=lanes,
        reason=f"{lanes} channels of a cell",
    )


@op(
    _infer_depthwise,
    _depthwise_kernels,
    flops=lambda call: 2 * call.input(1).size * math.prod(call.y.shape[1:3]),
    unbounded=True,
    precise=True,
    accuracy=sums(_pixels),
)
def depthwise_filter_gradient(
    x: Array,
    g: Array,
    *,
    size: Sequence[int],
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = "valid",
) -> Array:
    """Compute the gradient of a depthwise_conv2d with respect to its filter.

    x [N, H, W, C], the input of the convolution; g [N, OH, OW, C * multiplier], the gradient with respect to
    its result; result [1, *size, C * multiplier]: sums over all images and places of the product of g and the
    cell of x that the weight meets there. Attributes as in depthwise_conv2d. dtype: float32 or float16.
    Raises ModelError for other dtypes, and unless such a convolution of x gives OH and OW. Meaning: the
    gradient of DEPTHWISE_CONV_2D in NeuralNetworks.h.
    """
    window = resolve((x.shape[1], x.shape[2]), (size[0], size[1]), stride, dilation, padding)
    channels = g.shape[3]
    padded = pad_input(np.repeat(x, channels // x.shape[3], axis=3), window)
    result = np.empty((1, *window.size, channels), x.dtype)
    for row in range(window.size[0]):
        for column in range(window.size[1]):
            result[0, row, column] = np.einsum("nyxc,nyxc->c", tap(padded, window, row, column), g)
    return result


OPS: tuple[Op, ...] = (conv2d_filter_gradient, depthwise_filter_gradient)
