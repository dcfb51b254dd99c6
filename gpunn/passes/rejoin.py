"""Concatenations take a tensor itself where its pieces lie side by side in them, all of them and in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.kernels.strides import dense, rows_walked
from gpunn.ops.movement.basic import concat
from gpunn.passes.rewrite import with_changes
from gpunn.rows import Rows

# For each piece the tensor that it is a part of, and its rows there.
_Pieces = Mapping[Operand, tuple[Operand | None, Rows | None]]


def rejoin(model: Graph) -> Graph:
    """Join tensors instead of their pieces. In networks like YOLO, layers read the pieces, too."""
    pieces = {
        result: (source, rows)
        for operation in model.operations
        if operation.definition.sources is not None
        for source in operation.inputs[:1]
        for result, rows in zip(
            operation.outputs, operation.definition.sources(operation.call()), strict=True
        )
        if source is not None and source.type.quantization == result.type.quantization
    }

    def change(operation: Operation) -> Operation:
        if operation.definition is not concat or not any(value in pieces for value in operation.inputs):
            return operation
        axis = operation.call().axis(operation.attrs["axis"], operation.outputs[0].type.rank)
        inputs = tuple(_rejoined(operation.inputs, axis, pieces))
        return operation if inputs == operation.inputs else replace(operation, inputs=inputs)

    return with_changes(model, change)


def _rejoined(inputs: Sequence[Operand | None], axis: int, pieces: _Pieces) -> Iterator[Operand | None]:
    """Yield what a concatenation along an axis takes; one tensor for all of its pieces."""
    place = 0
    while place < len(inputs):
        operand = inputs[place]
        source, _ = pieces.get(operand, (None, None)) if operand is not None else (None, None)
        count = 0 if source is None else _count(inputs[place:], source, axis, pieces)
        yield source if count else operand
        place += count or 1


def _count(inputs: Sequence[Operand | None], source: Operand, axis: int, pieces: _Pieces) -> int:
    """Return how many inputs, from the first one on, make up a tensor along an axis; 0 if they do not."""
    shape, steps, end = source.type.shape, dense(source.type.shape), 0
    for number, operand in enumerate(inputs):
        assert operand is not None
        piece = operand.type.shape
        others = len(piece) == len(shape) and (*piece[:axis], shape[axis], *piece[axis + 1 :]) == shape
        if not others or pieces.get(operand) != (source, rows_walked(piece, steps, end * steps[axis])):
            return 0
        end += piece[axis]
        if end == shape[axis]:
            return number + 1
    return 0
