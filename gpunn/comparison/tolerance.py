"""Tolerances of one operation's result on a side of a comparison: gpunn's own, and what LiteRT may add.

Quantised tensors: 1 step to LiteRT, which rounds differently in some operations (docs/quantized.md).
LiteRT interpolates at positions in float32. In an image of extent s these are off by up to s eps, and so is
the result by as much of the difference of two neighbours. For real activations and a quantised filter LiteRT
rounds the activations to 127 steps of the largest, half a step for each product.

gpunn.comparison.noise draws from `Bound.spread`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from gpunn.comparison.sides import Arithmetic
from gpunn.graph import tolerance
from gpunn.graph.exact import widen
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.tolerance import NOTHING, Bound, Errors, half_products, magnitudes
from gpunn.ops.accuracy import EPS, Evaluation
from gpunn.ops.filter import FILTER
from gpunn.types import Array

LITERT_STEPS = 1.0


def bounds(
    operation: Operation, values: Mapping[Operand, Array], results: tuple[Array, ...], arithmetic: Arithmetic
) -> tuple[Bound, ...]:
    """Return for each output the largest difference of a side from `results`, exact for the inputs in
    `values`.
    """
    if arithmetic is Arithmetic.EXACT:
        return (NOTHING,) * len(results)
    inputs = [
        None if o is None else widen(values[o] if o.value is None else o.value) for o in operation.inputs
    ]
    if arithmetic is Arithmetic.HALF_PRODUCTS:
        return tolerance.bounds(operation, inputs, results, partial(half_products, operation))
    if arithmetic is not Arithmetic.LITERT:
        return tolerance.bounds(operation, inputs, results)
    return tolerance.bounds(operation, inputs, results, partial(_litert, operation), LITERT_STEPS)


def _litert(operation: Operation, evaluation: Evaluation) -> Iterator[Errors]:
    """Yield the additional terms of LiteRT's kernels."""
    x = evaluation.input(0)
    largest = float(np.abs(x).max(initial=0.0)) if x.dtype.kind == "f" else 0.0
    if operation.definition.accuracy.interpolates:
        yield ((np.asarray(2 * max(evaluation.call.x.shape[1:3]) * EPS * largest), 1.0),)
    filter = operation.inputs[FILTER] if operation.definition.filter is not None else None
    if filter is not None and filter.hybrid:
        steps = np.full_like(x, largest / 254)
        rounded = replace(evaluation, inputs=(steps, *evaluation.inputs[1:2]))
        yield ((magnitudes(operation, rounded)[0], 1.0),)
