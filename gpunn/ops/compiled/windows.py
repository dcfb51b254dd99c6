"""The machine code that windows over each channel by itself have in common: depthwise convolutions, pools.

A row of the result has parts (gpunn.ops.kernels.window_parts), in whose pixels the window sees cells of as
many rows and columns. What is found for some pixels and some vectors of channels is in registers together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from gpunn.ops.compiled.vectors import Code

# How many pixels at a time, and vectors of each: what belongs to a cell is loaded once for all of them. Three
# pixels need one register for their places.
STRIPS = ((3, (4, 2, 1)), (1, (4, 1)))

# The first number of x that a part sees; rows and columns of the window; and from one of these to the next
Cells = tuple[int, int, int, int, int]
# The first result; results of a pixel, pixels, and from one to the next in x
Part = tuple[int, int, int, int]

Load = Callable[[Any], Any]  # of a vector, or of what a short part has of it


class Walk(NamedTuple):
    """A place that goes along with the cells of the window: its steps from row to row and cell to cell."""

    place: Any
    row: Any
    cell: Any


class Arithmetic(Protocol):
    """The arithmetic of the cells of a window, for some vectors of numbers."""

    def walks(self) -> Sequence[Walk]:
        """Return the places that of_cell() takes, at the first cell."""

    def begin(self) -> Any:
        """Return what a vector begins with."""

    def of_cell(self, places: Sequence[Any]) -> Any:
        """Return what belongs to a cell of the window."""

    def add(self, found: Any, numbers: Any, of_cell: Any, vector: int) -> Any:
        """Return what is found with the numbers of a cell."""

    def finish(self, found: Sequence[Any]) -> Sequence[Any]:
        """Return the results of what is in memory, all vectors of a pixel after those of the one before."""


# Returns the arithmetic of so many vectors from a number on, which loads with a function
Make = Callable[[Any, int, Load], Arithmetic]


class PartCode:
    """The code of a part; cells, part: values of Cells and Part."""

    def __init__(
        self, code: Code, x: Any, cells: Sequence[Any], part: Sequence[Any], out: Any, make: Make
    ) -> None:
        self._code, self._cells, self._part, self._make = code, cells, part, make
        self._x, self._out = x.data, out.data
        self._kind = code.of(x.data.type.pointee)

    def write(self) -> None:
        """Write it."""
        code, of, (_, length, pixels, _) = self._code, self._code.builder, self._part
        short, done = of.icmp_signed("<", length, code.index(code.lanes)), code.index(0)
        for count, vectors in STRIPS:
            groups = of.udiv(of.sub(pixels, done), code.index(count))
            with code.utils.for_range(of, groups) as group:
                pixel = of.add(done, code.times(group.index, count))
                with of.if_else(short) as (few, many):
                    with few:
                        self._write_strip(pixel, count, code.index(0), 1, is_short=True)
                    with many:
                        self._write_pixels(pixel, count, vectors)
            done = of.add(done, code.times(groups, count))

    def _write_pixels(self, pixel: Any, count: int, vectors: Sequence[int]) -> None:
        """Write the code of so many pixels from one on: so many vectors at a time, the most first.

        The last one begins among the numbers of the one before.
        """
        code, of, (_, length, *_) = self._code, self._code.builder, self._part
        done = code.index(0)
        for together in vectors:
            size = code.index(together * code.lanes)
            left, last = of.sub(length, done), of.sub(length, size)
            steps = of.udiv(left, size) if together > 1 else code.parts(left, size)
            with code.utils.for_range(of, steps) as step:
                first = code.least(of.add(done, of.mul(step.index, size)), last)
                self._write_strip(pixel, count, first, together)
            done = of.add(done, of.mul(steps, size))

    def _write_strip(self, pixel: Any, count: int, first: Any, vectors: int, is_short: bool = False) -> None:
        """Write the code of so many pixels from one on, and so many vectors of each from a number on.

        is_short: the part has fewer numbers than the only vector.
        """
        (place, rows, columns, down, beside), (to, length, _, apart) = self._cells, self._part
        code, of, lanes = self._code, self._code.builder, self._code.lanes
        load: Load = partial(code.load, kind=self._kind)
        store = code.store
        if is_short:
            load = partial(code.load_first, fill=self._kind(None), count=length)
            store = partial(code.store_first, count=length)
        arithmetic = self._make(first, vectors, load)

        def start(data: Any, at: Any, step: Any) -> Any:
            return code.opaque(of.gep(data, [of.add(of.add(at, first), of.mul(pixel, step))]))

        def places(start: Any, step: Any) -> list[Any]:
            pixels = (of.gep(start, [code.times(step, p)]) for p in range(count))
            return [code.behind(pixel, k * lanes) for pixel in pixels for k in range(vectors)]

        targets = places(start(self._out, to, length), length)
        found = [code.utils.alloca_once(of, self._kind) for _ in targets]
        for numbers, target in zip(found, targets, strict=True):
            of.store(arithmetic.begin(), numbers)
            code.prefetch(target, for_writing=True)
        walks = [Walk(start(self._x, place, apart), down, beside), *arithmetic.walks()]
        with code.walk(rows, [(walk.place, walk.row) for walk in walks]) as of_row:
            steps = [walk.cell for walk in walks]
            with code.walk(columns, list(zip(of_row, steps, strict=True))) as (seen, *others):
                of_cell = arithmetic.of_cell(others)
                for k, (numbers, cell) in enumerate(zip(found, places(seen, apart), strict=True)):
                    total = arithmetic.add(of.load(numbers), load(cell), of_cell, k % vectors)
                    of.store(total, numbers)
        for results, target in zip(arithmetic.finish(found), targets, strict=True):
            store(results, target)
