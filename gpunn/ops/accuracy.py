"""Accuracy: how far an op in float32 may be from its exact result, from its arithmetic.

Every op keeps the general promise, 1e-5 + 5 eps |y|; what an op states joins it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.types import Array

ATOL = 1e-5
GENERAL = 5  # eps of relative error
EPS = float(np.finfo(np.float32).eps)
TINIEST = 2.0**-126  # of the numbers in float32 that are not subnormal

Count = Callable[[Call], int]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A call with its inputs and its exact results, reals in float64; inputs that are absent are None."""

    call: Call
    inputs: Sequence[Array | None]
    results: tuple[Array, ...]

    def input(self, index: int) -> Array:
        """Return a mandatory input."""
        found = self.inputs[index]
        assert found is not None
        return found


class HalfProducts(NamedTuple):
    """Errors of products that are computed in f16, relative to the products, and what they may lose besides.

    Each product is rounded `roundings` times. What a result may lose is the op's result for other inputs.
    """

    roundings: int
    lost: tuple[Array, ...]

    @property
    def rounding(self) -> float:
        """Return the relative error of each rounding, so that they add up."""
        return float(((1 + 2.0**-11) ** self.roundings - 1) / self.roundings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The error of an op's float32 results, beside the general promise.

    * terms: how many products, at most, a sum has. Their sizes add up to the op's own result for absolute
      values, and n eps of that is what the sum may be off by (Higham, Accuracy and Stability of Numerical
      Algorithms, section 3.1).
    * detour: the sizes that kernels add up for a result where they compute it in another way, and how many
      operations follow one another; n eps of these.
    * roundings: how often the result is rounded besides, relative to itself.
    * formula: errors of another kind.
    * arithmetic: it only adds, multiplies and compares, so errors over many layers are relative ones.
    * selects: its results are elements of its operands, so it adds no error to theirs.
    * halves: the errors of products in f16 if a relaxed call may have these (ops.contraction.half_products).
    * interpolates: its results lie between neighbours, at positions that others compute in float32.
    """

    terms: Count | None = None
    detour: Callable[[Evaluation], tuple[Array, int]] | None = None
    roundings: Count | None = None
    formula: Callable[[Evaluation], Array] | None = None
    arithmetic: bool = False
    selects: bool = False
    halves: Callable[[Evaluation], HalfProducts | None] | None = None
    interpolates: bool = False


PROMISE = Accuracy()
BASIC = Accuracy(arithmetic=True)  # of basic arithmetic
SELECTION = Accuracy(arithmetic=True, selects=True)  # of the larger or smaller of several


def sums(terms: Count, *, interpolates: bool = False) -> Accuracy:
    """Make the Accuracy of an op that adds up products."""
    return Accuracy(terms=terms, arithmetic=True, interpolates=interpolates)


def row_length(call: Call) -> int:
    """Return the extent along attribute `axis`."""
    axis: int = call["axis"]
    return call.x.shape[axis]


def filter_terms(call: Call) -> int:
    """Count the products in one sum: those of one output channel, filter axis 0, and the bias."""
    filter = call.input(1)
    return filter.size // max(filter.shape[0], 1) + 1


def matrix_terms(call: Call) -> int:
    """Count the products of a result: those of all two-dimensional operands, row by row."""
    return sum(t.shape[-1] for t in call.inputs[1:] if t is not None and t.rank == 2) + 1
