"""The gradients of convolutions and matrix products.

With respect to the input of a convolution: the gradient is dilated by the stride and convolved with the
filter turned around, or a transposed convolution does so. With respect to the filter: each weight gathers the
products of the input and the gradient over all pixels (filter_gradient.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from gpunn.ops.gradient import Backward, Symbol, by_operand
from gpunn.ops.kernels.window import Pair, Window, along, resolve


def _window(back: Backward) -> Window:
    """Return the window of a convolution."""
    (_, height, width, _), (_, *size, _) = back.x.shape, back.input(1).shape
    return resolve((height, width), (size[0], size[1]), back["stride"], back["dilation"], back["padding"])


def _bias(back: Backward) -> Symbol:
    return back.g.summed(range(len(back.g.shape) - 1))


def _turned(filter: Symbol) -> Symbol:
    """Return the filter turned around by half a circle: both of its axes 1 and 2 reversed."""
    if filter.shape[1:3] == (1, 1):
        return filter
    axes = Symbol(filter.to, filter.to.constant(np.array([1, 2], np.int32)))
    return filter.of("reverse", axes)


def _to_input(g: Symbol, x: Sequence[int], window: Window) -> tuple[Symbol, tuple[Pair, Pair]]:
    """Return the gradient dilated by the stride, and the padding of the convolution that leads back to x."""
    reach = [(n - 1) * d + 1 for n, d in zip(window.size, window.dilation, strict=True)]
    spread = [(n - 1) * s + 1 for n, s in zip(window.out, window.stride, strict=True)]
    before = [r - 1 - b for r, b in zip(reach, window.before, strict=True)]
    after = [n + r - 1 - s - b for n, r, s, b in zip(x[1:3], reach, spread, before, strict=True)]
    pairs = list(zip(before, after, strict=True))
    # Zeros behind the last element, which dilate has anyway, are not added by the convolution.
    cut = [(min(b, 0), min(a, s - 1)) for (b, a), s in zip(pairs, window.stride, strict=True)]
    if window.stride != (1, 1) or any(map(any, cut)):
        around = ((0, 0), *cut, (0, 0))
        g = g.of("dilate", steps=(1, *window.stride, 1), paddings=around)
    (top, bottom), (left, right) = ((max(b, 0), a - c) for (b, a), (_, c) in zip(pairs, cut, strict=True))
    return g, ((top, bottom), (left, right))


def _conv2d_input(back: Backward) -> Symbol:
    window, filter = _window(back), back.input(1)
    channels, height, width, depth = filter.shape
    groups = back.x.shape[3] // depth
    if groups == 1 and window.pointwise:
        rows = back.g.reshaped((-1, channels)).of("batch_matmul", filter.reshaped((channels, depth)))
        return rows.reshaped(back.x.shape)
    if groups == 1 and window.stride != (1, 1) and window.dilation == (1, 1):
        attrs = {"size": back.x.shape[1:3], "stride": window.stride, "padding": back["padding"]}
        return back.g.of("transpose_conv2d", filter.of("transpose", perm=(3, 1, 2, 0)), **attrs)
    apart = filter.reshaped((groups, channels // groups, height, width, depth))
    swapped = apart.of("transpose", perm=(0, 4, 2, 3, 1))
    swapped = _turned(swapped.reshaped((back.x.shape[3], height, width, channels // groups)))
    g, padding = _to_input(back.g, back.x.shape, window)
    return g.of("conv2d", swapped, dilation=window.dilation, padding=padding)


def _filter_attributes(back: Backward, window: Window) -> dict[str, object]:
    return {
        "size": window.size,
        "stride": window.stride,
        "dilation": window.dilation,
        "padding": back["padding"],
    }


def _conv2d_filter(back: Backward) -> Symbol:
    depth = back.input(1).shape[3]
    attrs = _filter_attributes(back, _window(back))
    return back.x.of("conv2d_filter_gradient", back.g, groups=back.x.shape[3] // max(depth, 1), **attrs)


def _depthwise_input(back: Backward) -> Symbol:
    window, filter = _window(back), back.input(1)
    g, padding = _to_input(back.g, back.x.shape, window)
    found = g.of("depthwise_conv2d", _turned(filter), dilation=window.dilation, padding=padding)
    return _first_of_each(found, back.x.shape)


def _first_of_each(found: Symbol, shape: Sequence[int]) -> Symbol:
    """Sum the channels that a multiplier made of each input channel."""
    multiplier = found.shape[3] // shape[3]
    if multiplier == 1:
        return found
    return found.reshaped((*shape, multiplier)).summed([4])


def _depthwise_filter(back: Backward) -> Symbol:
    attrs = _filter_attributes(back, _window(back))
    return back.x.of("depthwise_filter_gradient", back.g, **attrs)


def _transposed_input(back: Backward) -> Symbol:
    attrs = {"stride": back["stride"], "padding": back["padding"]}
    return back.g.of("conv2d", back.input(1).of("transpose", perm=(3, 1, 2, 0)), **attrs)


def _transposed_filter(back: Backward) -> Symbol:
    size = back.input(1).shape[1:3]
    attrs = {"size": size, "stride": back["stride"], "padding": back["padding"]}
    found = back.g.of("conv2d_filter_gradient", back.x, **attrs)
    return found.of("transpose", perm=(3, 1, 2, 0))


def _conv3d_input(back: Backward) -> Symbol:
    names = ("stride", "padding", "dilation", "groups")
    attrs = {name: back[name] for name in names}
    return back.g.of("transpose_conv3d", back.input(1), size=back.x.shape[1:4], **attrs)


def _conv3d_filter(back: Backward) -> Symbol:
    """Return for each cell of the filter the product of what it sees of x with the gradient."""
    *size, depth, channels = back.input(1).shape
    stride, dilation, groups = (back[name] for name in ("stride", "dilation", "groups"))
    out = back.g.shape[1:4]
    spans = [
        along(n, k, s, d, back["padding"])
        for n, k, s, d in zip(back.x.shape[1:4], size, stride, dilation, strict=True)
    ]
    x = back.x.of("pad", paddings=((0, 0), *((before, after) for before, after, _ in spans), (0, 0)))
    whole = x.shape[0], x.shape[4]

    def by_group(rows: Symbol, each: int) -> Symbol:
        apart = rows.reshaped((math.prod(rows.shape[:-1]), groups, each))
        return apart.of("transpose", perm=(1, 0, 2))

    g = by_group(back.g, channels // groups)
    cells: list[Symbol] = []
    for cell in itertools.product(*map(range, size)):
        begin = [k * d for k, d in zip(cell, dilation, strict=True)]
        end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, out, stride, strict=True)]
        seen = x.of(
            "strided_slice",
            begin=(0, *begin, 0),
            end=(whole[0], *end, whole[1]),
            strides=(1, *stride, 1),
        )
        found = by_group(seen, depth).of("batch_matmul", g, adj_a=True)
        cells.append(found.of("transpose", perm=(1, 0, 2)).reshaped((depth, channels)))
    return cells[0].of("stack", *cells[1:], axis=0).reshaped((*size, depth, channels))


def _rows(back: Backward) -> tuple[Symbol, Symbol]:
    """Return the input and the gradient of a fully connected layer as matrices."""
    channels, depth = back.input(1).shape
    rows = math.prod(back.g.shape[:-1])
    return back.x.reshaped((rows, depth)), back.g.reshaped((rows, channels))


def _connected_input(back: Backward) -> Symbol:
    _, g = _rows(back)
    return g.of("batch_matmul", back.input(1)).reshaped(back.x.shape)


def _connected_filter(back: Backward) -> Symbol:
    x, g = _rows(back)
    return g.of("batch_matmul", x, adj_a=True)


def _left(back: Backward) -> Symbol:
    other, adjoint = back.input(1), back["adj_b"]
    if back["adj_a"]:
        return other.of("batch_matmul", back.g, adj_a=adjoint, adj_b=True)
    return back.g.of("batch_matmul", other, adj_b=not adjoint)


def _right(back: Backward) -> Symbol:
    adjoint = back["adj_a"]
    if back["adj_b"]:
        return back.g.of("batch_matmul", back.x, adj_a=True, adj_b=adjoint)
    return back.x.of("batch_matmul", back.g, adj_a=not adjoint)


def _unless_empty(partial: Callable[[Backward], Symbol]) -> Callable[[Backward], Symbol | None]:
    """Return a partial derivative that is 0 where a sum has no terms."""
    return lambda back: partial(back) if back.call.y.size and back.call.x.size else None


CONV2D = by_operand(_unless_empty(_conv2d_input), _unless_empty(_conv2d_filter), _bias)
DEPTHWISE = by_operand(_unless_empty(_depthwise_input), _unless_empty(_depthwise_filter), _bias)
TRANSPOSE_CONV2D = by_operand(_unless_empty(_transposed_input), _unless_empty(_transposed_filter), _bias)
CONV3D = by_operand(_unless_empty(_conv3d_input), _unless_empty(_conv3d_filter), _bias)
FULLY_CONNECTED = by_operand(_unless_empty(_connected_input), _unless_empty(_connected_filter), _bias)
BATCH_MATMUL = by_operand(_unless_empty(_left), _unless_empty(_right))
