"""Algebra: what passes may rely on when they rewrite a graph with an op."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gpunn.ops.axes import Axes
from gpunn.ops.call import Call
from gpunn.types import Array

Line = Callable[[Array], tuple[Array, Array] | None]


class Border(enum.Enum):
    """The values around the image if the window of an op pads it by itself."""

    ZERO = "what stands for 0"
    LOWEST = "nothing that is above any element"


class Affine(NamedTuple):
    """An op of two operands as factor * x + summand, where the other operand is a constant.

    `left`: factor and summand for a constant on the right of x, as float64 arrays of its shape; `right`: for
    one on the left. None: that is no such function. `associative`: (x op a) op b is x op (a op b) for
    integers that wrap around.
    """

    left: Line
    right: Line
    associative: bool = False


class Clamp(NamedTuple):
    """The function sign * clamp(x, low, high) of reals."""

    sign: int = 1
    low: float = -math.inf
    high: float = math.inf

    def after(self, first: Clamp) -> Clamp:
        """Return the function that applies another one first."""
        low, high = (self.low, self.high) if first.sign > 0 else (-self.high, -self.low)
        bounds = (min(max(bound, low), high) for bound in (first.low, first.high))
        return Clamp(self.sign * first.sign, *bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algebra:
    """The algebra of an op, for passes; without a statement passes leave its operations unchanged.

    * identity: whether the result of a call has the elements of the first input as they are, if both have
      the same quantisation and there is no activation.
    * permutes: the result is x under another shape, or with its dimensions in another order.
    * pointwise: each element of the result is one function of the element of x at its place.
    * affine: for ops of two operands.
    * border: for ops with a window whose attribute `padding` takes pairs of numbers.
    * axes: for ops that compute the same if axes come in another order.
    * clamp: for ops that clamp reals, or change their sign; for ops of two operands from the value of one
      operand to the function of the other one, else from None. None: for that value it is no such function.
    * distribution: what the result has along the attribute `axis` is not negative, and its sum is 1, up to
      rounding and to the steps of quantised tensors.
    """

    identity: Callable[[Call], bool] | None = None
    permutes: bool = False
    pointwise: bool = False
    affine: Affine | None = None
    border: Border | None = None
    axes: Axes | None = None
    clamp: Callable[[float | None], Clamp | None] | None = None
    distribution: bool = False


UNSTATED = Algebra()


def same_shape(call: Call) -> bool:
    """Return Algebra.identity of an op that keeps the order of elements: it adds and removes none."""
    return call.x.shape == call.y.shape
