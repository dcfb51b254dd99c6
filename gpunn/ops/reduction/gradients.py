"""The gradients of reductions, running sums and pools."""

from __future__ import annotations

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


REDUCTIONS: Mapping[str, Gradient] = {
    "reduce_sum": by_operand(_sum),
    "mean": by_operand(_mean),
    "reduce_max": by_operand(_extreme),
    "reduce_min": by_operand(_extreme),
}


def _cumsum(back: Backward) -> Symbol:
    attrs = {**back.call.attrs, "reverse": not back["reverse"]}
    along = back.inputs[1] if len(back.inputs) > 1 else None
    return back.g.of("cumsum", along, **attrs)


CUMSUM = by_operand(_cumsum)


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
        return spread(back, shares(back) / back.y) * back.x

    found: Mapping[str, Partial] = {
        "average_pool2d": average,
        "max_pool2d": greatest,
        "l2_pool2d": squares,
    }
    return {name: by_operand(partial) for name, partial in found.items()}
