"""Functions of two elements, which kernels of elementwise operations compute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpunn.kernel import Function, Param, Read
from gpunn.ops.fixed_point.pair_products import LOWER_BITS, IntegerProducts
from gpunn.ops.fixed_point.pair_sums import IntegerSums

_PRODUCT = "((a - p.zeros.x) * (b - p.zeros.y))"


@dataclass(frozen=True, slots=True)
class Combine:
    """A kernel's function of two elements: `combine` and other functions, and the operands that they read.

    `signs`: see Pointwise.
    """

    functions: Mapping[str, Function]
    params: Mapping[str, Param] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    tables: tuple[Read, ...] = ()
    signs: tuple[int, ...] = ()


def of_sums(sums: IntegerSums, bounds: tuple[int, int]) -> Combine:
    """Return the kernel's function for proven numbers of a sum."""
    by = sums.first, sums.second, sums.summand, -1 << sums.bits
    return _proven("p.by.x * a + p.by.y * b + p.by.z", by, sums.bits, bounds)


def of_products(products: IntegerProducts, bounds: tuple[int, int]) -> Combine:
    """Return the kernel's function for proven numbers of a product."""
    by = products.upper, products.lower, products.summand, -1 << products.bits
    parts = (
        f"p.by.x * {_PRODUCT}",
        f"((p.by.y * {_PRODUCT}) >> {LOWER_BITS}u)",
        f"(({_PRODUCT} >> 31u) & p.zeros.z)",
    )
    found = _proven(" + ".join((*parts, "p.by.z")), by, products.bits, bounds)
    return replace(found, params={**found.params, "zeros": (*products.zeros, products.negative, 0)})


def _proven(sum: str, by: tuple[int, int, int, int], bits: int, bounds: tuple[int, int]) -> Combine:
    """Return the kernel's function for a result in steps, times 2^bits, and its fraction.

    A mask takes the fraction away, and a power of two brings down the rest: 15 bits at most, so the f32 is
    exact. No library is called, so that stores of other kernels can compute it (planning/switches.py).
    """
    params: dict[str, Param] = {
        "by": by,
        "unit": math.ldexp(1.0, -bits),
        "least": float(bounds[0]),
        "most": float(bounds[1]),
    }
    expression = f"i32(clamp(f32(({sum}) & p.by.w) * p.unit, p.least, p.most))"
    return Combine({"combine": Function(("a", "b"), expression)}, params)
