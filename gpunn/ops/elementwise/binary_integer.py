"""Integer arithmetic of elementwise functions of two quantised tensors.

A line of FIXED is an op as TFLite's reference kernels compute it: the real factors of the first operand, the
second and the result, in fixed point, and the expressions that use them, in numpy and in WGSL. An operand is
relative to its zero point: {a} and {b} in WGSL. Factors are quotients of float32 scales, in float32 if
TFLite's Prepare functions compute them so. The result is moved to its zero point and clamped to the fused
activation. Comparisons rescale both operands to real numbers in steps of 1/256 (comparisons.cc, left_shift
8); with scales far below that more values compare as equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import Function, Param
from gpunn.ops.call import Call
from gpunn.ops.check import QUANTIZED
from gpunn.ops.elementwise.combine import Combine, of_products, of_sums
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    activation_bounds,
    high_multiply,
    quantize_multiplier,
    ratio,
    rescale,
    rescale_whole,
    scale_of,
    store,
    times,
)
from gpunn.ops.fixed_point.pair_products import IntegerProducts
from gpunn.ops.fixed_point.pair_sums import IntegerSums
from gpunn.ops.fixed_point.pair_tables import Pairwise
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import Array, DType

LEFT = {DType.UINT8: 20, DType.INT8: 20, DType.INT16: 15}  # bits of fraction that sums are computed with
SQUARED = 7  # that squared differences are computed with
COMPARED = 8  # that comparisons are made with

Factor = tuple[int, int]  # (m, shift), see quantize_multiplier


class Fixed(NamedTuple):
    """One line: factors of the scales (a, b, result), meaning and expression.

    All depend on LEFT, too: {left} in the expression. `alike`: an expression of stored values that serves
    where operands and result have one quantisation. `signs`: those of the operands, if it is their sum.
    """

    factors: Callable[[float, float, float, int], tuple[float, float, float]]
    meaning: Callable[[Array, Array, Sequence[Factor], int], Array]
    expression: str
    dtypes: tuple[DType, ...] = QUANTIZED
    alike: str = ""
    signs: tuple[int, int] | None = None
    libraries: tuple[str, ...] = ("affine",)


def _sum_factors(a: float, b: float, y: float, left: int) -> tuple[float, float, float]:
    top = 2 * max(a, b)
    return a / top, b / top, top / (2**left * y)


def _add(a: Array, b: Array, by: Sequence[Factor], left: int) -> Array:
    return rescale(rescale(a << left, *by[0]) + rescale(b << left, *by[1]), *by[2])


def _add_unsigned(a: Array, b: Array, by: Sequence[Factor], left: int) -> Array:
    (first, shift), (second, other) = by[:2]  # both factors are 1/2 or less, so both shifts go to the right
    steps = (high_multiply(a << left, first) >> -shift) + (high_multiply(b << left, second) >> -other)
    return rescale(steps, *by[2])


def _add_sixteen(a: Array, b: Array, by: Sequence[Factor], left: int) -> Array:
    return rescale(rescale_whole(a << left, *by[0]) + rescale_whole(b << left, *by[1]), *by[2])


def _sub(a: Array, b: Array, by: Sequence[Factor], left: int) -> Array:
    return rescale(rescale(a << left, *by[0]) - rescale(b << left, *by[1]), *by[2])


def _product_factors(a: float, b: float, y: float, _: int) -> tuple[float, float, float]:
    return 1.0, 1.0, ratio(times(a, b), y)


def _difference_factors(a: float, b: float, y: float, _: int) -> tuple[float, float, float]:
    top = 2 * max(a, b)
    return a / top, b / top, top * top / (2 ** (2 * SQUARED) * y)


def _squared_difference(a: Array, b: Array, by: Sequence[Factor], _: int) -> Array:
    difference = rescale(a << SQUARED, *by[0]) - rescale(b << SQUARED, *by[1])
    return rescale(difference * difference, *by[2])


def _scaled(text: str, factor: str) -> str:
    return f"rescale({text}, p.{factor}.y, p.{factor}.z, true)"


_A, _B, _DIFFERENT_A, _DIFFERENT_B = (
    _scaled(f"({{{name}}} << {bits}u)", factor)
    for bits in ("{left}", SQUARED)
    for name, factor in (("a", "first"), ("b", "second"))
)
_SHIFTED_A, _SHIFTED_B = (
    f"(high_multiply({{{name}}} << {{left}}u, p.{factor}.y) >> u32(-p.{factor}.z))"
    for name, factor in (("a", "first"), ("b", "second"))
)
_ROUNDED_ONCE = (
    f"rescale_whole(i64_from_i32({{{name}}} << {{left}}u), p.{factor}.y, p.{factor}.z)"
    for name, factor in (("a", "first"), ("b", "second"))
)
_DIFFERENCE = f"({_DIFFERENT_A} - {_DIFFERENT_B})"
_PRODUCT = _scaled("({a} * {b})", "result")
_WHOLE_PRODUCT = "rescale_whole(i64_product({a}, {b}), p.result.y, p.result.z)"
_LONG = ("affine", "affine_int64")


def _products(
    rescaled: Callable[[Array, int, int], Array], product: str, libraries: tuple[str, ...] = ("affine",)
) -> dict[str, Fixed]:
    """Make the lines of ops that multiply stored integers, by a function that rescales these products."""
    slopes = f"select({product}, {_scaled('{a}', 'first')}, {{a}} >= 0)"
    return {
        "mul": Fixed(
            _product_factors, lambda a, b, by, _: rescaled(a * b, *by[2]), product, libraries=libraries
        ),
        "prelu": Fixed(
            lambda a, b, y, _: (ratio(a, y), 1.0, ratio(times(a, b), y)),
            lambda a, b, by, _: np.where(a >= 0, rescale(a, *by[0]), rescaled(a * b, *by[2])),
            slopes,
            libraries=libraries,
        ),
    }


def _choice(function: Callable[..., Any], name: str) -> Fixed:
    """Make a line that rescales each operand to the result's quantisation first, so that the order stays."""
    return Fixed(
        lambda a, b, y, _: (ratio(a, y), ratio(b, y), 1.0),
        lambda a, b, by, _: np.asarray(function(rescale(a, *by[0]), rescale(b, *by[1]))),
        f"{name}({_scaled('{a}', 'first')}, {_scaled('{b}', 'second')})",
        alike=f"{name}(a, b)",
    )


FIXED = {
    "add": Fixed(_sum_factors, _add, _scaled(f"{_A} + {_B}", "result"), signs=(1, 1)),
    "sub": Fixed(_sum_factors, _sub, _scaled(f"{_A} - {_B}", "result"), signs=(1, -1)),
    **_products(rescale, _PRODUCT),
    "squared_difference": Fixed(
        _difference_factors,
        _squared_difference,
        _scaled(f"({_DIFFERENCE} * {_DIFFERENCE})", "result"),
        EIGHT_BITS,
    ),
    "maximum": _choice(np.maximum, "max"),
    "minimum": _choice(np.minimum, "min"),
}
# TFLite's kernel of vector instructions for uint8 rounds the operands down, that for int8 to nearest
# (optimized_ops.h, AddElementwise). It computes all but the last n mod 8 elements.
UNSIGNED = {"add": Fixed(_sum_factors, _add_unsigned, _scaled(f"{_SHIFTED_A} + {_SHIFTED_B}", "result"))}
# That for int16 rounds each operand once. It computes all but the last n mod 16 elements, and none where an
# operand is broadcast.
SIXTEEN = {
    "add": Fixed(
        _sum_factors,
        _add_sixteen,
        _scaled(" + ".join(_ROUNDED_ONCE), "result"),
        libraries=_LONG,
    )
}
# What takes the place of lines whose products of int16 may leave 32 bits. LiteRT has none of these: its int16
# has no zero points but 0, and no prelu. Its products without zero points wrap around, as those of FIXED do.
WIDE = _products(rescale_whole, _WHOLE_PRODUCT, _LONG)
# not_equal holds where equality does not: of a NaN, too.
COMPARISONS: Mapping[str, tuple[Callable[..., Any], str]] = {
    "equal": (np.equal, "i32({a} == {b})"),
    "not_equal": (np.not_equal, "i32(!({a} == {b}))"),
    "less": (np.less, "i32({a} < {b})"),
    "less_equal": (np.less_equal, "i32({a} <= {b})"),
    "greater": (np.greater, "i32({a} > {b})"),
    "greater_equal": (np.greater_equal, "i32({a} >= {b})"),
}


def _line(call: Call) -> Fixed:
    """Return the line of a call's op."""
    special = UNSIGNED if call.x.dtype is DType.UINT8 else {}
    if call.x.dtype is DType.INT16:
        special = SIXTEEN if call.x.shape == call.input(1).shape else {}
        special = WIDE if call.op in WIDE and _leaves_32_bits(call) else special
    return special.get(call.op, FIXED[call.op])


def _leaves_32_bits(call: Call) -> bool:
    """Tell whether products of a call may not fit 32 bits, shifted to the left as rescale() does."""
    (a, first), (b, second), (y, zero) = (scale_of(call, t) for t in (call.x, call.input(1), call.y))
    if call.op == "mul" and not (first or second or zero):
        return False
    low, high = LIMITS[call.x.dtype]
    far = math.prod(max(high - z, z - low) for z in (first, second))
    return far << max(quantize_multiplier(ratio(times(a, b), y))[1], 0) >= 2**31


def _zeros_and_factors(call: Call) -> tuple[list[int], list[Factor]]:
    """Return zero points and factors of the first operand, the second and the result."""
    scales, zeros = zip(*(scale_of(call, t) for t in (call.x, call.input(1), call.y)), strict=True)
    factors = _line(call).factors(scales[0], scales[1], scales[2], LEFT[call.x.dtype])
    return list(zeros), [quantize_multiplier(f) for f in factors]


def sum_weights(call: Call) -> tuple[float, float] | None:
    """Return the real factors of both operands in steps of the result; None unless it is their sum."""
    signs = FIXED[call.op].signs if call.op in FIXED else None
    if signs is None:
        return None
    a, b, y = (scale_of(call, type)[0] for type in (call.x, call.input(1), call.y))
    return signs[0] * a / y, signs[1] * b / y


def _fixed_arithmetic(call: Call) -> Pairwise:
    """Return what computes the stored result of an op of FIXED."""
    zeros, factors = _zeros_and_factors(call)
    meaning, left = _line(call).meaning, LEFT[call.x.dtype]
    bounds = activation_bounds(call, call.y)

    def compute(a: Array, b: Array) -> Array:
        a, b = a.astype(np.int64) - zeros[0], b.astype(np.int64) - zeros[1]
        return store(meaning(a, b, factors, left) + zeros[2], call.y, bounds)

    return compute


def _fixed(call: Call) -> Combine:
    line = _line(call)
    if line.alike and call.x.quantization == call.input(1).quantization == call.y.quantization:
        return Combine({"combine": Function(("a", "b"), line.alike)})
    zeros, factors = _zeros_and_factors(call)
    bounds = activation_bounds(call, call.y)
    sums = _integer_sums(call, factors)
    if sums is not None:
        return of_sums(sums, bounds)
    products = _integer_products(call, factors[2])
    if products is not None:
        return of_products(products, bounds)
    centred = line.expression.format(a="(a - p.first.x)", b="(b - p.second.x)", left=LEFT[call.x.dtype])
    # The zero point comes last, so that nothing overflows.
    low, high = (b - zeros[2] for b in bounds)
    expression = f"clamp({centred}, p.bounds.x, p.bounds.y) + p.result.x"
    params = {**_fields(zeros, factors), "bounds": (low, high, 0, 0)}
    return Combine({"combine": Function(("a", "b"), expression)}, params, line.libraries)


def _integer_sums(call: Call, factors: Sequence[Factor]) -> IntegerSums | None:
    """Return the numbers for a sum of 8 bits, if there are some that have the bits of fixed point."""
    weights = sum_weights(call)
    if weights is None or call.x.dtype not in EIGHT_BITS:
        return None
    # An operand is off by 1.6 units at most: rounded twice, or once and then down. Their sum is rounded to a
    # multiple of 2^(31 - shift) of its units first.
    multiplier, shift = factors[2]
    slack = 3.2 * math.ldexp(multiplier, shift - 31) + math.ldexp(1, shift - 1)

    exact = _fixed_arithmetic(call)
    return IntegerSums.of(call, weights, lambda a, b: exact(a, b).astype(np.int64), slack)


def _integer_products(call: Call, factor: Factor) -> IntegerProducts | None:
    """Return the numbers for a product of 8 bits, if there are some that have the bits of fixed point."""
    if call.op != "mul" or call.x.dtype not in EIGHT_BITS:
        return None
    (a, _), (b, _), (y, _) = (scale_of(call, type) for type in (call.x, call.input(1), call.y))
    # Products are rounded to a multiple of 2^shift, which are steps of the result, and then to a whole step.
    slack = math.ldexp(1, factor[1] - 1)
    return IntegerProducts.of(call, ratio(times(a, b), y), lambda p: rescale(p, *factor), slack)


def _fields(zeros: Sequence[int], factors: Sequence[Factor]) -> dict[str, Param]:
    """Return zero points and factors as expressions read them."""
    return {
        name: (z, *f, 0) for name, z, f in zip(("first", "second", "result"), zeros, factors, strict=False)
    }


def _compared(call: Call) -> tuple[list[int], list[Factor]]:
    """Return zero points and factors of both operands of a comparison."""
    scales, zeros = zip(*(scale_of(call, call.input(k)) for k in range(2)), strict=True)
    return list(zeros), [quantize_multiplier(s) for s in scales]


def _comparison_arithmetic(call: Call) -> Pairwise:
    function, operands = COMPARISONS[call.op][0], list(zip(*_compared(call), strict=True))

    def compute(a: Array, b: Array) -> Array:
        steps = (
            rescale((stored.astype(np.int64) - zero) << COMPARED, *factor)
            for stored, (zero, factor) in zip((a, b), operands, strict=True)
        )
        return np.asarray(function(*steps))

    return compute


def _comparison(call: Call) -> Combine:
    steps = {
        name: _scaled(f"(({name} - p.{operand}.x) << {COMPARED}u)", operand)
        for name, operand in (("a", "first"), ("b", "second"))
    }
    expression = COMPARISONS[call.op][1].format(**steps)
    return Combine({"combine": Function(("a", "b"), expression)}, _fields(*_compared(call)), ("affine",))


# What computes results, what a kernel does, and the dtypes of the stored values.
INTEGER: Mapping[str, tuple[Callable[[Call], Pairwise], Callable[[Call], Combine], tuple[DType, ...]]] = {
    **{name: (_fixed_arithmetic, _fixed, line.dtypes) for name, line in FIXED.items()},
    **{name: (_comparison_arithmetic, _comparison, QUANTIZED) for name in COMPARISONS},
}
