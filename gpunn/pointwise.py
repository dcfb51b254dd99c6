"""Pointwise: what a kernel computes element by element; Appended: where another kernel computes it, too.

Nothing here needs a device. gpunn.planning.append decides, gpunn.backends.webgpu.appended writes the WGSL.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from gpunn.types import DType, Shape


@dataclass(frozen=True, slots=True)
class Repeat:
    """The element of an operand that belongs to element i of a result: (i / inner) % period."""

    period: int
    inner: int = 1

    @classmethod
    def along(cls, sizes: Shape, strides: Shape) -> Repeat | None:
        """Return how a tensor repeats along a merged space (gpunn.ops.kernels.strides).

        None if it stands still in a dimension between two along which it moves.
        """
        moving = [k for k, stride in enumerate(strides) if stride]
        if not moving:
            return cls(1)
        first, last = moving[0], moving[-1]
        period = inner = 1
        for size, stride in zip(sizes[first : last + 1][::-1], strides[first : last + 1][::-1], strict=True):
            if stride != period:
                return None
            period *= size
        for size in sizes[last + 1 :]:
            inner *= size
        return cls(period, inner)


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A kernel's result element by element: an expression in the kernel's functions and its operands.

    `operands` are the reads that the expression names, each with the element that it stands for. The
    functions need nothing else of the kernel but its parameters, its libraries and its other reads.
    """

    expression: str
    operands: Mapping[str, Repeat]


class Reach(enum.Enum):
    """The elements of an operand that stores need; see Repeat.

    DENSE: those at the same places. FIRST: the only one. PERIOD: those at i modulo a period; FOURS: and four
    elements that are stored together have four that lie together. SPREAD: those at (i / inner) % period;
    SHARED: and four elements that are stored together share one.
    """

    DENSE = "dense"
    FIRST = "first"
    PERIOD = "period"
    FOURS = "fours"
    SPREAD = "spread"
    SHARED = "shared"

    @classmethod
    def of(cls, repeat: Repeat, size: int) -> Reach:
        """Return what stores of a result of `size` elements need."""
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
        return self in (Reach.DENSE, Reach.FOURS)


@dataclass(frozen=True, slots=True)
class Formula:
    """A function of an appended operation: an expression in its parameters.

    `dtypes`: whose elements the parameters are, and then the result.
    """

    name: str
    params: tuple[str, ...]
    expression: str
    dtypes: tuple[DType, ...]


@dataclass(frozen=True, slots=True)
class Appended:
    """An elementwise operation that a kernel computes for each value before it stores it.

    Value 0 is what the kernel's body stores, value k the result of the k-th operation that is appended; it
    has `dtype`. `expression`: of Pointwise. `values` and `reads` say what an operand in it stands for: a
    value by its number, or the read of the kernel that has this name behind `prefix`. The parameters and
    the reads that the formulas name have `prefix`, too.
    """

    prefix: str
    expression: str
    formulas: tuple[Formula, ...]
    values: tuple[tuple[str, int], ...]
    reads: tuple[tuple[str, DType, Reach], ...]
    dtype: DType
