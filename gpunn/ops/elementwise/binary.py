"""Element-wise functions of two tensors, broadcast as numpy broadcasts.

A line of TABLE is an op: its meaning in numpy, the same as a WGSL expression in `a` and `b`, its dtypes.
Both inputs have one dtype and the result the broadcast shape. It also has that dtype, but comparisons
give bool. On quantised uint8, int8 and int16 the arithmetic is that of binary_integer.py; what is
not there goes through reals, of int16 on the CPU. Raises ModelError for mixed or wrong dtypes and for shapes
that do not broadcast. maximum and minimum give NaN where either side is NaN, which compares as different from
everything; integer results wrap around, before a fused activation.
Division: x / 0 is an infinity or NaN, and 0 for integers, whose quotients div rounds towards zero. floor_div
is the floor of the exact quotient and floor_mod what it leaves, with the divisor's sign, exactly. A negative
power of an integer is the truncated real one, and 0 to a negative power is 0. right_shift keeps the sign, and
shifts by no less than 0 and no more than all bits but one. left_shift by less than 0, or by all bits, leaves
0. add, sub and mul take complex numbers, too; a product with an infinite part may have parts that are NaN.
atan2 is the angle of the point with y coordinate a and x coordinate b, in -pi ... pi; signs of zeros count.
Meaning: NeuralNetworks.h, ANEURALNETWORKS_ADD, _SUB, _MUL, _DIV (ranks up to 4 there, any here); TFLite
schema, the operators of these names, MaximumMinimumOptions, PRELU; Core ML, ActivationPReLU.
Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32): WGSL's division is good to 2.5 ulp. pow:
5 eps (1 + |b ln a|), since an error of the logarithm is multiplied by b. Subnormal numbers may count as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpunn.kernel import Function, is_nan, keep_nan
from gpunn.ops.accuracy import BASIC, SELECTION, Accuracy
from gpunn.ops.algebra import Affine, Clamp
from gpunn.ops.check import FLOATS, NUMBERS, SMALL
from gpunn.ops.elementwise import power
from gpunn.ops.elementwise.binary_declaration import Binary, declare
from gpunn.ops.elementwise.binary_integer import COMPARISONS
from gpunn.ops.op import Op
from gpunn.types import Array, DType


def _add(a: Array, b: Array) -> Array:
    return np.asarray(a + b)


def _sub(a: Array, b: Array) -> Array:
    return np.asarray(a - b)


def _mul(a: Array, b: Array) -> Array:
    return np.asarray(a * b)


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return np.asarray(a // b + inexact, a.dtype)  # numpy's x // 0 is 0 for integers


def _floor_div(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.floor(a.astype(np.float64) / b), a.dtype)
    return np.asarray(a // b)


def _floor_mod(a: Array, b: Array) -> Array:
    return np.asarray(np.mod(a, b))


def _atan2(a: Array, b: Array) -> Array:
    return np.asarray(np.arctan2(a, b))


def _squared_difference(a: Array, b: Array) -> Array:
    return np.asarray(np.square(a - b))


def _bitwise_and(a: Array, b: Array) -> Array:
    return np.asarray(np.bitwise_and(a, b))


def _bitwise_or(a: Array, b: Array) -> Array:
    return np.asarray(np.bitwise_or(a, b))


def _left_shift(a: Array, b: Array) -> Array:
    inside = (b >= 0) & (b < 8 * a.itemsize)
    return np.asarray(np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0), a.dtype)


def _xor(a: Array, b: Array) -> Array:
    return np.asarray(np.bitwise_xor(a, b))


def _right_shift(a: Array, b: Array) -> Array:
    return np.asarray(np.right_shift(a, np.clip(b, 0, 8 * a.itemsize - 1)))


def _and(a: Array, b: Array) -> Array:
    return np.asarray(np.logical_and(a, b))


def _or(a: Array, b: Array) -> Array:
    return np.asarray(np.logical_or(a, b))


def _comparison(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    def meaning(a: Array, b: Array) -> Array:
        return np.asarray(function(a, b))

    return meaning


def _maximum(a: Array, b: Array) -> Array:
    return np.asarray(np.maximum(a, b))


def _minimum(a: Array, b: Array) -> Array:
    return np.asarray(np.minimum(a, b))


FEW_CHOICES = 1 << 11  # that numpy makes in less time than what is around its calls takes


def _prelu(x: Array, alpha: Array) -> Array:
    if x.size <= FEW_CHOICES or not np.isfinite(alpha).all():
        return np.where(x < 0, x * alpha, x)
    # A choice takes many times as long where a CPU cannot foresee it.
    found = np.asarray(np.minimum(x, 0))
    found *= alpha
    found += np.maximum(x, 0)
    return found


_ORDERED = (*NUMBERS, *SMALL)
_ALIKE = (*_ORDERED, DType.BOOL, DType.STRING)
_BITS = (DType.INT32, DType.INT64)


def _compare(name: str, int64: str, dtypes: tuple[DType, ...] = _ORDERED) -> Binary:
    function, expression = COMPARISONS[name]
    integers = expression.format(a="a", b="b")
    # NaN does not equal itself, but NVIDIA's compiler takes x == x for true.
    reals = f"select({integers}, {int(name == 'not_equal')}, {is_nan('a')})"
    return Binary(
        name,
        _comparison(function),
        reals,
        dtypes,
        integers=integers,
        int64=f"i32({int64})",
        compares=True,
    )


def _turned(c: float | None) -> Clamp | None:
    return Clamp(-1) if c == -1 else None


def _at_least(c: float | None) -> Clamp | None:
    return None if c is None or math.isnan(c) else Clamp(low=c)


def _at_most(c: float | None) -> Clamp | None:
    return None if c is None or math.isnan(c) else Clamp(high=c)


def _choose(
    name: str,
    meaning: Callable[..., Any],
    expression: str,
    clamp: Callable[[float | None], Clamp | None],
) -> Binary:
    real = keep_nan(expression, "a", "b")
    return Binary(
        name,
        meaning,
        real,
        _ORDERED,
        integers=expression,
        clamp=clamp,
        accuracy=SELECTION,
    )


def _plus(c: Array) -> tuple[Array, Array]:
    return np.ones_like(c), c


def _minus(c: Array) -> tuple[Array, Array]:
    return np.ones_like(c), -c


def _taken_from(c: Array) -> tuple[Array, Array]:
    return -np.ones_like(c), c


def _times(c: Array) -> tuple[Array, Array]:
    return c, np.zeros_like(c)


def _over(c: Array) -> tuple[Array, Array] | None:
    return (1 / c, np.zeros_like(c)) if c.all() else None


def _never(c: Array) -> None:
    return None


_DIVISION = ("division",)
_INT64_DIFFERENCE = "i64_subtract(a, b)"

TABLE = (
    Binary(
        "add",
        _add,
        "a + b",
        (*_ORDERED, DType.COMPLEX64),
        reals=np.add,
        fusible=True,
        int64="i64_add(a, b)",
        signs=(1, 1),
        affine=Affine(_plus, _plus, associative=True),
        accuracy=BASIC,
    ),
    Binary(
        "sub",
        _sub,
        "a - b",
        (*NUMBERS, DType.COMPLEX64),
        reals=np.subtract,
        fusible=True,
        int64=_INT64_DIFFERENCE,
        signs=(1, -1),
        affine=Affine(_minus, _taken_from),
        accuracy=BASIC,
    ),
    Binary(
        "mul",
        _mul,
        "a * b",
        (*_ORDERED, DType.COMPLEX64),
        reals=np.multiply,
        fusible=True,
        int64="i64_multiply(a, b)",
        complex64="c64_multiply(a, b)",
        affine=Affine(_times, _times, associative=True),
        clamp=_turned,
        accuracy=BASIC,
    ),
    Binary(
        "div",
        _div,
        "a / b",
        NUMBERS,
        reals=np.true_divide,
        fusible=True,
        integers="truncated_quotient(a, b)",
        libraries=_DIVISION,
        affine=Affine(_over, _never),
        accuracy=BASIC,
    ),
    _choose("maximum", _maximum, "max(a, b)", _at_least),
    _choose("minimum", _minimum, "min(a, b)", _at_most),
    Binary("prelu", _prelu, "select(a, a * b, a < T(0))", FLOATS, accuracy=BASIC),
    Binary(
        "floor_div",
        _floor_div,
        "floored(a, b).quotient",
        _ORDERED,
        integers="floored_quotient(a, b)",
        libraries=_DIVISION,
    ),
    Binary(
        "floor_mod",
        _floor_mod,
        "floored(a, b).remainder",
        _ORDERED,
        integers="floored_remainder(a, b)",
        libraries=_DIVISION,
    ),
    Binary(
        "pow",
        power.power,
        "power(a, b)",
        NUMBERS,
        integers="integer_power(a, b)",
        libraries=("elementary", "division"),
        accuracy=Accuracy(formula=power.error),
        expand=power.squared,
    ),
    Binary("atan2", _atan2, "arc(a, b)", FLOATS, libraries=("elementary",)),
    Binary(
        "squared_difference",
        _squared_difference,
        "(a - b) * (a - b)",
        NUMBERS,
        int64=f"i64_multiply({_INT64_DIFFERENCE}, {_INT64_DIFFERENCE})",
        signs=(1, -1),
        accuracy=BASIC,
    ),
    Binary("bitwise_and", _bitwise_and, "a & b", (*_BITS, *SMALL)),
    Binary("bitwise_or", _bitwise_or, "a | b", (*_BITS, *SMALL)),
    Binary("bitwise_xor", _xor, "a ^ b", (*_BITS, *SMALL)),
    Binary(
        "left_shift",
        _left_shift,
        "select(0, a << u32(clamp(b, 0, 31)), b >= 0 && b < 32)",
        (*_BITS, DType.INT8, DType.INT16),
        int64="select(I64(), i64_shift_left(a, u32(clamp(i64_to_i32(b), 0, 63))), "
        "i64_to_i32(b) >= 0 && i64_to_i32(b) < 64)",
    ),
    Binary(
        "right_shift",
        _right_shift,
        "a >> u32(clamp(b, 0, 31))",
        (*_BITS, *SMALL),
        uint8="a >> u32(min(b, 7))",
        int64="i64_shift_right(a, u32(clamp(i64_to_i32(b), 0, 63)))",
    ),
    Binary("logical_and", _and, "a & b", (DType.BOOL,)),
    Binary("logical_or", _or, "a | b", (DType.BOOL,)),
    _compare("equal", "all(a == b)", _ALIKE),
    _compare("not_equal", "any(a != b)", _ALIKE),
    _compare("less", "i64_less(a, b)"),
    _compare("less_equal", "!i64_less(b, a)"),
    _compare("greater", "i64_less(b, a)"),
    _compare("greater_equal", "!i64_less(a, b)"),
)


def joining(name: str, dtype: DType) -> Function:
    """Make a function of elements a and b of a dtype from a line, for the kernels of other ops."""
    line = next(line for line in TABLE if line.name == name)
    return Function(("a", "b"), line.expression_for(dtype))


OPS: tuple[Op, ...] = tuple(declare(line) for line in TABLE)
