"""Loops whose bodies are too much for one workgroup: the dispatches of all rounds, recorded ahead.

Two rounds are lowered: one reads the state from the first of two places and writes it to the second, the
other does the opposite. They take turns, so a loop of many rounds needs no more kernels and bindings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpunn.backends.webgpu.loop_memory import overwriting
from gpunn.backends.webgpu.shader import source, target
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Read, Scratch, Unsupported
from gpunn.ops.kernels.copies import strided_copy
from gpunn.types import Array, DType

MAX_DISPATCHES = 1 << 14  # of a loop: their recording takes 2 us each in every run
MAX_WORK = 1 << 22  # workgroups times loop iterations of all rounds: about 2 s; nothing stops a submission

# Where the value of an operand is: on the device, among the inputs of the loop by number, or known.
_Place = Scratch | int | Array


def dispatches(
    loop: Operation, lowered: Mapping[Operation, Sequence[Kernel]], rounds: int
) -> tuple[Kernel, ...]:
    """Return the dispatches of a loop without condition, from the kernels of the operations of its body.

    Raises Unsupported if they are more than one submission should do.
    """
    body: Graph = loop.attrs["body"]
    each = [k for o in body.operations if o in lowered for k in lowered[o]]
    if rounds * len(each) > MAX_DISPATCHES:
        raise Unsupported(f"its rounds are {rounds * len(each)} dispatches")
    if rounds * sum(math.prod(k.groups) * (1 + k.loop_iterations) for k in each) > MAX_WORK:
        raise Unsupported("its rounds are more than one submission should do")
    return _Rounds(loop, body, lowered).kernels(rounds)


@dataclass(slots=True)
class _Rounds:
    """Makes the kernels of rounds from those of the operations of a body."""

    loop: Operation
    body: Graph
    lowered: Mapping[Operation, Sequence[Kernel]]
    _aliases: dict[Operand, Operand] = field(default_factory=dict)
    _overwriting: Mapping[Operation, Operand] = field(default_factory=dict)
    _temporary: dict[Operand, Scratch] = field(default_factory=dict)
    _packed: dict[tuple[int, str, int], Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for operation in self.body.operations:
            if operation.definition.alias and operation.inputs[0] is not None:
                self._aliases[operation.outputs[0]] = self._root(operation.inputs[0])
        self._overwriting = overwriting(self.body)

    def kernels(self, rounds: int) -> tuple[Kernel, ...]:
        """Return the dispatches of that many rounds."""
        pairs = list(zip(self.body.inputs, self.body.outputs, strict=True))
        begin: list[_Place] = [_start(k, operand) for k, operand in enumerate(self.loop.inputs)]
        in_place = set(self._overwriting.values())
        changed = [k for k, (operand, result) in enumerate(pairs) if operand is not result]
        first, second = begin.copy(), begin.copy()
        for k in changed:
            operand = pairs[k][0]
            first[k] = Scratch(operand.type)
            second[k] = first[k] if operand in in_place else Scratch(operand.type)
        starts = [self._copy(begin[k], first[k]) for k in changed]
        there, back = tuple(self._round(first, second)), tuple(self._round(second, first))
        middle = (*(there + back) * (rounds // 2), *(there if rounds % 2 else ()))
        last = second if rounds % 2 else first
        ends = [self._copy(place, k) for k, place in enumerate(last)]
        return tuple(k for k in (*starts, *middle, *ends) if 0 not in k.groups)

    def _round(self, before: Sequence[_Place], after: Sequence[_Place]) -> Iterator[Kernel]:
        """Yield the kernels of a round that reads one state and writes another."""
        places: dict[Operand, _Place] = dict(zip(self.body.inputs, before, strict=True))
        for operation in self.body.operations:
            if operation in self._overwriting:
                places[operation.outputs[0]] = places[self._overwriting[operation]]
        left = []
        for k, output in enumerate(self.body.outputs):
            root = self._root(output)
            if root.value is None and root not in places:
                places[root] = after[k]
            elif output is not self.body.inputs[k] and places.get(root) is not after[k]:
                left.append(k)
        for operation in self.body.operations:
            if not operation.definition.alias:
                for kernel in self.lowered[operation][operation in self._overwriting :]:
                    yield self._placed(operation, kernel, places)
        for k in left:
            yield self._copy(self._place(self._root(self.body.outputs[k]), places), after[k])

    def _placed(self, operation: Operation, kernel: Kernel, places: Mapping[Operand, _Place]) -> Kernel:
        """Return a kernel of an operation with the places of its operands."""
        reads = tuple(self._read(operation, read, places) for read in kernel.reads)
        writes = []
        for write in kernel.writes:
            result = target(write, operation)
            place = result if isinstance(result, Scratch) else self._place(result, places)
            assert isinstance(place, Scratch)
            writes.append(replace(write, output=place))
        return replace(kernel, reads=reads, writes=tuple(writes))

    def _read(self, operation: Operation, read: Read, places: Mapping[Operand, _Place]) -> Read:
        operand = source(read, operation)
        if operand is None or isinstance(operand, Scratch):
            return read
        root = self._root(operand)
        if root.value is None:
            return _reading(read, self._place(root, places))
        number = read.operand
        assert isinstance(number, int)
        key = id(operation), read.name, number
        if key not in self._packed:
            others = (operation.inputs[k] if k < len(operation.inputs) else None for k in read.also)
            values = [root.value, *(None if o is None else o.value for o in others)]
            found = values[0] if read.pack is None else read.pack(*values)
            assert found is not None
            if read.pack is None and DType.of(found.dtype) is not root.type.dtype:
                raise Unsupported(f"{operation.op}: a constant of {root.type}")
            self._packed[key] = found
        return _reading(replace(read, pack=None, also=(), dtype=None, nbytes=0), self._packed[key])

    def _place(self, root: Operand, places: Mapping[Operand, _Place]) -> _Place:
        if root.value is not None:
            return root.value
        if root in places:
            return places[root]
        return self._temporary.setdefault(root, Scratch(root.type))

    def _root(self, operand: Operand) -> Operand:
        return self._aliases.get(operand, operand)

    def _copy(self, place: _Place, to: _Place) -> Kernel:
        """Return the kernel that copies to a place, or to an output of the loop by number."""
        if isinstance(to, int):
            type = self.loop.outputs[to].type
        else:
            assert isinstance(to, Scratch)
            type = to.type
        copy = strided_copy(Read("x", 0), (type.size,), (1,), (1,), reason="state of a loop")
        assert isinstance(to, Scratch | int)
        reads, (write,) = tuple(_reading(read, place) for read in copy.reads), copy.writes
        return replace(copy, reads=reads, writes=(replace(write, output=to),))


def _start(number: int, operand: Operand | None) -> _Place:
    assert operand is not None
    return number if operand.value is None else operand.value


def _reading(read: Read, place: _Place) -> Read:
    """Return a read of what is at a place."""
    if isinstance(place, Scratch | int):
        return replace(read, operand=place)
    return replace(read, operand=None, value=place)
