"""Comparison of one tensor of a side with the exact tensor, element by element."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpunn.comparison.metrics import LARGEST, Health, Tally, health
from gpunn.comparison.result import Check, over
from gpunn.comparison.sides import reals
from gpunn.graph.operation import Operand
from gpunn.graph.tolerance import stored
from gpunn.types import Array, Shape


@dataclass(slots=True)
class Checked:
    """The errors of one tensor of a side, gathered over the samples."""

    counted: bool = False
    tally: Tally = field(default_factory=Tally)
    values: Health = field(default_factory=Health)
    tolerance: float = 0.0
    ratio: float = 0.0
    over: int = 0
    worst: Shape | None = None

    def add(self, operand: Operand, expected: Array, found: Array, limit: Array | float) -> None:
        """Count a tensor. `limit` is the largest allowed error of each element, in steps for quantised
        operands, and of either part of complex numbers.
        """
        self.counted = True
        wanted, got = _in_range(operand, reals(expected, operand.type)), reals(found, operand.type)
        if expected.dtype.kind == "c":
            limit = np.expand_dims(limit, -1)
        self.tally.add(wanted, got)
        self.values += health(got)
        if stored(operand.type):
            self.tally.add_steps(expected, found)
            wanted, got = expected.astype(np.float64), found.astype(np.float64)
        with np.errstate(all="ignore"):
            error = np.abs(got - wanted)
            error = np.where((got == wanted) | (np.isnan(got) & np.isnan(wanted)), 0.0, error)
            error = np.where(np.isfinite(error), error, np.inf)
            beyond = limit > LARGEST.get(operand.type.dtype, np.inf)  # noise may decide what is infinite
            error = np.where(beyond & np.isinf(error), 0.0, error)
            ratios = np.where(error == 0, 0.0, error / limit)
        if not ratios.size:
            return
        worst = int(np.argmax(ratios))
        allowed = float(np.broadcast_to(limit, ratios.shape).flat[worst])
        ratio = over(float(error.flat[worst]), allowed)
        self.over += int(np.count_nonzero(ratios > 1))
        if ratio >= self.ratio:
            self.ratio, self.tolerance = ratio, allowed
            self.worst = None if ratio == 0 else tuple(map(int, np.unravel_index(worst, ratios.shape)))

    def check(self) -> Check | None:
        """Return the result so far; None if nothing was counted."""
        if not self.counted:
            return None
        return Check(self.tally.metrics(), self.values, self.tolerance, self.ratio, self.over, self.worst)


def _in_range(operand: Operand, exact: Array) -> Array:
    """Replace exact values by infinity if the tensor's dtype rounds them to it: no side can give another
    value.
    """
    largest = LARGEST.get(operand.type.dtype)
    if largest is None:
        return exact
    return np.where(np.abs(exact) > largest, np.copysign(np.inf, exact), exact)
