"""Layout: operations work on axes in the order in which their neighbours have them, so transposes vanish.

A graph says how each operation reads its inputs: in which order of axes, after the transposes between. An
operation that computes the same on axes in another order (gpunn.ops.axes) may have any order. Beginning with
each place where elements must be moved, its neighbours are taken over into the order on one side of it, and
their neighbours, as far as possible; those that do not pay are given up again. The change stays if fewer
bytes are moved than before, or as many with fewer operations.

Results stay the same to the bit, except that sums of reals may be added up in another order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.passes.arrangement import Arrangement, Conversions, View, arranged, moves, own, view_of
from gpunn.passes.orders import Known, Order, Ordered

Cost = tuple[int, int]  # bytes that are moved; operations that move them or change shapes
NOTHING: Cost = (0, 0)

MAX_SWEEPS = 4
MAX_STEPS = 8  # for each operation, in all: regions that are tried may overlap


def arrange(model: Graph) -> Graph:
    """Return a graph that moves no more bytes, mostly fewer, by transposes; see the top of the module."""
    if model.pending or not any(map(_transposes, model.operations)):
        return model
    layout = _Layout.of(model)
    if not layout.moving:
        return model
    layout.improve()
    return _rewritten(model, layout)


def _transposes(operation: Operation) -> bool:
    """Tell whether an operation brings axes into another order."""
    definition = operation.definition
    return definition.algebra.permutes and not definition.alias


@dataclass(slots=True)
class _Tensor:
    """A tensor that is no constant, how it is stored, and how often it is wanted in which arrangement."""

    bytes: int
    stored: Arrangement
    wanted: dict[Arrangement, int] = field(default_factory=dict)

    def want(self, arrangement: Arrangement, times: int) -> None:
        count = self.wanted.get(arrangement, 0) + times
        if count:
            self.wanted[arrangement] = count
        else:
            del self.wanted[arrangement]

    def cost(self) -> Cost:
        """Return what its conversions cost."""
        others = [a for a in self.wanted if a != self.stored]
        if not others:
            return NOTHING
        if len(others) == 1:
            return self.bytes * (moves(others[0]) != moves(self.stored)), 1
        orders = {moves(a) for a in others} - {moves(self.stored)}
        return self.bytes * len(orders), len(others)


Reader = tuple[Ordered, int]


@dataclass(slots=True)
class _Layout:
    """A graph as operations that read views.

    `views` are the tensors that only move axes of their source; `members` are all operations but those that
    compute them. `moving`: some of the views are transposes.
    """

    members: list[Ordered]
    views: Mapping[Operand, View]
    tensors: dict[Operand, _Tensor]
    writers: dict[Operand, Reader]
    readers: dict[Operand, list[Reader]]
    moving: bool
    left: int = 0

    @classmethod
    def of(cls, model: Graph) -> _Layout:
        layout = cls([], {}, {}, {}, {}, False)
        views: dict[Operand, View] = {}
        known: Known = {}

        def seen(operand: Operand) -> View:
            return views.get(operand) or View(operand, own(operand.type.shape))

        for operation in model.operations:
            first = operation.inputs[0]
            view = None if first is None else view_of(operation, seen(first))
            if view is not None:
                views[operation.outputs[0]] = view
                layout.moving |= _transposes(operation)
                continue
            inputs = tuple([None if i is None else seen(i) for i in operation.inputs])
            member = Ordered(operation, inputs, known)
            layout._add(member)
        layout.views = views
        for operand in model.results:
            view = seen(operand)
            layout._tensor(view.source).want(view.axes, 1)
        layout.left = MAX_STEPS * len(layout.members)
        return layout

    def _add(self, member: Ordered) -> None:
        self.members.append(member)
        for k, view in enumerate(member.inputs):
            if view is not None and view.source.value is None:
                self._tensor(view.source).want(view.axes, 1)
                self.readers.setdefault(view.source, []).append((member, k))
        for k, result in enumerate(member.operation.outputs):
            self.writers[result] = member, k

    def _tensor(self, operand: Operand) -> _Tensor:
        if operand not in self.tensors:
            self.tensors[operand] = _Tensor(operand.type.nbytes, own(operand.type.shape))
        return self.tensors[operand]

    def improve(self) -> None:
        """Choose orders that cost less, until no region is found any more."""
        for _ in range(MAX_SWEEPS):
            changed = False
            # What did not pay in another sweep may do so now: others have changed.
            tried = set[tuple[Ordered, Order]]()
            for member, order in self._seeds():
                if (member, order) not in tried and self.left > 0:
                    region = self._grown(member, order)
                    tried.update(region.items())
                    changed |= self._apply(region)
            if not changed:
                return

    def _seeds(self) -> Iterator[tuple[Ordered, Order]]:
        """Yield each operation with an order in which it reads, or writes, a tensor without conversion."""
        for member in self.members:
            for k, view in enumerate(member.inputs):
                if view is None or self._fits(member, k, view):
                    continue
                order = member.order_to_read(k, self.tensors[view.source].stored)
                if order is not None:
                    yield member, order
                writer, result = self.writers.get(view.source, (None, 0))
                if writer is not None and not self._fits(member, k, view):
                    order = writer.order_to_write(result, member.form(member.order)[0][k])
                    if order is not None:
                        yield writer, order

    def _fits(self, member: Ordered, index: int, view: View) -> bool:
        """Tell whether an input needs no conversion."""
        if view.source.value is not None:
            return True
        return member.form(member.order)[0][index] == self.tensors[view.source].stored

    def _grown(self, member: Ordered, order: Order) -> dict[Ordered, Order]:
        """Return operations with orders that fit one another, as far as the order of one of them reaches."""
        region = {member: order}
        queue = deque([member])
        while queue:
            self.left -= 1
            member = queue.popleft()
            for other, found in self._neighbours(member, region):
                if found is not None and found != other.order:
                    region[other] = found
                    queue.append(other)
        return region

    def _neighbours(
        self, member: Ordered, region: Mapping[Ordered, Order]
    ) -> Iterator[tuple[Ordered, Order]]:
        """Yield operations outside a region that share a tensor with a member, with the orders that fit."""
        reads, writes = member.form(region[member])
        for view, wanted in zip(member.inputs, reads, strict=True):
            writer, result = (None, 0) if view is None else self.writers.get(view.source, (None, 0))
            if view is None or writer is None or writer in region:
                continue
            if wanted != self.tensors[view.source].stored:
                yield writer, writer.order_to_write(result, wanted)
        for operand, stored in zip(member.operation.outputs, writes, strict=True):
            for reader, index in self.readers.get(operand, ()):
                if reader not in region and reader.form(reader.order)[0][index] != stored:
                    yield reader, reader.order_to_read(index, stored)

    def _apply(self, region: Mapping[Ordered, Order]) -> bool:
        """Give operations other orders, except those that do not pay; tell whether anything was gained."""
        before = {member: member.order for member in region}
        gain = _sum(self._turn(member, order) for member, order in region.items())
        queue = deque(region)
        waiting = set(region)
        while queue:
            member = queue.popleft()
            waiting.discard(member)
            order = member.order
            if order == before[member] or self._settled(member):
                continue
            change = self._turn(member, before[member])
            if change > NOTHING:
                self._turn(member, order)
                continue
            gain = _sum((gain, change))
            beside = [other for other in self._beside(member) if other in before and other not in waiting]
            queue.extend(dict.fromkeys(beside))
            waiting.update(beside)
        if gain < NOTHING:
            return True
        for member, order in before.items():
            self._turn(member, order)
        return False

    def _settled(self, member: Ordered) -> bool:
        """Tell whether nothing that an operation reads or writes is converted."""
        operands = [view.source for view in member.inputs if view is not None]
        tensors = map(self.tensors.get, (*operands, *member.operation.outputs))
        return all(tensor is None or tensor.cost() == NOTHING for tensor in tensors)

    def _turn(self, member: Ordered, order: Order) -> Cost:
        """Give an operation an order, and return by how much the cost changes."""
        if member.order == order:
            return NOTHING
        before, after = member.form(member.order), member.form(order)
        member.order = order
        changes: list[Cost] = []
        for view, old, new in zip(member.inputs, before[0], after[0], strict=True):
            if view is not None and view.source.value is None and old != new:
                tensor = self.tensors[view.source]
                cost = tensor.cost()
                tensor.want(old, -1)
                tensor.want(new, 1)
                changes.append(_rise(cost, tensor.cost()))
        for operand, new in zip(member.operation.outputs, after[1], strict=True):
            if operand in self.tensors:
                tensor = self.tensors[operand]
                cost = tensor.cost()
                tensor.stored = new
                changes.append(_rise(cost, tensor.cost()))
        return _sum(changes)

    def _beside(self, member: Ordered) -> Iterator[Ordered]:
        """Yield the operations that write what an operation reads, or read what it writes."""
        for view in member.inputs:
            if view is not None and view.source in self.writers:
                yield self.writers[view.source][0]
        for operand in member.operation.outputs:
            yield from (reader for reader, _ in self.readers.get(operand, ()))


def _rise(before: Cost, after: Cost) -> Cost:
    return after[0] - before[0], after[1] - before[1]


def _sum(costs: Iterable[Cost]) -> Cost:
    bytes, count = 0, 0
    for more, others in costs:
        bytes, count = bytes + more, count + others
    return bytes, count


def _rewritten(model: Graph, layout: _Layout) -> Graph:
    """Return the graph in which each operation has its order, with the conversions that are left."""
    operations: list[Operation] = []
    conversions = Conversions({}, operations.append)
    members = iter(layout.members)
    wanted = model.results
    for operation in model.operations:
        view = layout.views.get(operation.outputs[0])
        if view is not None:
            if operation.outputs[0] in wanted:
                conversions.write(view.source, view.axes, operation.outputs[0], operation.origin)
            continue
        member = next(members)
        turned = _turned(member, conversions)
        operations.append(turned)
        changed = zip(operation.outputs, turned.outputs, member.form(member.order)[1], strict=True)
        for result, found, stored in changed:
            if found is not result:
                conversions.place[result] = found, stored
                if result in wanted:
                    conversions.write(result, own(result.type.shape), result, operation.origin)
    return model.with_operations(operations)


def _turned(member: Ordered, conversions: Conversions) -> Operation:
    """Return the operation of a member on operands in the arrangements that its order needs."""
    operation, order, shared = member.operation, member.order, member.shared
    reads, writes = member.form(order)
    pairs = zip(member.inputs, reads, strict=True)
    inputs = tuple([_converted(conversions, view, wanted, operation.origin) for view, wanted in pairs])
    if order is None or shared is None:
        return operation if inputs == operation.inputs else replace(operation, inputs=inputs)
    results = zip(operation.outputs, writes, strict=True)
    outputs = tuple([_given(o, given) for o, given in results])
    attrs = member.attributes(outputs[0].type.shape)
    return Operation(operation.op, inputs, outputs, attrs, operation.origin, operation.custom)


def _converted(
    conversions: Conversions, view: View | None, wanted: Arrangement, origin: str
) -> Operand | None:
    return None if view is None else conversions.get(view.source, wanted, origin)


def _given(operand: Operand, arrangement: Arrangement) -> Operand:
    """Return a result as it is written in an arrangement."""
    return Operand(operand.name, arranged(operand.type, arrangement), operand.lifetime, hybrid=operand.hybrid)
