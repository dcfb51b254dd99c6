"""A product with one number behind a piece of a layer's result becomes part of the layer's weights.

One layer often computes queries, keys and values of attention. Then the queries alone are scaled, behind the
operations that take them out of the result and move them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gpunn.graph.consumers import consumers
from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.filter import FILTER
from gpunn.passes.scale import MAX_SCALED_BYTES, change_of, changed_layer, output_axis
from gpunn.types import Array

_MAX_ELEMENTS = 1 << 24  # of a layer's result: the channel of each is a float32, which moves as elements do


class _Piece(NamedTuple):
    """A piece of a layer's result: its operand, who reads it, and the channels that its elements are of.

    reader: None for a result of the model. channels: None as long as nobody asks for them.
    """

    operand: Operand
    reader: Operation | None
    channels: Array | None

    def numbers(self) -> Array:
        """Return the numbers of the channels that it has elements of."""
        assert self.channels is not None
        return np.flatnonzero(np.bincount(self.channels.ravel().astype(np.intp)))

    def factor(self, results: set[Operand]) -> float:
        """Return the number that the piece is multiplied with and nothing else is done, or 1.

        results: those of the model, which are computed.
        """
        reader, type = self.reader, self.operand.type
        if reader is None or reader.activation is not None or reader.outputs[0].type != type:
            return 1.0
        if reader.outputs[0] in results:
            return 1.0
        factor, summand = change_of(reader, self.operand) or (np.ones(1), np.zeros(1))
        alike = factor.size and (factor == factor[0]).all() and not summand.any()
        return float(factor[0]) if alike else 1.0


def fold_factors(model: Graph) -> Graph:
    """Fold products of pieces of a layer's result with one number into its filter and bias.

    The weights of the piece are multiplied, if nothing else reads what these compute. Up to MAX_SCALED_BYTES
    of filters are computed again.
    """
    pieces, left = _Pieces(consumers(model), model.results), MAX_SCALED_BYTES
    layers: dict[Operation, Operation] = {}
    instead: dict[Operand, Operand] = {}
    for layer in model.operations:
        axis = output_axis(layer)
        if axis is not None and layer.activation is None and pieces.may_scale(layer):
            factor, scaled = pieces.factors(layer)
            changed = changed_layer(layer, axis, factor, np.zeros_like(factor), left) if scaled else None
            if changed is not None:
                left -= changed.call().input(FILTER).nbytes
                layers[layer] = changed
                instead.update(scaled)
    if not layers:
        return model
    kept = (layers.get(o, o) for o in model.operations if o.outputs[0] not in instead)
    return model.with_operations([replace_inputs(operation, instead) for operation in kept])


class _Pieces(NamedTuple):
    """The ways to the pieces of results: who reads each operand, and the results of the model."""

    readers: Mapping[Operand, Sequence[Operation]]
    results: set[Operand]

    def may_scale(self, layer: Operation) -> bool:
        """Tell whether a piece of a layer's result is multiplied with a number."""
        (result,) = layer.outputs
        small = 0 < result.type.size <= _MAX_ELEMENTS
        return small and any(
            p.factor(self.results) != 1 and p.operand is not result for p in self._of(result)
        )

    def factors(self, layer: Operation) -> tuple[Array, dict[Operand, Operand]]:
        """Return the factor of each channel of a layer, and what takes the place of each product.

        Weights have the factor if no other piece has elements of these channels.
        """
        (result,) = layer.outputs
        channels = np.arange(result.type.shape[-1], dtype=np.float32)
        found = [*self._of(result, np.broadcast_to(channels, result.type.shape))]
        numbers = [piece.numbers() for piece in found]
        count = np.zeros(channels.size, np.int64)
        for of_piece in numbers:
            count[of_piece] += 1
        factor, scaled = np.ones(channels.size), dict[Operand, Operand]()
        for piece, of_piece in zip(found, numbers, strict=True):
            number = piece.factor(self.results)
            if number != 1 and (count[of_piece] == 1).all():
                assert piece.reader is not None
                factor[of_piece] = number
                scaled[piece.reader.outputs[0]] = piece.operand
        return factor, scaled

    def _of(self, operand: Operand, channels: Array | None = None) -> Iterator[_Piece]:
        """Yield the pieces of an operand that no operation moves further."""
        pending = [(operand, channels)]
        while pending:
            operand, channels = pending.pop()
            if operand in self.results:
                yield _Piece(operand, None, channels)
            for reader in self.readers.get(operand, ()):
                others = [None if o is None else o.value for o in reader.inputs[1:]]
                if not _moves(reader) or reader.inputs[0] is not operand or any(o is None for o in others):
                    yield _Piece(operand, reader, channels)
                elif channels is None:
                    pending += ((result, None) for result in reader.outputs)
                else:
                    pending += zip(reader.outputs, reader.evaluate([channels, *others]), strict=True)


def _moves(operation: Operation) -> bool:
    """Tell whether the results of an operation are elements of its first operand, as they are."""
    moves = operation.definition.algebra.permutes or operation.definition.sources is not None
    return moves and operation.activation is None
