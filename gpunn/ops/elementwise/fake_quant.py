"""The line fake_quant of unary.TABLE: float32 rounded as quantised tensors of 2 to 16 bits would be."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gpunn.kernel import Param
from gpunn.ops.accuracy import EPS, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import expect_bool, expect_float, expect_int
from gpunn.types import Array


def snapped_range(low: float, high: float, steps: int) -> tuple[float, float, float, float]:
    """Return lowest and highest value, step, and the number of the step at 0, to which all are moved."""
    step = (high - low) / steps
    zero = min(max(math.floor(-low / step + 0.5), 0), steps)
    return -zero * step, (steps - zero) * step, step, float(zero)


def fake_quant(x: Array, *, min: float, max: float, num_bits: int = 8, narrow_range: bool = False) -> Array:
    """Round to the nearest of 2^num_bits steps from `min` to `max`, moved so that 0 is one of them.

    With narrow_range there is one step less. x: float32 of any shape, which the result has. Raises ModelError
    for num_bits out of 2 to 16 and a range without 0. TFLite schema, FakeQuantOptions.
    """
    low, high, step, zero = snapped_range(min, max, 2**num_bits - 1 - narrow_range)
    steps = np.floor((np.clip(x, low, high) - low) / step + 0.5)
    return np.asarray((steps - zero) * step, x.dtype)


def error(evaluation: Evaluation) -> Array:
    """Return one step where x lies halfway between two, within float32's error of the quotient."""
    call = evaluation.call
    step = (call["max"] - call["min"]) / (2 ** call["num_bits"] - 1 - call["narrow_range"])
    inside = np.clip(evaluation.input(0), call["min"], call["max"])
    slack = 4 * EPS * 2 ** call["num_bits"]
    return np.where(np.abs(inside - evaluation.results[0]) > (0.5 - slack) * step, step, 0.0)


def params(call: Call) -> Mapping[str, Param]:
    """Return the numbers of the kernel; raise ModelError for wrong attributes."""
    low, high = expect_float(call, "min"), expect_float(call, "max")
    bits, narrow = expect_int(call, "num_bits", call["num_bits"]), expect_bool(call, "narrow_range")
    if not 2 <= bits <= 16:
        call.fail(f"num_bits must be 2 ... 16, got {bits}")
    if not (-math.inf < low <= 0 <= high < math.inf and low < high):
        call.fail(f"min and max must be finite with 0 between them, got {low} and {high}")
    names = ("low", "high", "step", "zero")
    return dict(zip(names, snapped_range(low, high, 2**bits - 1 - narrow), strict=True))
