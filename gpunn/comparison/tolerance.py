"""How far one operation's result may be from the exact one: bounds per element, from the arithmetic.

Reals in float32, for the result y of an operation on inputs that both sides have to the bit:

    |error| <= 1e-5 + 5 eps |y|     the general promise, which every op keeps
             + n eps sum |w x|      for sums of n products (Higham, Accuracy and Stability of Numerical
                                    Algorithms, section 3.1): the op's own meaning on absolute values
             + what an op states    beside it (the docstrings of gpunn/ops)

and 0 for operations that only move elements, and for integers. A fused activation passes errors on by its
steepest slope. Quantised tensors: 0 steps between gpunn's backends, 1 step to LiteRT, which rounds
otherwise in some operations (docs/quantized.md). A result that is stored as float16 may be off by 2^-11 |y|
more.

LiteRT interpolates at positions in float32, which in an image of extent s are off by up to s eps, and so is
the result by as much of the difference of two neighbours. Where activations are reals and a filter is
quantised it rounds the activations to 127 steps of the largest, half a step for each product.

`spread` is the size of rounding errors that are independent of one another, as they are over many layers: the
square root of n for n (Higham and Mary 2019, SIAM J. Sci. Comput. 41, A2815), and no 1e-5 for operations that
only add, multiply and compare (ARITHMETIC). gpunn.comparison.noise draws from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.comparison.exact import widen
from gpunn.comparison.sides import Arithmetic, stored
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import size_of
from gpunn.ops.call import Call
from gpunn.ops.filter import FILTER
from gpunn.ops.op import as_tuple
from gpunn.types import Array, DType

ATOL = 1e-5
EPS = float(np.finfo(np.float32).eps)
GENERAL = 5  # eps of relative error
LITERT_STEPS = 1
STEEPEST = {"hard_swish": 1.5, "logistic": 0.25}  # slopes of activations, where these are not 1


@dataclass(frozen=True, slots=True)
class Bound:
    """Of one output, per element or one number for all: the largest error, and its usual size."""

    limit: Array
    spread: Array


NOTHING = Bound(np.zeros(()), np.zeros(()))


def _filter_terms(call: Call) -> int:
    """Products in one sum: those of one output channel, and the bias."""
    filter = call.input(1)
    return filter.size // max(filter.shape[0], 1) + 1


def _depthwise_terms(call: Call) -> int:
    return size_of(call.input(1).shape[1:3]) + 1


def _matmul_terms(call: Call) -> int:
    shape = call.x.shape
    return shape[-2] if call["adj_a"] else shape[-1]


def _window_terms(call: Call) -> int:
    return size_of(tuple(call["size"]))


def _reduced_terms(call: Call) -> int:
    return max(call.x.size // max(call.y.size, 1), 1)


def _row_terms(call: Call) -> int:
    axis: int = call["axis"]
    return call.x.shape[axis]


def _recurrent_terms(call: Call) -> int:
    """Every product that goes into a result: those of all two-dimensional operands, row by row."""
    return sum(t.shape[-1] for t in call.inputs[1:] if t is not None and t.rank == 2) + 1


def _four(call: Call) -> int:
    return 4


# Sums of products, whose terms' sizes add up to the op's own result for absolute values.
SUMS: Mapping[str, Callable[[Call], int]] = {
    "average_pool2d": _window_terms,
    "batch_matmul": _matmul_terms,
    "conv2d": _filter_terms,
    "cumsum": _row_terms,
    "depthwise_conv2d": _depthwise_terms,
    "fully_connected": _filter_terms,
    "l2_pool2d": _window_terms,
    "mean": _reduced_terms,
    "reduce_sum": _reduced_terms,
    "resize_bilinear": _four,
    "rnn": _recurrent_terms,
    "svdf": _recurrent_terms,
    "transpose_conv2d": _filter_terms,
}

# With SUMS, the operations without a function that is approximated.
ARITHMETIC = frozenset(
    {
        *SUMS,
        "abs",
        "add",
        "dequantize",
        "div",
        "leaky_relu",
        "max_pool2d",
        "maximum",
        "minimum",
        "mul",
        "neg",
        "prelu",
        "reduce_max",
        "reduce_min",
        "relu",
        "relu1",
        "relu6",
        "square",
        "squared_difference",
        "sub",
    }
)
APPROXIMATED = ("logistic", "tanh")  # activations for which that does not hold

# What else is rounded n times: relative to the result.
PRODUCTS: Mapping[str, Callable[[Call], int]] = {
    "l2_normalization": _row_terms,
    "reduce_prod": _reduced_terms,
    "softmax": _row_terms,
}


def _half(y: Array) -> Array:
    """What storing as float16 costs: half a unit of its last of 11 digits, or of its smallest number."""
    return np.maximum(2.0**-11 * np.abs(y), 2.0**-25)


def _moved(operand: Operand, y: Array) -> Bound:
    """Nothing, unless float32 is moved into float16."""
    if operand.type.dtype is not DType.FLOAT16:
        return NOTHING
    size = np.nan_to_num(_half(y), posinf=0.0)
    return Bound(size, size)


@dataclass(frozen=True, slots=True)
class _Case:
    """An operation with its float64 inputs and results."""

    call: Call
    inputs: Sequence[Array | None]
    results: tuple[Array, ...]

    def input(self, index: int) -> Array:
        found = self.inputs[index]
        assert found is not None
        return found


def _power(case: _Case) -> Array:
    """pow: 5 eps |b ln a| |y|, since an error of the logarithm is multiplied by b."""
    a, b = case.input(0), case.input(1)
    return np.asarray(GENERAL * EPS * np.abs(b * np.log(np.abs(a)) * case.results[0]))


def _log_softmax(case: _Case) -> Array:
    """The logarithm of a sum of n terms, which is off by n eps relative to itself."""
    return np.asarray(_row_terms(case.call) * EPS)


def _response(case: _Case) -> Array:
    """local_response_normalization: x base^-beta, the base a sum of 2 radius + 1 squares."""
    beta, y = case.call["beta"], case.results[0]
    base = np.abs(case.input(0) / y) ** (1 / beta) if beta else np.ones(())
    steps = 3 + beta * (2 * case.call["radius"] + 3 + 5 * np.abs(np.log2(base)))
    return np.asarray(steps * EPS * np.abs(y))


def _fake_quant(case: _Case) -> Array:
    """The neighbouring step where x lies halfway between two, within what float32 makes of the quotient."""
    call = case.call
    step = (call["max"] - call["min"]) / (2 ** call["num_bits"] - 1 - call["narrow_range"])
    inside = np.clip(case.input(0), call["min"], call["max"])
    slack = 4 * EPS * 2 ** call["num_bits"]
    return np.where(np.abs(inside - case.results[0]) > (0.5 - slack) * step, step, 0.0)


def _lstm(case: _Case) -> Array:
    """Gates of sums of n products in all, whose sizes add up to s at most: each is off by d = n eps s.

    A new cell f c + i g is off by (|c| + 2) d, as the gates are of slope 1 at most and no larger than 1,
    and a result no more; a projection multiplies that by the sum of a row's sizes.
    """
    size, terms, cell, projection = 0.0, 1, 1.0, 1.0
    x, state = np.abs(case.input(0)), np.abs(case.input(18))
    for index, value in enumerate(case.inputs[1:], 1):
        largest = 0.0 if value is None else float(np.abs(value).max(initial=0.0))
        if value is None or index in (0, 18):
            continue
        if index <= 8:
            size = max(size, float(((x if index <= 4 else state) @ np.abs(value).T).max(initial=0.0)))
            terms = max(terms, value.shape[1])
        elif index == 16:
            projection = max(1.0, float(np.abs(value).sum(1).max(initial=0.0)))
        elif index == 19:
            cell += largest
        else:
            size = max(size, largest)
    return np.asarray(4 * (2 * terms + 2) * EPS * size * (cell + 2) * projection)


STATED: Mapping[str, Callable[[_Case], Array]] = {
    "fake_quant": _fake_quant,
    "local_response_normalization": _response,
    "log_softmax": _log_softmax,
    "lstm": _lstm,
    "pow": _power,
}


def bounds(
    operation: Operation, values: Mapping[Operand, Array], results: tuple[Array, ...], arithmetic: Arithmetic
) -> tuple[Bound, ...]:
    """For each output how far a side may be from `results`, the exact ones for the inputs in `values`."""
    if arithmetic is Arithmetic.EXACT:
        return (NOTHING,) * len(results)
    if operation.definition.raw:
        return tuple(_moved(operand, y) for operand, y in zip(operation.outputs, results, strict=True))
    inputs = [
        None if o is None else widen(values[o] if o.value is None else o.value) for o in operation.inputs
    ]
    case = _Case(operation.call(), inputs, results)
    real = any(o.type.dtype in (DType.FLOAT32, DType.FLOAT16) for o in operation.outputs)
    with np.errstate(all="ignore"):
        rounding = _rounding(operation, case, arithmetic) if real and not operation.integer else ()
        return tuple(
            _bound(operation, operand, y, [terms[number] for terms in rounding], arithmetic)
            for number, (operand, y) in enumerate(zip(operation.outputs, results, strict=True))
        )


def _rounding(
    operation: Operation, case: _Case, arithmetic: Arithmetic
) -> Sequence[tuple[tuple[Array, float], ...]]:
    """What joins the general promise: for each source of errors, and each output, a size and its n."""
    op, call, outputs = operation.op, case.call, len(case.results)
    found: list[tuple[tuple[Array, float], ...]] = []
    if op in SUMS:
        terms = float(SUMS[op](call))
        slope = STEEPEST.get(operation.attrs.get("activation") or "", 1.0)
        found.append(tuple((slope * EPS * size, terms) for size in _sizes(operation, case)))
    if op in PRODUCTS:
        terms = float(PRODUCTS[op](call))
        found.append(tuple((EPS * np.abs(y), terms) for y in case.results))
    if op in STATED:
        found.append(((STATED[op](case), 1.0),) * outputs)
    if arithmetic is Arithmetic.LITERT:
        found += _litert(operation, case)
    return found


def _litert(operation: Operation, case: _Case) -> Iterator[tuple[tuple[Array, float], ...]]:
    """What LiteRT's kernels do besides."""
    largest = float(np.abs(case.input(0)).max(initial=0.0)) if case.input(0).dtype.kind == "f" else 0.0
    if operation.op == "resize_bilinear":
        yield ((np.asarray(2 * max(case.call.x.shape[1:3]) * EPS * largest), 1.0),)
    filter = operation.inputs[FILTER] if operation.definition.filter is not None else None
    if filter is not None and filter.hybrid:
        steps = np.full_like(case.input(0), largest / 254)
        yield ((_sizes(operation, replace(case, inputs=(steps, *case.inputs[1:2])))[0], 1.0),)


def _sizes(operation: Operation, case: _Case) -> tuple[Array, ...]:
    """The op's results for absolute values, without an activation: the sums of the terms' sizes."""
    attrs = {k: v for k, v in case.call.attrs.items() if k in operation.definition.attributes}
    if "activation" in attrs:
        attrs["activation"] = None
    sizes = [np.abs(v) if v is not None and v.dtype.kind == "f" else v for v in case.inputs]
    return as_tuple(operation.definition.reference(*sizes, **attrs))


def _bound(
    operation: Operation,
    operand: Operand,
    y: Array,
    rounding: Sequence[tuple[Array, float]],
    arithmetic: Arithmetic,
) -> Bound:
    if stored(operand.type):
        steps = np.asarray(float(LITERT_STEPS if arithmetic is Arithmetic.LITERT else 0))
        return Bound(steps, steps)
    if operand.type.dtype not in (DType.FLOAT32, DType.FLOAT16):
        return NOTHING
    exact = operation.op in ARITHMETIC and operation.attrs.get("activation") not in APPROXIMATED
    spread = GENERAL * EPS * np.abs(y)
    limit = ATOL + spread
    spread = spread if exact else limit
    if operand.type.dtype is DType.FLOAT16:
        rounding = [*rounding, (_half(y), 1.0)]
    for size, terms in rounding:
        limit = limit + size * terms
        spread = spread + size * math.sqrt(terms)
    return Bound(np.nan_to_num(limit, nan=ATOL), np.nan_to_num(spread))
