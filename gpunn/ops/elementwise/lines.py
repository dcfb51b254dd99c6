"""Sums and products of quantised tensors as lines: one operand varies, the other is a stored value."""

from __future__ import annotations

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.elementwise.binary_integer import sum_weights
from gpunn.ops.fixed_point.affine import scale_of
from gpunn.ops.fixed_point.tables import every_value
from gpunn.types import Array


def lines(call: Call, first: bool) -> tuple[Array, Array] | None:
    """Return factors and summands of an operand for each stored value of the other, which may be the first.

    They give real results in steps, without the zero point. None for functions that are no sum or product.
    """
    types = (call.input(1), call.x) if first else (call.x, call.input(1))
    (scale, zero), (other, other_zero), (step, _) = (scale_of(call, type) for type in (*types, call.y))
    values, weights = every_value(call.x) - other_zero, sum_weights(call)
    if weights is not None:
        factor, by = np.full(len(values), weights[first]), weights[not first]
        return factor, values * by - zero * factor
    if call.op != "mul":
        return None
    factor = values * (scale * other / step)
    return factor, -zero * factor
