"""Pointwise: what a kernel computes element by element; Appended: where another kernel computes it, too.

Nothing here needs a device. gpunn.planning.append and prepend decide, gpunn.backends.webgpu.appended and
prepended write the WGSL.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from gpunn.types import DType, Shape


class Repeat(NamedTuple):
    """The element of an operand that belongs to element i of a result: (i / inner) % period.

    Or i / every * period more, where each `every` elements have a period of their own. With `row`, rows of
    the operand have `period` elements and those of the result `row`: the operand's stand behind `before`
    others, and all others are `fill`, a parameter of the kernel.
    """

    period: int
    inner: int = 1
    every: int = 0
    row: int = 0
    before: int = 0
    fill: int | float = 0

    @classmethod
    def along(cls, sizes: Shape, strides: Shape) -> Repeat | None:
        """Return how a tensor repeats along a merged space (gpunn.ops.kernels.strides).

        None if it stands still in a dimension between two along which it moves, unless these three are all.
        """
        moving = [k for k, stride in enumerate(strides) if stride]
        if not moving:
            return cls(1)
        if len(sizes) == 3 and strides == (sizes[2], 0, 1):
            return cls(sizes[2], every=sizes[1] * sizes[2])
        first, last = moving[0], moving[-1]
        period = inner = 1
        for size, stride in zip(sizes[first : last + 1][::-1], strides[first : last + 1][::-1], strict=True):
            if stride != period:
                return None
            period *= size
        for size in sizes[last + 1 :]:
            inner *= size
        return cls(period, inner)


class Pointwise(NamedTuple):
    """A kernel's result element by element: an expression in the kernel's functions and its operands.

    `operands` are the reads that the expression names, each with the element that it stands for. The
    functions need nothing else of the kernel but its parameters, its libraries and its other reads. `signs`:
    of the operands, where the expression is a sum of these reals or a function of it.
    """

    expression: str
    operands: Mapping[str, Repeat]
    signs: tuple[int, ...] = ()


class Reach(enum.Enum):
    """The elements of an operand that stores or loads need; see Repeat.

    DENSE: those at the same places. FIRST: the only one. PERIOD: those at i modulo a period; FOURS: and four
    elements that are stored together have four that lie together. SPREAD: those at (i / inner) % period;
    SHARED: and four elements that are stored together share one. PARTS: each part of the result has a period
    of its own; PARTS_FOURS: and four elements that are stored together have four that lie together. PADDED:
    those of a shorter row, with fills around it; PADDED_FOURS: and four elements that are stored together
    have four of the row, or four fills.
    """

    DENSE = "dense"
    FIRST = "first"
    PERIOD = "period"
    FOURS = "fours"
    SPREAD = "spread"
    SHARED = "shared"
    PARTS = "parts"
    PARTS_FOURS = "parts_fours"
    PADDED = "padded"
    PADDED_FOURS = "padded_fours"

    @classmethod
    def of(cls, repeat: Repeat, size: int) -> Reach:
        """Return what stores or loads of a result of `size` elements need."""
        if repeat.row:
            fours = repeat.period % 4 == repeat.row % 4 == repeat.before % 4 == 0
            return cls.PADDED_FOURS if fours else cls.PADDED
        if repeat.every:
            return cls.PARTS if repeat.period % 4 else cls.PARTS_FOURS
        if repeat.period == 1:
            return cls.FIRST
        if repeat.inner > 1:
            return cls.SPREAD if repeat.inner % 4 else cls.SHARED
        if repeat.period == size:
            return cls.DENSE
        return cls.PERIOD if repeat.period % 4 else cls.FOURS

    @property
    def together(self) -> bool:
        """Tell whether four elements are loaded together."""
        return self in (Reach.DENSE, Reach.FOURS, Reach.PARTS_FOURS, Reach.PADDED_FOURS)

    @property
    def in_parts(self) -> bool:
        """Tell whether each part of the result has a period of its own."""
        return self in (Reach.PARTS, Reach.PARTS_FOURS)

    @property
    def padded(self) -> bool:
        """Tell whether rows of the operand are shorter than those of the result."""
        return self in (Reach.PADDED, Reach.PADDED_FOURS)


class Formula(NamedTuple):
    """A function of such an operation: an expression in its parameters.

    `dtypes`: whose elements the parameters are, and then the result.
    """

    name: str
    params: tuple[str, ...]
    expression: str
    dtypes: tuple[DType, ...]


class Appended(NamedTuple):
    """An elementwise operation that a kernel computes of each value before it stores it, or behind a load.

    Value 0 is what the kernel's body stores, or what is loaded, value k the result of the k-th such
    operation; it has `dtype`. `expression`: of Pointwise. `values` and `reads` say what an operand in it
    stands for: a value by its number, or the read of the kernel that has this name behind `prefix`. The
    parameters and the reads that the formulas name have `prefix`, too.
    """

    prefix: str
    expression: str
    formulas: tuple[Formula, ...]
    values: tuple[tuple[str, int], ...]
    reads: tuple[tuple[str, DType, Reach], ...]
    dtype: DType
