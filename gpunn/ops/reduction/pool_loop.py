"""Pools of float32 on the CPU backend as a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import real_loops
from gpunn.ops.compiled.pools import MAXIMA, MEANS
from gpunn.ops.kernels.window import Window
from gpunn.ops.kernels.window_parts import side_by_side, window_parts
from gpunn.ops.memory import empty
from gpunn.types import Array

KINDS = {"max_pool2d": MAXIMA, "average_pool2d": MEANS}


def in_loop(call: Call, window: Window, otherwise: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a pool in a loop; where there is none, and of other kinds, what `otherwise` computes."""
    kind, shape = KINDS.get(call.op), call.x.shape
    if kind is None:
        return otherwise

    @cache
    def operands() -> tuple[Any, ...]:
        parts = window_parts(window, shape, side_by_side(window, shape[3]))
        steps, sizes = (parts.down, parts.beside, parts.apart), (shape[0], parts.image, parts.across)
        return parts.rows, parts.columns, steps, sizes

    def pool(x: Array) -> Array:
        loops = real_loops()
        if loops is None:
            return otherwise(x)
        result = empty(call.y.shape, np.float32)
        loops.pools(x.reshape(-1), kind, *operands(), result.reshape(-1))
        return result

    return pool
