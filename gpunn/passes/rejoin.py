"""Concatenations take a tensor that is there, instead of what stands side by side in it.

They take a tensor itself instead of all of its pieces, and the result of an earlier concatenation instead of
all that this has joined. One of two pieces the other way round is a tensor that moves around. What joins all
slices of a tensor, so that they lie as in the tensor, gives it another shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.kernels.strides import dense, rows_walked
from gpunn.ops.movement.basic import concat, reshape
from gpunn.ops.movement.roll import roll
from gpunn.ops.movement.split import stack
from gpunn.ops.movement.strided_slice import strided_slice
from gpunn.passes.rewrite import with_changes
from gpunn.rows import Rows
from gpunn.types import Shape

_Inputs = tuple[Operand | None, ...]
Pieces = Mapping[Operand, tuple[Operand, Rows | None]]


def rejoin(model: Graph) -> Graph:
    """Join tensors instead of their pieces, and what is joined already instead of its parts.

    In networks like YOLO, layers read the pieces, too. In DenseNet as PyTorch has it, each layer joins the
    results of all before it anew.
    """
    known = _Known(pieces_of(model))

    def change(operation: Operation) -> Operation:
        if operation.definition not in (concat, stack):
            return operation
        axis = operation.call().axis(operation.attrs["axis"], operation.outputs[0].type.rank)
        if (whole := known.whole(operation, axis)) is not None or operation.definition is stack:
            return whole or operation
        if len(operation.inputs) == 2 and (rolled := known.rolled(operation, axis)) is not None:
            return rolled
        inputs = tuple(known.rejoined(operation.inputs, axis))
        known.add(operation, axis)
        return operation if inputs == operation.inputs else replace(operation, inputs=inputs)

    return with_changes(model, change)


def pieces_of(model: Graph) -> Pieces:
    """Return for each piece the tensor that it is a part of, and its rows there."""
    return {
        result: (source, rows)
        for operation in model.operations
        if operation.definition.sources is not None
        for source in operation.inputs[:1]
        for result, rows in zip(
            operation.outputs, operation.definition.sources(operation.call()), strict=True
        )
        if source is not None and source.type.quantization == result.type.quantization
    }


@dataclass(frozen=True, slots=True)
class _Known:
    """The tensors that concatenations may take.

    pieces: those of all tensors. joined: the results of concatenations by their operands and axes. counts:
    how many operands those have that begin with one.
    """

    pieces: Pieces
    joined: dict[tuple[_Inputs, int], Operand] = field(default_factory=dict)
    counts: dict[tuple[Operand | None, int], set[int]] = field(default_factory=dict)

    def add(self, operation: Operation, axis: int) -> None:
        """Let later concatenations take the result of this one, if it has its operands as they are."""
        inputs, (result,) = operation.inputs, operation.outputs
        same = all(o is not None and o.type.quantization == result.type.quantization for o in inputs)
        if same and len(inputs) > 1 and operation.activation is None:
            self.joined.setdefault((inputs, axis), result)
            self.counts.setdefault((inputs[0], axis), set()).add(len(inputs))

    def rolled(self, operation: Operation, axis: int) -> Operation | None:
        """Return what moves a tensor around along an axis as a concatenation of two does; None for others."""
        last, first = operation.inputs
        assert last is not None
        source, _ = self.pieces.get(last, (None, None))
        if source is None or source.type != operation.outputs[0].type or operation.activation is not None:
            return None
        if count_pieces((first, last), source, axis, self.pieces) != 2:
            return None
        shifts = tuple(n if d == axis else 0 for d, n in enumerate(last.type.shape))
        return replace(operation, op=roll.name, inputs=(source,), attrs={"shifts": shifts})

    def whole(self, operation: Operation, axis: int) -> Operation | None:
        """Return what gives a tensor another shape, if an operation joins all of its pieces in order.

        A stack of all slices in the other order has the tensor the other way round. None for others.
        """
        slices, result, stacked = operation.inputs, operation.outputs[0].type, operation.definition is stack
        first = slices[0]
        source, _ = (None, None) if first is None else self.pieces.get(first, (None, None))
        alike = source is not None and source.type.with_shape(result.shape) == result
        if source is None or not alike or source.type.size != result.size or operation.activation is not None:
            return None
        if self._in_order(slices, source, result.shape, axis, stacked):
            return replace(operation, op=reshape.name, inputs=(source,), attrs={"shape": result.shape})
        alike = stacked and source.type == result
        if alike and self._in_order(slices[::-1], source, result.shape, axis, stacked):
            ends, strides = (None,) * result.rank, tuple(-1 if d == axis else 1 for d in range(result.rank))
            attrs = {"begin": ends, "end": ends, "strides": strides, "shrink_axes": ()}
            return replace(operation, op=strided_slice.name, inputs=(source,), attrs=attrs)
        return None

    def _in_order(self, slices: _Inputs, source: Operand, shape: Shape, axis: int, stacked: bool) -> bool:
        """Tell whether slices lie in a tensor as what joins them along an axis puts them side by side."""
        steps, end = dense(shape), 0
        for operand in slices:
            assert operand is not None
            piece = operand.type.shape
            extents = (*piece[:axis], 1, *piece[axis:]) if stacked else piece
            if self.pieces.get(operand) != (source, rows_walked(extents, steps, end * steps[axis])):
                return False
            end += extents[axis]
        return True

    def rejoined(self, inputs: _Inputs, axis: int) -> Iterator[Operand | None]:
        """Yield what a concatenation along an axis takes."""
        place = 0
        while place < len(inputs):
            found, count = self._longest(inputs, place, axis)
            yield found if count else inputs[place]
            place += count or 1

    def _longest(self, inputs: _Inputs, place: int, axis: int) -> tuple[Operand | None, int]:
        """Return what has most of the inputs, from a place on, and how many; 0 for nothing."""
        first = inputs[place]
        source, _ = self.pieces.get(first, (None, None)) if first is not None else (None, None)
        found = [(source, 0 if source is None else count_pieces(inputs[place:], source, axis, self.pieces))]
        for count in self.counts.get((first, axis), ()):
            result = self.joined.get((inputs[place : place + count], axis))
            if result is not None:
                found.append((result, count))
        return max(found, key=lambda pair: pair[1])


def count_pieces(inputs: _Inputs, source: Operand, axis: int, pieces: Pieces) -> int:
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
