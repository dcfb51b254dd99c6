"""The gradients of resizing: it is linear, rows and columns apart, so each is a product with a matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpunn.ops.gradient import Backward, Gradient, Symbol, by_operand
from gpunn.types import Array


def resize(meaning: Callable[[str], Callable[..., Array]]) -> Gradient:
    """Make the gradient of a resizing; `meaning` gives what an op computes in numpy, by its name."""

    def matrix(back: Backward, extent: int, out: int) -> Symbol:
        """Return [out, extent]: how much each row of the result takes of each row of the image."""
        attrs = {**back.call.attrs, "size": (out, 1)}
        rows = np.eye(extent).reshape(1, extent, 1, extent)
        return back.g.constant(meaning(back.call.op)(rows, **attrs).reshape(out, extent))

    def partial(back: Backward) -> Symbol | None:
        batch, height, width, channels = back.x.shape
        _, rows, columns, _ = back.g.shape
        if not back.call.x.size:
            return None
        down = matrix(back, height, rows).of(
            "batch_matmul", back.g.reshaped((batch, rows, columns * channels)), adj_a=True
        )
        across = matrix(back, width, columns).of(
            "batch_matmul", down.reshaped((batch * height, columns, channels)), adj_a=True
        )
        return across.reshaped(back.x.shape)

    return by_operand(partial)
