"""Tolerances of one operation's result: bounds for each element, from the arithmetic.

Real numbers in float32, for the result y of an operation on inputs that both sides have to the bit:

    |error| <= 1e-5 + 5 eps |y|     the general promise, which every op keeps
             + n eps sum |w x|      for sums of n products (Higham, Accuracy and Stability of Numerical
                                    Algorithms, section 3.1): the op's own meaning on absolute values
             + what an op states    beside it (gpunn.ops.accuracy)

and 0 for operations that only move elements, and for integers. A fused activation passes errors on by its
steepest slope. Quantised tensors: 0 steps between gpunn's backends. A result that is stored as float16 may be
off by 2^-11 |y| more. Products in f16 have errors of their own (gpunn.ops.contraction.half_products). Either
part of a complex result may be off by what holds for its absolute value.

`spread` is the size of rounding errors that are independent of one another, as they are over many layers: the
square root of n for n (Higham and Mary 2019, SIAM J. Sci. Comput. 41, A2815), and no 1e-5 for operations that
only add, multiply and compare (Accuracy.arithmetic). Operations that select one of several elements do not
round (Accuracy.selects), so what asks whether an element is the largest gets the same answer. A result below
2^-126 is subnormal, and a device may make it 0 (WGSL, Floating Point Evaluation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.graph.operation import Operand, Operation
from gpunn.ops.accuracy import ATOL, EPS, GENERAL, TINIEST, Evaluation
from gpunn.ops.elementwise.unary import ACTIVATIONS
from gpunn.ops.elementwise.unary_declaration import Fused
from gpunn.ops.op import as_tuple
from gpunn.types import Array, DType, TensorType

REALS = (DType.FLOAT32, DType.FLOAT16, DType.COMPLEX64)

# One source of errors: for each output a size, and how many errors of it add up.
Errors = tuple[tuple[Array, float], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds of one output, for each element or one for all: the largest error, and its usual size."""

    limit: Array
    spread: Array


NOTHING = Bound(np.zeros(()), np.zeros(()))


def stored(type: TensorType) -> bool:
    """Tell whether a tensor is compared in steps, as quantised integers are."""
    return type.quantization is not None and type.dtype in (DType.UINT8, DType.INT8, DType.INT16, DType.INT32)


def bounds(
    operation: Operation,
    inputs: Sequence[Array | None],
    results: tuple[Array, ...],
    further: Callable[[Evaluation], Iterable[Errors]] = lambda evaluation: (),
    steps: float = 0.0,
) -> tuple[Bound, ...]:
    """Return for each output the largest difference from `results`, which are exact for these inputs.

    Reals in float64. further: errors of arithmetic that is not gpunn's; steps: those of quantised tensors.
    """
    if operation.definition.raw:
        return tuple(_moved(operand, y) for operand, y in zip(operation.outputs, results, strict=True))
    evaluation = Evaluation(operation.call(), inputs, results)
    real = any(o.type.dtype in REALS for o in operation.outputs) and not operation.integer
    with np.errstate(all="ignore"):
        rounding = [*_rounding(operation, evaluation), *further(evaluation)] if real else []
        return tuple(
            _bound(operation, operand, y, [terms[number] for terms in rounding], steps)
            for number, (operand, y) in enumerate(zip(operation.outputs, results, strict=True))
        )


def magnitudes(operation: Operation, evaluation: Evaluation) -> tuple[Array, ...]:
    """Compute the op for absolute values, without an activation: the sums of the terms' magnitudes."""
    attrs = {k: v for k, v in evaluation.call.attrs.items() if k in operation.definition.attributes}
    if "activation" in attrs:
        attrs["activation"] = None
    sizes = [np.abs(v) if v is not None and v.dtype.kind in "fc" else v for v in evaluation.inputs]
    return as_tuple(operation.definition.reference(*sizes, **attrs))


def half_products(operation: Operation, evaluation: Evaluation) -> Iterator[Errors]:
    """Yield the additional errors of an operation whose products may be computed in f16."""
    errors = operation.definition.accuracy.halves
    found = None if errors is None else errors(evaluation)
    if found is None:
        return
    activation = _activation(operation)
    slope = 1.0 if activation is None else activation.slope
    yield ((slope * found.rounding * magnitudes(operation, evaluation)[0], float(found.roundings)),)
    lost = replace(evaluation, inputs=(*found.lost, *(None for _ in evaluation.inputs[2:])))
    yield ((slope * magnitudes(operation, lost)[0], 1.0),)


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


def _rounding(operation: Operation, evaluation: Evaluation) -> list[Errors]:
    """Return the terms beside the general promise, one for each source of errors."""
    accuracy, call = operation.definition.accuracy, evaluation.call
    found: list[Errors] = []
    activation = _activation(operation)
    slope = 1.0 if activation is None else activation.slope
    if accuracy.terms is not None:
        terms = float(accuracy.terms(call))
        found.append(tuple((slope * EPS * size, terms) for size in magnitudes(operation, evaluation)))
    if accuracy.detour is not None:
        size, count = accuracy.detour(evaluation)
        found.append(((slope * EPS * size, float(count)),) * len(evaluation.results))
    if accuracy.roundings is not None:
        terms = float(accuracy.roundings(call))
        found.append(tuple((EPS * np.abs(y), terms) for y in evaluation.results))
    if accuracy.formula is not None:
        found.append(((accuracy.formula(evaluation), 1.0),) * len(evaluation.results))
    return found


def _activation(operation: Operation) -> Fused | None:
    """Return the activation that is applied to the results."""
    found = ACTIVATIONS.get(operation.attrs.get("activation") or "")
    return None if found is None else found.fused


def _bound(
    operation: Operation,
    operand: Operand,
    y: Array,
    rounding: Sequence[tuple[Array, float]],
    steps: float,
) -> Bound:
    if stored(operand.type):
        return Bound(np.asarray(steps), np.asarray(steps))
    if operand.type.dtype not in REALS:
        return NOTHING
    activation = _activation(operation)
    approximate = activation is not None and activation.approximate
    exact = operation.definition.accuracy.arithmetic and not approximate
    spread = GENERAL * EPS * np.abs(y)
    limit = ATOL + spread
    spread = spread if exact else limit
    if operation.definition.accuracy.selects and activation is None:
        spread = np.zeros_like(spread)
    if operand.type.dtype is DType.FLOAT16:
        rounding = [*rounding, (_half(y), 1.0)]
    for size, terms in rounding:
        limit = limit + size * terms
        spread = spread + size * math.sqrt(terms)
    spread = spread + np.where((y != 0) & (np.abs(y) < TINIEST), TINIEST, 0.0)
    return Bound(np.nan_to_num(limit, nan=ATOL), np.nan_to_num(spread))
