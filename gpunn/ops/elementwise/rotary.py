"""Rotary position embedding: pairs of numbers turned by angles, as language models turn queries and keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpunn.kernel import Kernel, Read, Write, flat_threads
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import Axes, aligned_right
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_int, expect_unquantised
from gpunn.ops.elementwise import gradients
from gpunn.ops.elementwise.halves import halved
from gpunn.ops.kernels.strides import (
    aligned,
    broadcast_strides,
    broadcasts,
    by_fours,
    merge,
    space_constants,
    space_params,
    splat,
)
from gpunn.ops.memory import empty, scratch
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType

_OPERANDS = ("x", "cos", "sin")


def _axis(call: Call) -> int:
    return call.axis(call["axis"], call.x.rank)


def _infer(call: Call) -> TensorType:
    x = expect_unquantised(call, 0, *FLOATS)
    axis = call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    if x.shape[axis] % 2:
        call.fail(f"the extent along axis {axis} must be even, got {x}")
    whole = halved(x.shape, x.shape, axis)
    for number in (1, 2):
        table = expect_unquantised(call, number, x.dtype)
        if not broadcasts(halved(table.shape, x.shape, axis), whole):
            name, half = _OPERANDS[number], f"half of it along axis {axis}"
            call.fail(f"{name} must be broadcast to {x} or to {half}, got {table}")
    return x


def _kernel(call: Call) -> Kernel:
    shape, axis = call.x.shape, _axis(call)
    whole = halved(shape, shape, axis)
    walks = [broadcast_strides(halved(call.input(number).shape, shape, axis), whole) for number in range(3)]
    pairs, far = (*whole[:axis], *whole[axis + 1 :]), [walk[axis] for walk in walks]
    sizes, *steps = merge(pairs, *((*walk[:axis], *walk[axis + 1 :]) for walk in walks))
    lanes = 4 if aligned(sizes, *steps) and not any(n % 4 for n in far) else 1
    if lanes == 4:
        far = [n if splat(s) else n // 4 for n, s in zip(far, steps, strict=True)]
        sizes, *steps = by_fours(sizes, *steps)
    named = dict(zip(_OPERANDS, steps, strict=True))
    count = call.x.size // 2 // lanes
    return Kernel(
        body="rotary_embedding",
        threads=flat_threads(count),
        reads=tuple(
            Read(name, number, width=1 if splat(s) else lanes, by_elements=number == 0, once=number == 0)
            for number, (name, s) in enumerate(named.items())
        ),
        writes=(Write(width=lanes),),
        params={
            "count": count,
            **{f"far_{name}": n for name, n in zip(_OPERANDS, far, strict=True)},
            **space_params(sizes, named),
        },
        constants={
            **{f"{name.upper()}_SPLAT": int(splat(named[name])) for name in ("cos", "sin")},
            **space_constants(sizes),
        },
        lanes=lanes,
        reason="pair by pair",
    )


def _prepare(call: Call) -> Callable[[Array, Array, Array], Array]:
    """Return the reference, which puts -b and a where the result has a and b."""
    shape, axis = call.x.shape, _axis(call)
    shapes = [halved(call.input(number).shape, shape, axis) for number in range(3)]
    first, second = ((slice(None),) * axis + (half,) for half in range(2))

    def turn(x: Array, cos: Array, sin: Array) -> Array:
        x, cos, sin = (tensor.reshape(to) for tensor, to in zip((x, cos, sin), shapes, strict=True))
        turned = scratch("turned", x.shape, x.dtype)
        np.negative(x[second], out=turned[first])
        turned[second] = x[first]
        np.multiply(turned, sin, out=turned)
        result = np.multiply(x, cos, out=empty(x.shape, x.dtype))
        return np.add(result, turned, out=result).reshape(shape)

    return turn


def _errors(evaluation: Evaluation) -> Array:
    """Return how far results may be off: two products and a sum round, and drivers may fuse them."""
    x, cos, sin = (np.abs(evaluation.input(number)) for number in range(3))
    axis = _axis(evaluation.call)
    own = rotary_embedding.reference(x, cos, np.zeros_like(sin), axis=axis)
    other = np.abs(rotary_embedding.reference(x, np.zeros_like(cos), sin, axis=axis))
    return np.asarray(2 * EPS * (own + other))


@op(
    _infer,
    _kernel,
    algebra=Algebra(axes=Axes(space=aligned_right, axis=("axis",), broadcast=True)),
    flops=lambda call: 3 * call.x.size,
    accuracy=Accuracy(arithmetic=True, formula=_errors),
    prepare=_prepare,
    gradient=gradients.ROTARY,
)
def rotary_embedding(x: Array, cos: Array, sin: Array, *, axis: int = -1) -> Array:
    """Turn pairs (a, b) of numbers to (a cos - b sin, b cos + a sin), a from the first half along `axis`.

    b lies half of the extent further on. cos and sin are broadcast as numpy does to the shape of x, or to
    that of a half of x along the axis: then both halves have the same. Shapes: x of rank 1 or more, the
    extent along the axis even; the result has x's shape. dtype: float32, float16, one for all. Raises
    ModelError for other dtypes and shapes, and for an axis out of range. Su et al. 2021, RoFormer, section
    3.2.2, in the order of halves that Llama and its relatives have. TFLite schema, MUL, NEG, CONCATENATION
    and ADD, which converters write it in (gpunn/passes/rotary.py).
    """
    axis %= x.ndim
    whole = x.reshape(halved(x.shape, x.shape, axis))
    cos, sin = (table.reshape(halved(table.shape, x.shape, axis)) for table in (cos, sin))
    a, b = (whole.take(which, axis) for which in (0, 1))
    return np.asarray(whole * cos + np.stack((-b, a), axis) * sin).reshape(x.shape)


OPS: tuple[Op, ...] = (rotary_embedding,)
