"""Integer arithmetic of element-wise functions of two quantised tensors.

A line of FIXED is an op as TFLite's reference kernels compute it: the real factors that multiply the first
operand, the second and the result, in fixed point, and how these enter, in numpy and in WGSL. An
operand is counted from its zero point: {a} and {b} in WGSL. Factors are quotients of float32 scales, in
float32 where TFLite's Prepare functions compute them so. The result is moved to its zero point and
clamped to the fused activation.
Maximum and minimum rescale each operand by a table first: the larger stays the larger. Comparisons
rescale to reals in steps of 1/256 (comparisons.cc, left_shift 8): scales far below that tell less apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpunn.kernel import Function, Param, Read
from gpunn.ops.affine import activation_bounds, quantize_multiplier, ratio, rescale, scale_of, store, times
from gpunn.ops.check import QUANTIZED
from gpunn.ops.op import EIGHT_BITS, Call
from gpunn.ops.tables import entry, read_table, requantize_table
from gpunn.types import Array, DType

LEFT = {DType.UINT8: 20, DType.INT8: 20, DType.INT16: 15}  # bits of fraction that sums are computed with
SQUARED = 7  # that squared differences are computed with
COMPARED = 8  # that comparisons are made with

Factor = tuple[int, int]  # (m, shift), see quantize_multiplier


@dataclass(frozen=True, slots=True)
class Combine:
    """What a kernel makes of two elements: `combine` and other functions, and what these read."""

    functions: Mapping[str, Function]
    params: Mapping[str, Param] = field(default_factory=dict)
    tables: tuple[Read, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fixed:
    """One line: factors of the scales (a, b, result), meaning and expression.

    All depend on LEFT, too: {left} in the expression.
    """

    factors: Callable[[float, float, float, int], tuple[float, float, float]]
    meaning: Callable[[Array, Array, Sequence[Factor], int], Array]
    expression: str
    dtypes: tuple[DType, ...] = EIGHT_BITS


def _sum_factors(a: float, b: float, y: float, left: int) -> tuple[float, float, float]:
    top = 2 * max(a, b)
    return a / top, b / top, top / (2**left * y)


def _add(a: Array, b: Array, by: Sequence[Factor], left: int) -> Array:
    return rescale(rescale(a << left, *by[0]) + rescale(b << left, *by[1]), *by[2])


def _sub(a: Array, b: Array, by: Sequence[Factor], left: int) -> Array:
    return rescale(rescale(a << left, *by[0]) - rescale(b << left, *by[1]), *by[2])


def _product_factors(a: float, b: float, y: float, _: int) -> tuple[float, float, float]:
    return 1.0, 1.0, ratio(times(a, b), y)


def _mul(a: Array, b: Array, by: Sequence[Factor], _: int) -> Array:
    return rescale(a * b, *by[2])


def _difference_factors(a: float, b: float, y: float, _: int) -> tuple[float, float, float]:
    top = 2 * max(a, b)
    return a / top, b / top, top * top / (2 ** (2 * SQUARED) * y)


def _squared_difference(a: Array, b: Array, by: Sequence[Factor], _: int) -> Array:
    difference = rescale(a << SQUARED, *by[0]) - rescale(b << SQUARED, *by[1])
    return rescale(difference * difference, *by[2])


def _prelu(a: Array, b: Array, by: Sequence[Factor], _: int) -> Array:
    return np.where(a >= 0, rescale(a, *by[0]), rescale(a * b, *by[2]))


def _scaled(text: str, factor: str) -> str:
    return f"rescale({text}, p.{factor}.y, p.{factor}.z, true)"


_A, _B, _DIFFERENT_A, _DIFFERENT_B = (
    _scaled(f"({{{name}}} << {bits}u)", factor)
    for bits in ("{left}", SQUARED)
    for name, factor in (("a", "first"), ("b", "second"))
)
_DIFFERENCE = f"({_DIFFERENT_A} - {_DIFFERENT_B})"
_PRODUCT = _scaled("({a} * {b})", "result")

FIXED = {
    "add": Fixed(_sum_factors, _add, _scaled(f"{_A} + {_B}", "result"), QUANTIZED),
    "sub": Fixed(_sum_factors, _sub, _scaled(f"{_A} - {_B}", "result"), QUANTIZED),
    "mul": Fixed(_product_factors, _mul, _PRODUCT, QUANTIZED),
    "squared_difference": Fixed(
        _difference_factors, _squared_difference, _scaled(f"({_DIFFERENCE} * {_DIFFERENCE})", "result")
    ),
    "prelu": Fixed(
        lambda a, b, y, _: (ratio(a, y), 1.0, ratio(times(a, b), y)),
        _prelu,
        f"select({_PRODUCT}, {_scaled('{a}', 'first')}, {{a}} >= 0)",
    ),
}
CHOICES = {"maximum": (np.maximum, "max"), "minimum": (np.minimum, "min")}
# not_equal holds where equality does not: of a NaN, too.
COMPARISONS: Mapping[str, tuple[Callable[..., Any], str]] = {
    "equal": (np.equal, "i32({a} == {b})"),
    "not_equal": (np.not_equal, "i32(!({a} == {b}))"),
    "less": (np.less, "i32({a} < {b})"),
    "less_equal": (np.less_equal, "i32({a} <= {b})"),
    "greater": (np.greater, "i32({a} > {b})"),
    "greater_equal": (np.greater_equal, "i32({a} >= {b})"),
}


def _zeros_and_factors(call: Call) -> tuple[list[int], list[Factor]]:
    """Zero points and factors of the first operand, the second and the result."""
    scales, zeros = zip(*(scale_of(call, t) for t in (call.x, call.input(1), call.y)), strict=True)
    factors = FIXED[call.op].factors(scales[0], scales[1], scales[2], LEFT[call.x.dtype])
    return list(zeros), [quantize_multiplier(f) for f in factors]


def _fixed_reference(call: Call, a: Array, b: Array) -> Array:
    """The stored result of an op of FIXED."""
    zeros, factors = _zeros_and_factors(call)
    a, b = a.astype(np.int64) - zeros[0], b.astype(np.int64) - zeros[1]
    result = FIXED[call.op].meaning(a, b, factors, LEFT[call.x.dtype])
    return store(result + zeros[2], call.y, activation_bounds(call, call.y))


def _fixed(call: Call) -> Combine:
    zeros, factors = _zeros_and_factors(call)
    centred = FIXED[call.op].expression.format(
        a="(a - p.first.x)", b="(b - p.second.x)", left=LEFT[call.x.dtype]
    )
    expression = f"clamp({centred} + p.result.x, p.bounds.x, p.bounds.y)"
    params: dict[str, Param] = {
        name: (zero, *factor, 0)
        for name, zero, factor in zip(("first", "second", "result"), zeros, factors, strict=True)
    }
    params["bounds"] = (*activation_bounds(call, call.y), 0, 0)
    return Combine({"combine": Function(("a", "b"), expression)}, params, libraries=("affine",))


def _choice_reference(call: Call, a: Array, b: Array) -> Array:
    """The stored result of maximum or minimum."""
    tables = (requantize_table(call, call.input(k), call.y) for k in range(2))
    first, second = (read_table(v, t) for v, t in zip((a, b), tables, strict=True))
    return np.asarray(CHOICES[call.op][0](first, second))


def _choice(call: Call) -> Combine:
    operands, tables = [], []
    for k, name in enumerate("ab"):
        if call.input(k).quantization == call.y.quantization:
            operands.append(name)
            continue
        table = requantize_table(call, call.input(k), call.y)
        tables.append(Read(f"table_{name}", None, value=table))
        operands.append(entry(f"table_{name}", name, call.x.dtype))
    expression = f"{CHOICES[call.op][1]}({', '.join(operands)})"
    return Combine({"combine": Function(("a", "b"), expression)}, tables=tuple(tables))


def _comparison_reference(call: Call, a: Array, b: Array) -> Array:
    steps = []
    for k, stored in enumerate((a, b)):
        scale, zero = scale_of(call, call.input(k))
        steps.append(rescale((stored.astype(np.int64) - zero) << COMPARED, *quantize_multiplier(scale)))
    return np.asarray(COMPARISONS[call.op][0](*steps))


def _comparison(call: Call) -> Combine:
    params: dict[str, Param] = {}
    for k, name in enumerate(("first", "second")):
        scale, zero = scale_of(call, call.input(k))
        params[name] = (zero, *quantize_multiplier(scale), 0)
    steps = {
        name: _scaled(f"(({name} - p.{operand}.x) << {COMPARED}u)", operand)
        for name, operand in (("a", "first"), ("b", "second"))
    }
    expression = COMPARISONS[call.op][1].format(**steps)
    return Combine({"combine": Function(("a", "b"), expression)}, params, libraries=("affine",))


# Reference, what a kernel does, and the dtypes of the stored values.
INTEGER: Mapping[str, tuple[Callable[..., Array], Callable[[Call], Combine], tuple[DType, ...]]] = {
    **{name: (_fixed_reference, _fixed, line.dtypes) for name, line in FIXED.items()},
    **{name: (_choice_reference, _choice, QUANTIZED) for name in CHOICES},
    **{name: (_comparison_reference, _comparison, QUANTIZED) for name in COMPARISONS},
}
