"""Fully connected layers that read the same tensor become one, which computes their results side by side.

Attention as BERT has it computes queries, keys and values by a layer each. Each of them is then divided into
heads and transposed. One layer is one product that keeps more of a device busy, and stores all three so.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.ops.filter import BIAS, FILTER
from gpunn.ops.movement.split import split
from gpunn.passes.rewrite import with_others
from gpunn.passes.scale import MAX_SCALED_BYTES
from gpunn.passes.stack_pieces import Stack, followed
from gpunn.types import DType, float32

Readers = Mapping[Operand, Sequence[Operation]]


def merge_layers(model: Graph) -> Graph:
    """Merge layers of one tensor whose results are all transposed in the same way; see stack_pieces().

    Up to MAX_SCALED_BYTES of filters are put together.
    """
    readers, weights = consumers(model), _Weights()
    alike: dict[Hashable, list[Operation]] = {}
    for layer in model.operations:
        key = _likeness(layer, readers, model.results)
        if key is not None:
            alike.setdefault(key, []).append(layer)
    instead: dict[Operation, list[Operation]] = {}
    for layers in alike.values():
        stack = _stack(layers, readers, model.results) if len(layers) > 1 else None
        merged = None if stack is None else _merged(layers, stack.tensor, weights)
        if stack is not None and merged is not None:
            instead.update((gone, []) for gone in (*layers, *stack.moves))
            instead[layers[0]] = [merged, *stack.operations(merged.origin)]
    return with_others(model, instead)


def _likeness(layer: Operation, readers: Readers, results: set[Operand]) -> Hashable | None:
    """Return what layers that are merged have in common; None for what is not merged."""
    if layer.definition is not fully_connected or layer.activation is not None:
        return None
    x, *weights = layer.inputs
    (y,) = layer.outputs
    known = all(w is None or (w.value is not None and w.type.dtype is DType.FLOAT32) for w in weights)
    if x is None or not known or y.type.dtype is not DType.FLOAT32 or y.hybrid:
        return None
    found = followed(y, readers, results)
    if found is None or len(found.ends) != 1:
        return None
    ((end, view),) = found.ends.items()
    return None if end is y or view.in_rows else (x, y.type, view, tuple(sorted(layer.attrs.items())))


def _stack(layers: Sequence[Operation], readers: Readers, results: set[Operand]) -> Stack | None:
    """Return the results of layers as pieces of one tensor, side by side; None if they are no stack."""
    (y,), origin = layers[0].outputs, layers[0].origin
    channels, count = y.type.shape[-1], len(layers)
    type = y.type.with_shape((*y.type.shape[:-1], channels * count))
    whole = replace(y, name=f"{y.name}: merged", type=type)
    pieces = tuple(layer.outputs[0] for layer in layers)
    attrs = {"sizes": (channels,) * count, "axis": -1}
    parts = Operation(split.name, (whole,), pieces, attrs, origin)
    return Stack.of(whole, {**readers, whole: [parts]}, results)


def _merged(layers: Sequence[Operation], result: Operand, weights: _Weights) -> Operation | None:
    """Return one layer that computes the results of several side by side; None if it gets too large."""
    filter = weights.joined(tuple(layer.inputs[FILTER] for layer in layers))
    biases = tuple(layer.inputs[BIAS] if len(layer.inputs) > BIAS else None for layer in layers)
    known = any(bias is not None for bias in biases)
    bias = weights.joined(biases) if known else None
    if filter is None or (known and bias is None):
        return None
    return replace(layers[0], inputs=(layers[0].inputs[0], filter, bias), outputs=(result,))


class _Weights:
    """Constants that are put together, each once: several layers may have the same ones."""

    def __init__(self) -> None:
        self._left = MAX_SCALED_BYTES
        self._known: dict[tuple[Operand | None, ...], Operand] = {}

    def joined(self, parts: tuple[Operand | None, ...]) -> Operand | None:
        """Return a constant of several equally large ones, where None is zeros; None if it is too large."""
        if parts not in self._known:
            values = [None if part is None else part.value for part in parts]
            like = next(value for value in values if value is not None)
            self._left -= like.nbytes * len(parts)
            if self._left < 0:
                return None
            value = np.concatenate([np.zeros_like(like) if v is None else v for v in values])
            self._known[parts] = Operand("merged weights", float32(*value.shape), Lifetime.CONSTANT, value)
        return self._known[parts]
