"""The gradients of reductions, running sums and pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpunn.ops.gradient import Backward, Gradient, Partial, Symbol, by_operand
from gpunn.ops.kernels.window import Window, pad_input, tap
from gpunn.ops.reduction.reduce_integer import reduced_axes
from gpunn.types import Shape


def _kept(back: Backward, tensor: Symbol) -> Symbol:
    """Return a tensor of the result's shape with 1 for the reduced axes."""
    axes = reduced_axes(back.call)
    return tensor.reshaped([1 if d in axes else n for d, n in enumerate(back.x.shape)])


def _sum(back: Backward) -> Symbol:
    return _kept(back, back.g).expanded(back.x.shape)


def _mean(back: Backward) -> Symbol | None:
    if not back.call.x.size:
        return None
    share = back.call.y.size / back.call.x.size
    return (_kept(back, back.g) * share).expanded(back.x.shape)


def _extreme(back: Backward) -> Symbol:
    """Divide the gradient among the elements that are equal to the result."""
    hits = back.x.of("equal", _kept(back, back.y)).of("cast", dtype=back.x.type.dtype.value)
    count = hits.summed(reduced_axes(back.call), keep_dims=True)
    return hits * (_kept(back, back.g) / count)


def _product(back: Backward) -> Symbol:
    """Return g times the product of the other elements, also where an element is 0."""
    x, axes = back.x, reduced_axes(back.call)
    zeros = x.of("equal", 0.0)
    others = zeros.of("select", x.symbol(1.0), x)
    count = zeros.of("cast", dtype=x.type.dtype.value).summed(axes, keep_dims=True)
    product = others.of("reduce_prod", axes=tuple(axes), keep_dims=True)
    only = zeros.of(
        "select", product * count.of("equal", 1.0).of("cast", dtype=x.type.dtype.value), x.symbol(0.0)
    )
    return _kept(back, back.g) * count.of("equal", 0.0).of("select", product / others, only)


REDUCTIONS: Mapping[str, Gradient] = {
    "reduce_sum": by_operand(_sum),
    "mean": by_operand(_mean),
    "reduce_max": by_operand(_extreme),
    "reduce_min": by_operand(_extreme),
    "reduce_prod": by_operand(_product),
}


def _cumsum(back: Backward) -> Symbol:
    attrs = {**back.call.attrs, "reverse": not back["reverse"]}
    along = back.inputs[1] if len(back.inputs) > 1 else None
    return back.g.of("cumsum", along, **attrs)


CUMSUM = by_operand(_cumsum)


def _greatest(back: Backward) -> Symbol | None:
    """Return zeros of x's shape with g where the values came from."""
    if not back.g.type.size:
        return None
    *leading, length = back.x.shape
    rows, picks = math.prod(leading), back.g.shape[-1]
    columns = back.results[1].reshaped((rows, picks, 1))
    lines = columns.constant(np.arange(rows)).reshaped((rows, 1, 1)).expanded((rows, picks, 1))
    places, values = lines.of("concat", columns, axis=2), back.g.reshaped((rows, picks))
    return places.of("scatter_nd", values, shape=(rows, length)).reshaped(back.x.shape)


TOP_K = by_operand(_greatest)


def unpool(outside: Callable[[int, int, int], int]) -> Gradient:
    """Make the gradient of max_unpool2d; `outside` counts cells of the first window before the result."""

    def partial(back: Backward) -> Symbol | None:
        """Return the gradient at the position of each value that remains: its number is found there."""
        x, positions, g = back.x, back.input(1), back.g
        if not x.type.size:
            return None
        (rows, columns), (down, across) = back["size"], back["stride"]
        _, height, width, channels = g.shape
        image, row, column, channel = np.indices(x.shape)
        top = row * down - outside(x.shape[1], rows, down)
        left = column * across - outside(x.shape[2], columns, across)
        first = positions.constant(((image * height + top) * width + left) * channels + channel)
        y = positions.of("floor_div", columns)
        place = first + y * (width * channels) + (positions - y * columns) * channels
        place = place.of("maximum", 0).of("minimum", g.type.size - 1)
        numbers = x.constant(np.arange(1, x.type.size + 1).reshape(x.shape))
        put = numbers.of("max_unpool2d", positions, size=back["size"], stride=back["stride"])

        def there(tensor: Symbol) -> Symbol:
            return tensor.reshaped((tensor.type.size,)).of("gather", place, axis=0)

        return there(put).of("equal", numbers).of("select", there(g), g.symbol(0.0))

    return by_operand(partial)


def cells_inside(shape: Shape, window: Window) -> Any:
    """Count the cells of each window that lie inside an image of `shape`: float64 [1, OH, OW, 1]."""
    inside = pad_input(np.ones((1, *shape[1:3], 1)), window)
    cells = (
        tap(inside, window, row, column) for row in range(window.size[0]) for column in range(window.size[1])
    )
    return sum(cells, np.zeros((1, *window.out, 1)))


def pools(window_of: Callable[[Backward], Window]) -> Mapping[str, Gradient]:
    """Make the gradients of the pools by name; `window_of` gives the window of a call."""

    def spread(back: Backward, g: Symbol, *positions: Symbol) -> Symbol:
        names = ("size", "stride", "padding")
        attrs = {name: back[name] for name in names}
        return g.of("spread_pool2d", *positions, spatial=tuple(back.x.shape[1:3]), **attrs)

    def shares(back: Backward) -> Symbol:
        window = window_of(back)
        return back.g * back.g.constant(1 / np.maximum(cells_inside(back.x.shape, window), 1))

    def average(back: Backward) -> Symbol:
        return spread(back, shares(back))

    def greatest(back: Backward) -> Symbol:
        attrs = {name: back[name] for name in ("size", "stride", "padding")}
        return spread(back, back.g, back.x.of("arg_max_pool2d", **attrs))

    def squares(back: Backward) -> Symbol:
        """Divide by the root; a window of zeros, which has no derivative, gets 0."""
        root = back.y.of("equal", 0.0).of("select", back.y.symbol(1.0), back.y)
        return spread(back, shares(back) / root) * back.x

    found: Mapping[str, Partial] = {
        "average_pool2d": average,
        "max_pool2d": greatest,
        "l2_pool2d": squares,
    }
    return {name: by_operand(partial) for name, partial in found.items()}
