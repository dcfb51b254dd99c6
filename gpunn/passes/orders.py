"""Ordered: an operation that reads views, with an order of the axes that its operands share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpunn.graph.operation import Operation
from gpunn.ops.axes import Axes, Places
from gpunn.ops.call import Call
from gpunn.passes.arrangement import Arrangement, View, own
from gpunn.types import Shape, TensorType

Order = tuple[int | None, ...] | None  # of shared axes, see gpunn.ops.axes; None is the file's
Form = tuple[tuple[Arrangement, ...], tuple[Arrangement, ...]]  # of the sources of inputs, and of results

_ABSENT: Arrangement = ()
_NEW: Arrangement = (None,)


Known = dict[Hashable, "Shared | None"]


@dataclass(slots=True, eq=False)
class Ordered:
    """An operation that reads views. `order` is that of its shared axes."""

    operation: Operation
    inputs: tuple[View | None, ...]
    known: Known
    order: Order = None
    _shared: Shared | None = None
    _asked: bool = False
    _forms: dict[Order, Form] = field(default_factory=dict)

    @property
    def shared(self) -> Shared | None:
        """Return what its operands share; None if it needs their axes as they are."""
        if not self._asked:
            self._shared, self._asked = Shared.of(self.operation, self.known), True
        return self._shared

    def form(self, order: Order) -> Form:
        """Return in which arrangements it reads the sources of its inputs, and writes its results."""
        found = self._forms.get(order)
        if found is None:
            found = self._forms[order] = self._form(order)
        return found

    def _form(self, order: Order) -> Form:
        shared = self._shared
        if order is None or shared is None:
            reads = [_ABSENT if view is None else view.axes for view in self.inputs]
            return tuple(reads), tuple([own(o.type.shape) for o in self.operation.outputs])
        pairs = zip(self.inputs, shared.inputs, strict=True)
        reads = [_ABSENT if v is None or p is None else v.through(p.arranged(order)) for v, p in pairs]
        return tuple(reads), tuple([p.arranged(order) for p in shared.outputs])

    def attributes(self, shape: Shape) -> Mapping[str, Any]:
        """Return the attributes for the order, where the first result has a shape."""
        facet, shared, attrs = self.operation.definition.algebra.axes, self.shared, self.operation.attrs
        if facet is None or shared is None or self.order is None or facet.by_types:
            return attrs
        return facet.attributes(attrs, self.order, shared.count, shape)

    def order_to_read(self, index: int, wanted: Arrangement) -> Order:
        """Return the order in which it reads an input's source in this arrangement; None if there is none."""
        view, shared = self.inputs[index], self.shared
        if view is None or shared is None:
            return None
        return shared.order(shared.inputs[index], view.back(wanted))

    def order_to_write(self, index: int, wanted: Arrangement) -> Order:
        """Return the order in which it writes a result in this arrangement; None if there is none."""
        shared = self.shared
        return None if shared is None else shared.order(shared.outputs[index], wanted, result=True)


class _Pieces(NamedTuple):
    """An operand's axes along each shared axis; None is one of extent 1.

    `full`: it has every shared axis that is longer than 1. `fixed`: its axes stay as they are.
    """

    along: tuple[Arrangement, ...]
    full: bool
    fixed: Arrangement | None

    def arranged(self, order: Sequence[int | None]) -> Arrangement:
        """Return the arrangement for an order of the shared axes."""
        if self.fixed is not None:
            return self.fixed
        found: list[int | None] = []
        for axis in order:
            found += _NEW if axis is None else self.along[axis]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Shared:
    """The axes that an operation's operands share. `single` are those of extent 1, the named ones first."""

    count: int
    inputs: tuple[_Pieces | None, ...]
    outputs: tuple[_Pieces, ...]
    single: tuple[int, ...]
    named: frozenset[int]

    @classmethod
    def of(cls, operation: Operation, known: Known) -> Shared | None:
        """Return what the operands of an operation share; None if it needs their axes as they are.

        `known` are the answers for ops without attributes that name axes: these follow from types.
        """
        facet = operation.definition.algebra.axes
        if facet is None:
            return None
        call = operation.call()
        if facet.by_types:
            key = id(facet), tuple([_key(type) for type in (*call.inputs, *call.outputs)])
            if key not in known:
                known[key] = cls._of(facet, call)
            return known[key]
        return cls._of(facet, call)

    @classmethod
    def _of(cls, facet: Axes, call: Call) -> Shared | None:
        simple = all([_simple(type) for type in (*call.inputs, *call.outputs) if type is not None])
        space = facet.space(call) if simple else None
        if space is None:
            return None
        count = len(space.outputs[0])
        shapes = [None if type is None else type.shape for type in (*call.inputs, *call.outputs)]
        places = (*space.inputs, *space.outputs)
        along = [
            None if shape is None else _along(shape, at, _NEW if facet.broadcast and shape else ())
            for shape, at in zip(shapes, places, strict=True)
        ]
        ones = [[_is_one(piece) for piece in found or ()] for found in along]
        long = [axis for axis in range(count) if any(found and not found[axis] for found in ones)]
        inputs = len(call.inputs)
        pieces = [
            None
            if shape is None or found is None
            else _Pieces(found, not any(one[axis] for axis in long), own(shape) if k in facet.fixed else None)
            for k, (shape, found, one) in enumerate(zip(shapes, along, ones, strict=True))
        ]
        named = frozenset(facet.named(call, count))
        single = sorted((axis for axis in range(count) if axis not in long), key=lambda a: a not in named)
        results = tuple([p for p in pieces[inputs:] if p is not None])
        return cls(count, tuple(pieces[:inputs]), results, tuple(single), named)

    def order(self, operand: _Pieces | None, wanted: Arrangement, result: bool = False) -> Order:
        """Return an order of the shared axes in which an operand has this arrangement, None if there is none.

        An operand that is not full does not decide on the order, but for a result: axes of which it has one
        element, as a slice has, are where the arrangement has such axes, or come first.
        """
        if operand is None or operand.fixed is not None or not (operand.full or result):
            return None
        starts = {at[0]: axis for axis, at in enumerate(operand.along) if at and at[0] is not None}
        left = [axis for axis, at in enumerate(operand.along) if _is_one(at) and axis not in self.single]
        single = [*left, *self.single]
        found: list[int | None] = []
        k = 0
        while k < len(wanted):
            first = wanted[k]
            if first is None:
                found.append(single.pop(0) if single else None)
                k += 1
                continue
            axis = starts.get(first)
            if axis is None or wanted[k : k + len(operand.along[axis])] != operand.along[axis]:
                return None
            found.append(axis)
            k += len(operand.along[axis])
        if self.named.intersection(single):
            return None
        return (*(axis for axis in left if axis in single), *found)


def _along(shape: Shape, at: Places, missing: Arrangement) -> tuple[Arrangement, ...]:
    """Return an operand's axes along each shared axis, `missing` along those that it does not have."""
    return tuple([tuple([None if shape[a] == 1 else a for a in p]) if p else missing for p in at])


def _is_one(piece: Arrangement) -> bool:
    return all([axis is None for axis in piece])


def _key(type: TensorType | None) -> Hashable:
    """Return what tells types apart; members of enumerations take long to hash."""
    return None if type is None else (id(type.dtype), type.shape, type.quantization)


def _simple(type: TensorType) -> bool:
    """Tell whether a tensor has no scales along an axis, and elements."""
    return (type.quantization is None or type.quantization.per_tensor) and 0 not in type.shape
