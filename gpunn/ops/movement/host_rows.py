"""Copies of rows on the host, and what joins tensors by them: a compiled loop that threads share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import Shared, integer_loops, real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import OF_COPIES, divided
from gpunn.ops.kernels.strides import dense, merge, places_along
from gpunn.ops.memory import LEAST_BYTES, empty
from gpunn.types import Array, DType, Shape

SHORTEST = 16  # bytes of a row: numpy copies shorter ones in less time


class RowCopies(NamedTuple):
    """The operands of the loop that say which rows go where, in bytes."""

    places: Array
    targets: Array
    sizes: tuple[int, int]
    steps: tuple[int, int]

    def bound(self, loop: Shared) -> Callable[[Array, Array], None]:
        """Return what copies rows of dense x to a dense result, by a loop for the threads in use."""
        rows, width = self.sizes
        count = len(self.places) * rows
        parts = divided(count, count * width / OF_COPIES)

        def write(x: Array, out: Array) -> None:
            loop(parts, x.reshape(-1).view(np.uint8), *self, out.reshape(-1).view(np.uint8))

        return write


def copy_loop() -> Shared | None:
    """Return the loop that a run shall use, of whatever it computes; None for numpy."""
    loops = real_loops() or integer_loops()
    return None if loops is None else loops.copy_rows


@lru_cache(1 << 8)
def row_copies(
    shape: Shape, steps: Shape, to: Shape, itemsize: int, start: int = 0, to_start: int = 0
) -> RowCopies | None:
    """Return the copies of a space of elements that has these steps in x and in the result.

    start, to_start: the first element in both. None for no elements, or short rows.
    """
    sizes, along, across = merge(shape, steps, to)
    if len(sizes) == 1:
        sizes, along, across = (1, *sizes), (0, *along), (0, *across)
    if len(sizes) < 2 or 0 in shape or along[-1] != 1 or across[-1] != 1:
        return None
    (*outer, rows, width), inner = sizes, (along[-2] * itemsize, across[-2] * itemsize)
    nbytes = width * itemsize
    if nbytes < SHORTEST:
        return None
    groups = [
        first * itemsize + places_along(*((n, step * itemsize) for n, step in zip(outer, walk, strict=False)))
        for first, walk in ((start, along), (to_start, across))
    ]
    return RowCopies(groups[0], groups[1], (rows, nbytes), inner)


def copies_of(x: Array, view: Array) -> RowCopies | None:
    """Return the copies that make a view of dense x a dense array; None as of row_copies()."""
    steps = tuple(stride // view.itemsize for stride in view.strides)
    start = (view.ctypes.data - x.ctypes.data) // view.itemsize
    return row_copies(view.shape, steps, dense(view.shape), view.itemsize, start)


def prepare_concat(call: Call) -> Callable[..., Array]:
    """Return what joins the inputs of a concat."""
    axis, shape = call.axis(call["axis"], call.y.rank), call.y.shape
    if call.y.dtype is DType.STRING:
        return lambda *xs: np.concatenate(xs, axis)
    copying, small = cache(partial(_copying, call, axis)), call.y.nbytes < LEAST_BYTES

    def join(*xs: Array) -> Array:
        write = copying(xs[0].dtype)
        if write is None:
            return np.concatenate(xs, axis, None if small else empty(shape, xs[0].dtype))
        result = empty(shape, xs[0].dtype)
        for x, write_one in zip(xs, write, strict=True):
            write_one(x, result)
        return of_loops(result)

    return join


def _copying(call: Call, axis: int, dtype: np.dtype[Any]) -> list[Callable[[Array, Array], None]] | None:
    """Return what copies each input to its place, in the loop for rows; None for numpy."""
    parts, steps = [call.input(k).shape for k in range(len(call.inputs))], dense(call.y.shape)
    starts = accumulate((part[axis] * steps[axis] for part in parts), initial=0)
    found = [
        row_copies(part, dense(part), steps, dtype.itemsize, to_start=start)
        for part, start in zip(parts, starts, strict=False)
    ]
    loop, copies = copy_loop(), [copy for copy in found if copy is not None]
    if loop is None or len(copies) < len(found):
        return None
    return [copy.bound(loop) for copy in copies]
