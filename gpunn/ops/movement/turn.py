"""Dense copies of transposed arrays on the host.

numpy walks along the last dimension of the result. Where neighbours there lie far apart in the operand, a
cache line is fetched for one element, and is gone when the next one of it is due. So strips of the last
dimension are copied, the dimension along which elements lie side by side next to it. A compiled loop does
more: it reads and writes rows of elements that lie side by side, and turns them in registers.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.compiled import Shared, integer_loops, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.compiled.turn import COLUMNS
from gpunn.ops.kernels.strides import dense, merge, places_along
from gpunn.ops.kernels.window import strided
from gpunn.ops.memory import LEAST_BYTES, empty
from gpunn.ops.movement.host_rows import copies_of, copy_loop
from gpunn.types import Array, Shape

LINE = 64  # bytes that the CPU fetches at once
PAGE = 1 << 12  # bytes; lines that lie so far apart have the same place in the nearest cache
NEAR = 3 << 16  # bytes of lines that are fetched between two elements side by side, and are still near then
STRIP = 64  # elements
LEAST = 1 << 10  # elements of a copy, which is worth a call of numpy's
KINDS = {4: np.uint32, 1: np.uint8}  # of elements that loops turn, by their bytes


def turned(x: Array, view: Array) -> Array:
    """Return a transposed view of dense x as a dense array."""
    loop = _loop_for(view.itemsize) if view.size >= LEAST else None
    matrices = None if loop is None else matrices_of(view.shape, view.strides, view.itemsize)
    if loop is not None and matrices is not None:
        copy, kind = empty(view.shape, view.dtype), KINDS[view.itemsize]
        places, *_, (_, columns), _ = matrices
        parts = rows_divided(len(places) * ceil_div(columns, COLUMNS), view.size)
        loop(parts, x.reshape(-1).view(kind), *matrices, copy.reshape(-1).view(kind))
        return of_loops(copy)
    copying = copy_loop() if view.nbytes >= LEAST_BYTES else None
    copies = None if copying is None else copies_of(x, view)
    if copies is not None and copying is not None:
        copy = empty(view.shape, view.dtype)
        copies.bound(copying)(x, copy)
        return of_loops(copy)
    found = strips(view)
    if found is None:
        return np.asarray(view, order="C")
    shape, steps, beside = found
    result = empty(view.shape, view.dtype)
    source, target = strided(x, shape, steps), result.reshape(shape)
    outer = (slice(None),) * (beside + 1)
    for place in np.ndindex(shape[beside + 1 : -1]):
        for first in range(0, shape[-1], STRIP):
            part = *outer, *place, slice(first, first + STRIP)
            target[part] = source[part]
    return result


def _loop_for(nbytes: int) -> Shared | None:
    """Return the loop for elements of so many bytes that a run shall use; None for numpy."""
    loops = real_loops() if nbytes == 4 else integer_loops() if nbytes == 1 else None
    return None if loops is None else loops.turn


Matrices = tuple[Array, Array, tuple[int, int], tuple[int, int]]


@lru_cache(1 << 6)
def matrices_of(shape: Shape, strides: Shape, nbytes: int) -> Matrices | None:
    """Return the matrices of elements of so many bytes that a view consists of; None if rows are short."""
    sizes, steps = merge(shape, tuple(stride // nbytes for stride in strides))
    if len(sizes) < 2 or 1 not in steps[:-1]:
        return None
    column = steps.index(1)
    if sizes[column] < COLUMNS:
        return None
    targets = dense(sizes)
    others = [d for d in range(len(sizes) - 1) if d != column]
    places, copies = (places_along(*((sizes[d], along[d]) for d in others)) for along in (steps, targets))
    return places, copies, (sizes[-1], sizes[column]), (steps[-1], targets[column])


def strips(view: Array) -> tuple[Shape, Shape, int] | None:
    """Return shape and steps of a view with as few dimensions as possible, and that of elements side by side.

    None where numpy copies it as quickly.
    """
    if view.nbytes < LEAST_BYTES:
        return None
    shape, steps = merge(view.shape, view.strides)
    if steps[-1] == view.itemsize:
        return None
    beside, last = steps.index(min(steps)), shape[-1]
    between = math.prod(shape[beside + 1 : -1])
    same_place = max(1, math.gcd(steps[-1], PAGE) // LINE)
    near = between * last * LINE * same_place < NEAR
    return None if near or view.size < LEAST * between * ceil_div(last, STRIP) else (shape, steps, beside)
