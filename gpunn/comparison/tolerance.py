"""Tolerances of one operation's result: bounds for each element, from the arithmetic.

Real numbers in float32, for the result y of an operation on inputs that both sides have to the bit:

    |error| <= 1e-5 + 5 eps |y|     the general promise, which every op keeps
             + n eps sum |w x|      for sums of n products (Higham, Accuracy and Stability of Numerical
                                    Algorithms, section 3.1): the op's own meaning on absolute values
             + what an op states    beside it (gpunn.ops.accuracy)

and 0 for operations that only move elements, and for integers. A fused activation passes errors on by its
steepest slope. Quantised tensors: 0 steps between gpunn's backends, 1 step to LiteRT, which rounds
differently in some operations (docs/quantized.md). A result that is stored as float16 may be off by 2^-11 |y|
more. Either part of a complex result may be off by what holds for its absolute value.

LiteRT interpolates at positions in float32. In an image of extent s these are off by up to s eps, and so is
the result by as much of the difference of two neighbours. For real activations and a quantised filter LiteRT
rounds the activations to 127 steps of the largest, half a step for each product.

`spread` is the size of rounding errors that are independent of one another, as they are over many layers: the
square root of n for n (Higham and Mary 2019, SIAM J. Sci. Comput. 41, A2815), and no 1e-5 for operations that
only add, multiply and compare (Accuracy.arithmetic). A result below 2^-126 is subnormal, and a device may
make it 0 (WGSL, Floating Point Evaluation). gpunn.comparison.noise draws from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.comparison.exact import widen
from gpunn.comparison.sides import Arithmetic, stored
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.accuracy import ATOL, EPS, GENERAL, TINIEST, Evaluation
from gpunn.ops.elementwise.unary import ACTIVATIONS
from gpunn.ops.elementwise.unary_declaration import Fused
from gpunn.ops.filter import FILTER
from gpunn.ops.op import as_tuple
from gpunn.types import Array, DType

LITERT_STEPS = 1
REALS = (DType.FLOAT32, DType.FLOAT16, DType.COMPLEX64)


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds of one output, for each element or one for all: the largest error, and its usual size."""

    limit: Array
    spread: Array


NOTHING = Bound(np.zeros(()), np.zeros(()))


def _half(y: Array) -> Array:
    """Compute the cost of storing as float16: half a unit of its last of 11 digits, or of its smallest
    number.
    """
    return np.maximum(2.0**-11 * np.abs(y), 2.0**-25)


def _moved(operand: Operand, y: Array) -> Bound:
    """Return no tolerance, unless float32 is moved into float16."""
    if operand.type.dtype is not DType.FLOAT16:
        return NOTHING
    size = np.nan_to_num(_half(y), posinf=0.0)
    return Bound(size, size)


def bounds(
    operation: Operation, values: Mapping[Operand, Array], results: tuple[Array, ...], arithmetic: Arithmetic
) -> tuple[Bound, ...]:
    """Return for each output the largest difference of a side from `results`, exact for the inputs in
    `values`.
    """
    if arithmetic is Arithmetic.EXACT:
        return (NOTHING,) * len(results)
    if operation.definition.raw:
        return tuple(_moved(operand, y) for operand, y in zip(operation.outputs, results, strict=True))
    inputs = [
        None if o is None else widen(values[o] if o.value is None else o.value) for o in operation.inputs
    ]
    evaluation = Evaluation(operation.call(), inputs, results)
    real = any(o.type.dtype in REALS for o in operation.outputs)
    with np.errstate(all="ignore"):
        rounding = _rounding(operation, evaluation, arithmetic) if real and not operation.integer else ()
        return tuple(
            _bound(operation, operand, y, [terms[number] for terms in rounding], arithmetic)
            for number, (operand, y) in enumerate(zip(operation.outputs, results, strict=True))
        )


def _rounding(
    operation: Operation, evaluation: Evaluation, arithmetic: Arithmetic
) -> Sequence[tuple[tuple[Array, float], ...]]:
    """Return the terms beside the general promise: for each source of errors and each output, a size and its
    n.
    """
    accuracy, call = operation.definition.accuracy, evaluation.call
    found: list[tuple[tuple[Array, float], ...]] = []
    if accuracy.terms is not None:
        terms, activation = float(accuracy.terms(call)), _activation(operation)
        slope = 1.0 if activation is None else activation.slope
        found.append(tuple((slope * EPS * size, terms) for size in _sizes(operation, evaluation)))
    if accuracy.roundings is not None:
        terms = float(accuracy.roundings(call))
        found.append(tuple((EPS * np.abs(y), terms) for y in evaluation.results))
    if accuracy.formula is not None:
        found.append(((accuracy.formula(evaluation), 1.0),) * len(evaluation.results))
    if arithmetic is Arithmetic.LITERT:
        found += _litert(operation, evaluation)
    return found


def _activation(operation: Operation) -> Fused | None:
    """Return the activation that is applied to the results."""
    found = ACTIVATIONS.get(operation.attrs.get("activation") or "")
    return None if found is None else found.fused


def _litert(operation: Operation, evaluation: Evaluation) -> Iterator[tuple[tuple[Array, float], ...]]:
    """Yield the additional terms of LiteRT's kernels."""
    x = evaluation.input(0)
    largest = float(np.abs(x).max(initial=0.0)) if x.dtype.kind == "f" else 0.0
    if operation.definition.accuracy.interpolates:
        yield ((np.asarray(2 * max(evaluation.call.x.shape[1:3]) * EPS * largest), 1.0),)
    filter = operation.inputs[FILTER] if operation.definition.filter is not None else None
    if filter is not None and filter.hybrid:
        steps = np.full_like(x, largest / 254)
        rounded = replace(evaluation, inputs=(steps, *evaluation.inputs[1:2]))
        yield ((_sizes(operation, rounded)[0], 1.0),)


def _sizes(operation: Operation, evaluation: Evaluation) -> tuple[Array, ...]:
    """Compute the op for absolute values, without an activation: the sums of the terms' magnitudes."""
    attrs = {k: v for k, v in evaluation.call.attrs.items() if k in operation.definition.attributes}
    if "activation" in attrs:
        attrs["activation"] = None
    sizes = [np.abs(v) if v is not None and v.dtype.kind in "fc" else v for v in evaluation.inputs]
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
    if operand.type.dtype not in REALS:
        return NOTHING
    activation = _activation(operation)
    approximate = activation is not None and activation.approximate
    exact = operation.definition.accuracy.arithmetic and not approximate
    spread = GENERAL * EPS * np.abs(y)
    limit = ATOL + spread
    spread = spread if exact else limit
    if operand.type.dtype is DType.FLOAT16:
        rounding = [*rounding, (_half(y), 1.0)]
    for size, terms in rounding:
        limit = limit + size * terms
        spread = spread + size * math.sqrt(terms)
    spread = spread + np.where((y != 0) & (np.abs(y) < TINIEST), TINIEST, 0.0)
    return Bound(np.nan_to_num(limit, nan=ATOL), np.nan_to_num(spread))
