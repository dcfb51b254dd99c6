"""Pieces of one tensor that all move alike are taken out of it behind a single move of the whole tensor.

One layer often computes queries, keys and values of attention side by side, as in GPT-2 and in PyTorch's
MultiheadAttention. Each of them is then divided into heads and transposed, which copies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpunn.graph.consumers import consumers
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops.kernels.strides import dense, merge, rows_walked, walked_as
from gpunn.ops.movement.basic import reshape, transpose
from gpunn.ops.movement.split import split
from gpunn.passes.combine import reshapes
from gpunn.passes.rewrite import keeps_scale
from gpunn.types import Array, Shape

_MAX_ELEMENTS = 1 << 24  # of a tensor: numpy reserves a byte for each, and touches none


def stack_pieces(model: Graph) -> Graph:
    """Transpose tensors as a whole, where now all their pieces are transposed, each in the same way."""
    readers = consumers(model)
    made: list[Operation] = []
    gone: set[Operation] = set()
    for operation in model.operations:
        if operation not in gone:
            made.append(operation)
        for result in operation.outputs if not _moves(operation) else ():
            found = Stack.of(result, readers, model.results)
            if found is not None:
                made += found.operations(operation.origin)
                gone.update(found.moves)
    return model.with_operations(made) if gone else model


class Stack(NamedTuple):
    """A tensor whose elements are those of pieces, which lie evenly apart in it and are walked alike.

    pieces: in the order of their first elements. sizes, strides: of the walk along each piece; `apart` leads
    from one piece to the next. moves: the operations that take the pieces out of the tensor and move them.
    """

    tensor: Operand
    pieces: tuple[Operand, ...]
    sizes: Shape
    strides: Shape
    apart: int
    moves: tuple[Operation, ...]

    @classmethod
    def of(
        cls, tensor: Operand, readers: Mapping[Operand, Sequence[Operation]], results: set[Operand]
    ) -> Stack | None:
        """Return a tensor as a stack of all that is read of it; None if it is none, or one already."""
        found = followed(tensor, readers, results)
        if found is None or len(found.ends) < 2:
            return None
        turns = sum(move.definition is transpose for move in found.moves)
        apart = turns == 1 and any(map(_divides_rows, found.moves))
        return cls._even(tensor, found.ends, found.moves) if turns > 1 or apart else None

    @classmethod
    def _even(
        cls, tensor: Operand, ends: Mapping[Operand, View], moves: tuple[Operation, ...]
    ) -> Stack | None:
        """Return the stack of what is read, if all elements are, each once, and all in the same order."""
        firsts = {view.first: operand for operand, view in ends.items()}
        walks = {(view.sizes, view.strides) for view in ends.values()}
        places = sorted(firsts)
        if len(walks) != 1 or len(places) != len(ends) or places[0] != 0:
            return None
        ((sizes, strides),) = walks
        found = cls(tensor, tuple(firsts[p] for p in places), sizes, strides, places[1], moves)
        even = places == [k * found.apart for k in range(len(places))]
        extents, order = found._levels()
        dense_steps = tuple(step for _, step in sorted(found._axes(), key=lambda axis: -axis[1]))
        whole = dense(extents) == dense_steps and int(np.prod(extents)) == tensor.type.size
        moved = not View(sizes, strides, 0).in_rows and order != tuple(range(len(order)))
        return found if even and whole and moved else None

    def _axes(self) -> tuple[tuple[int, int], ...]:
        """Return the extents and strides of the stack in the tensor."""
        return ((len(self.pieces), self.apart), *zip(self.sizes, self.strides, strict=True))

    def _levels(self) -> tuple[Shape, Shape]:
        """Return the tensor's shape, as axes of the stack in the order that they have in it, and the order of
        these in the stack.
        """
        axes = self._axes()
        found = sorted(range(len(axes)), key=lambda k: -axes[k][1])
        return tuple(axes[k][0] for k in found), tuple(found.index(k) for k in range(len(axes)))

    def operations(self, origin: str) -> Iterator[Operation]:
        """Yield what moves the tensor, and takes the pieces out of it."""
        extents, perm = self._levels()
        count, shape = len(self.pieces), tuple(extents[axis] for axis in perm)
        whole = self.tensor
        for op, attrs, to in (
            (reshape.name, {"shape": extents}, extents),
            (transpose.name, {"perm": perm}, shape),
        ):
            result = self._operand(op, to)
            yield Operation(op, (whole,), (result,), attrs, origin)
            whole = result
        parts = tuple(self._operand(split.name, (1, *self.sizes)) for _ in self.pieces)
        yield Operation(split.name, (whole,), parts, {"sizes": (1,) * count, "axis": 0}, origin)
        for part, piece in zip(parts, self.pieces, strict=True):
            yield Operation(reshape.name, (part,), (piece,), {"shape": piece.type.shape}, origin)

    def _operand(self, op: str, shape: Shape) -> Operand:
        type = self.tensor.type.with_shape(shape)
        return Operand(f"{self.tensor.name}: {op}", type, Lifetime.TEMPORARY, hybrid=self.tensor.hybrid)


class View(NamedTuple):
    """A walk along elements of a tensor: extents and strides, with as few dimensions as possible."""

    sizes: Shape
    strides: Shape
    first: int

    @property
    def in_rows(self) -> bool:
        """Tell whether it goes along rows of the tensor."""
        return rows_walked(self.sizes, self.strides, self.first) is not None


class Followed(NamedTuple):
    """The places where elements of a tensor are read, as views of it, and the operations that move them."""

    ends: Mapping[Operand, View]
    moves: tuple[Operation, ...]


def followed(
    tensor: Operand, readers: Mapping[Operand, Sequence[Operation]], results: set[Operand]
) -> Followed | None:
    """Follow the elements of a tensor to where they are read; None if nothing moves them, or not as views.

    results: those of the model.
    """
    alike = tensor.type.quantization is None or tensor.type.quantization.per_tensor
    moved = any(map(_moves, readers.get(tensor, ())))
    if not (moved and alike and 1 < tensor.type.size <= _MAX_ELEMENTS):
        return None
    elements = np.zeros(tensor.type.shape, np.int8)
    ends, moves, pending = dict[Operand, Array](), list[Operation](), [(tensor, elements)]
    while pending:
        operand, view = pending.pop()
        if operand in results:
            ends[operand] = view
        for reader in readers.get(operand, ()):
            views = None if operand in results else _views(reader, operand, view)
            if views is None:
                ends[operand] = view
            else:
                moves.append(reader)
                pending += zip(reader.outputs, views, strict=True)
    start = _address(elements)
    found = {}
    for operand, view in ends.items():
        sizes, strides = merge(view.shape, view.strides)
        found[operand] = View(sizes, strides, _address(view) - start)
    return Followed(found, tuple(moves))


def _moves(operation: Operation) -> bool:
    """Tell whether an operation only shows its first operand, or pieces of it, in another way."""
    definition = operation.definition
    moving = definition is transpose or reshapes(operation) or definition.sources is not None
    return moving and operation.activation is None and keeps_scale(operation)


def _divides_rows(operation: Operation) -> bool:
    """Tell whether a piece that an operation takes of a tensor does not lie side by side in it."""
    sources = operation.definition.sources
    pieces = () if sources is None else sources(operation.call())
    return any(rows is None or rows.length != rows.pitch for rows in pieces)


def _views(operation: Operation, operand: Operand, view: Array) -> Sequence[Array] | None:
    """Return what an operation makes of a view of elements, as views; None if that is no view."""
    others = [None if i is None else i.value for i in operation.inputs[1:]]
    if not _moves(operation) or operation.inputs[0] is not operand or any(o is None for o in others):
        return None
    if reshapes(operation):
        shape = operation.outputs[0].type.shape
        steps = walked_as(shape, *merge(view.shape, view.strides))
        return None if steps is None else (as_strided(view, shape, steps),)
    found = operation.definition.reference(view, *others, **operation.attrs)
    return found if isinstance(found, tuple) else (found,)


def _address(view: Array) -> int:
    place: int = view.__array_interface__["data"][0]
    return place
