"""Pools of float32, and maxima of stored integers, on the CPU backend as a compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import integer_loops, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.pools import MAXIMA, MEANS, SIGNED, UNSIGNED
from gpunn.ops.compiled.sharing import Ends, divided
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.kernels.window import Window
from gpunn.ops.kernels.window_parts import side_by_side, window_parts
from gpunn.ops.memory import empty
from gpunn.types import Array, DType

KINDS = {"max_pool2d": MAXIMA, "average_pool2d": MEANS}
A_MICROSECOND = 1e4  # numbers of windows that a loop sees in one, or more
MOST_CELLS = 1 << 22  # of 8 bits, whose sums fit 32 bits
OF_BYTES = {DType.INT8: SIGNED, DType.UINT8: UNSIGNED}


def in_loop(call: Call, window: Window, otherwise: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a pool in a loop; where there is none, and of other kinds, what `otherwise` computes."""
    kind = KINDS.get(call.op)
    if kind is None:
        return otherwise
    operands = _operands(call, window)

    def pool(x: Array) -> Array:
        loops = real_loops()
        if loops is None:
            return otherwise(x)
        result = empty(call.y.shape, np.float32)
        parts, where = operands()
        loops.pools(parts, x.reshape(-1), kind, *where, result.reshape(-1))
        return of_loops(result)

    return pool


def maxima_in_loop(
    call: Call, window: Window, bounds: tuple[int, int], otherwise: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return a max pool of stored integers, between bounds, in a loop; of more than 8 bits `otherwise`."""
    kind, dtype = OF_BYTES.get(call.x.dtype), call.x.dtype.numpy
    if kind is None:
        return otherwise
    operands, clamps = _operands(call, window), bounds != LIMITS[call.x.dtype]

    def pool(x: Array) -> Array:
        loops = integer_loops()
        if loops is None:
            return otherwise(x)
        result = empty(call.y.shape, dtype)
        source, target = (array.reshape(-1).view(np.uint8) for array in (x, result))
        parts, where = operands()
        loops.pools(parts, source, kind, *where, target)
        return np.clip(result, *bounds, out=result) if clamps else of_loops(result)

    return pool


def means_in_loop(
    call: Call, window: Window, bounds: tuple[int, int], otherwise: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return an average pool of stored integers, between bounds, in a loop; of other ones `otherwise`."""
    operands, dtype = _operands(call, window), call.x.dtype.numpy
    if call.x.dtype not in OF_BYTES or math.prod(window.size) > MOST_CELLS:
        return otherwise

    def pool(x: Array) -> Array:
        loops = integer_loops()
        if loops is None:
            return otherwise(x)
        result = empty(call.y.shape, dtype)
        parts, where = operands()
        loops.mean_pools(parts, x.reshape(-1), *where, bounds, result.reshape(-1))
        return of_loops(result)

    return pool


def _operands(call: Call, window: Window) -> Callable[[], tuple[Ends, tuple[Any, ...]]]:
    """Return what makes parts of the loop, and operands that say where windows are; it does so once."""
    shape = call.x.shape

    @cache
    def operands() -> tuple[Ends, tuple[Any, ...]]:
        parts = window_parts(window, shape, side_by_side(window, shape[3]))
        steps, sizes = (parts.down, parts.beside, parts.apart), (parts.image, parts.across)
        rows = shape[0] * len(parts.rows)
        ends = divided(rows, rows * parts.across * math.prod(window.size) / A_MICROSECOND)
        return ends, (parts.rows, parts.columns, steps, sizes)

    return operands
