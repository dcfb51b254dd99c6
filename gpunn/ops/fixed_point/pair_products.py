"""Products of two tensors of 8 bits in integers of 32 bits, proven for all pairs of stored values.

As in pair_sums.py, the stored result is in real numbers the floor of factor * product + summand, and fixed
point rounds on the way there: first to a fraction of a step, then to a step, both times halves away from
zero. So negative products have a summand of their own. A product has 16 bits, and 32 bits leave no room for a
factor that is exact enough: it has 15 bits more, which are multiplied apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import activation_bounds, scale_of
from gpunn.ops.fixed_point.pair_sums import FACTOR_STEPS
from gpunn.ops.fixed_point.tables import every_value
from gpunn.types import Array

LOWER_BITS = 15  # of a factor: with 255 * 255 their product has 31 bits
_LEAST_BITS = 16  # of a fraction
_CLOSE = 2.0**-9  # what the factors that are tried move a result by, or less


class IntegerProducts(NamedTuple):
    """upper p + floor(lower p / 2^15) + summand in 32 bits: the result times 2^bits, and a fraction.

    p is the product of both operands, relative to their zero points; below 0 `negative` is added, too.
    """

    zeros: tuple[int, int]
    upper: int
    lower: int
    summand: int
    negative: int
    bits: int

    @classmethod
    def of(
        cls, call: Call, factor: float, compute: Callable[[Array], Array], slack: float
    ) -> IntegerProducts | None:
        """Return the formula for what `compute` gives for products p, before it is clamped; None if no
        numbers are found.

        factor: the real one of products, in steps of the result. slack: how far in steps fixed point may be
        from the real numbers. Only products whose real result is not much farther from an integer can have a
        wrong one.
        """
        low, high = activation_bounds(call, call.y)
        first, second, zero = (scale_of(call, type)[1] for type in (call.x, call.input(1), call.y))
        values = every_value(call.x)
        products = np.multiply.outer(values - first, values - second).reshape(-1)
        largest = factor * np.abs(products).max() + abs(zero) + 2
        bits = int(np.floor(np.log2(2**31 / largest))) if largest < 2**15 else 0
        if bits < _LEAST_BITS:
            return None
        real = products * factor + 0.5
        products = products[np.abs(real - np.rint(real)) < 2 * slack + _CLOSE]
        results = compute(products) + zero
        middle, off = (2 * zero + 1) << (bits - 1), int(2**bits * (slack + _CLOSE / 2))
        for step in FACTOR_STEPS:
            upper, lower = divmod(round(factor * 2 ** (bits + LOWER_BITS)) + step, 1 << LOWER_BITS)
            starts = (results << bits) - upper * products - (lower * products >> LOWER_BITS)
            summands = []
            for part in (products >= 0, products < 0):
                least = starts[part & (results > low)].max(initial=middle - off)
                most = starts[part & (results < high)].min(initial=middle + off) + (1 << bits) - 1
                if least <= min(most, middle + off):
                    summands.append(int(min(max(middle, least), most)))
            if len(summands) == 2:
                positive, negative = summands
                return cls((first, second), upper, lower, positive, negative - positive, bits)
        return None
