"""Losses: operations that are added to a graph, and give one number for a mini-batch.

Meaning: NeuralNetwork.proto of Core ML, MeanSquaredErrorLossLayer and CategoricalCrossEntropyLossLayer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import writers_of

_ORIGIN = "loss"


def mean_squared_error(graph: Graph, predicted: Operand, target: Operand) -> Operand:
    """Add the mean of (predicted - target)^2 over all elements; return it, of shape [].

    predicted, target: one shape, float32 or float16. Raises ModelError for other types.
    """
    _check(predicted, target)
    error = _add(graph, "squared_difference", predicted, target)
    return _add(graph, "mean", error, axes=tuple(range(predicted.type.rank)))


def cross_entropy(graph: Graph, probabilities: Operand, target: Operand, axis: int = -1) -> Operand:
    """Add the mean over all rows of -sum(target * log(probabilities)) along an axis; return it, of shape [].

    probabilities, target: one shape, float32 or float16. If the probabilities are those of a softmax, also
    under another shape or order of axes, the logarithm is computed from the softmax's operand, without
    overflow, and the gradient with respect to that is (probabilities - target) / rows for targets that add up
    to 1. Raises ModelError for other types and for an axis out of range.
    """
    _check(probabilities, target)
    return _entropy(graph, _logarithm(graph, probabilities), target, axis)


def cross_entropy_with_logits(graph: Graph, logits: Operand, target: Operand, axis: int = -1) -> Operand:
    """Add cross_entropy() of softmax(logits) along an axis; return it, of shape []."""
    _check(logits, target)
    return _entropy(graph, _add(graph, "log_softmax", logits, axis=axis), target, axis)


def _entropy(graph: Graph, logarithm: Operand, target: Operand, axis: int) -> Operand:
    type = target.type
    if not -type.rank <= axis < type.rank:
        raise ModelError(f"axis {axis} is out of range for {target!r}")
    rows = max(type.size // max(type.shape[axis], 1), 1)
    product = _add(graph, "mul", target, logarithm)
    total = _add(graph, "reduce_sum", product, axes=tuple(range(type.rank)))
    return _add(graph, "mul", total, graph.constant("-1 / rows", np.array(-1 / rows, type.dtype.numpy)))


def _logarithm(graph: Graph, probabilities: Operand) -> Operand:
    """Return the logarithm of probabilities, by log_softmax if that is possible."""
    writers = writers_of(graph)
    moves: list[Operation] = []
    writer = writers.get(probabilities)
    while writer is not None and writer.definition.algebra.permutes:
        moves.append(writer)
        source = writer.inputs[0]
        writer = None if source is None else writers.get(source)
    if writer is None or writer.op != "softmax" or writer.integer or writer.inputs[0] is None:
        return _add(graph, "log", probabilities)
    logits, beta = writer.inputs[0], float(writer.attrs["beta"])
    if beta != 1:
        factor = graph.constant("softmax's beta", np.array(beta, logits.type.dtype.numpy))
        logits = _add(graph, "mul", logits, factor)
    found = _add(graph, "log_softmax", logits, axis=writer.attrs["axis"])
    for move in reversed(moves):
        found = _add(graph, move.op, found, **move.attrs)
    return found


def _check(predicted: Operand, target: Operand) -> None:
    if predicted.type != target.type:
        raise ModelError(f"a loss compares tensors of one type, got {predicted!r} and {target!r}")


def _add(graph: Graph, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    operands: Sequence[Operand] = inputs
    return graph.add(op, operands, attrs, origin=_ORIGIN, names=[f"{_ORIGIN}: {op} {len(graph.operations)}"])[
        0
    ]
