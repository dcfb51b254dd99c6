"""Elementwise operations that are computed where an operation before them stores its result.

A convolution with a residual sum behind it is one dispatch then: the convolution's stores add the other
operand. So is a chain of elementwise operations, and a part of a graph that comes together again, for example
x * logistic(x).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from gpunn.device import DeviceProperties
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement
from gpunn.planning.places import bound_once, ends_in_rows, row_params, source_of, whole
from gpunn.planning.steps import (
    Chain,
    Step,
    is_elementwise,
    outside,
    params_of,
    read_of,
    statement,
)
from gpunn.pointwise import Reach
from gpunn.types import DType

MOST = 12  # operations behind one

_APART = (DType.INT64, DType.COMPLEX64)  # WGSL has no vectors of these


@dataclass(slots=True)
class _Chain:
    """The steps that may be appended to an operation, and the numbers of their values.

    `inside`: operations that read the values and run no more. `closed`: how many of the steps can be
    appended, as nothing outside reads a value but the last one.
    """

    values: dict[Operand, int]
    steps: list[Step] = field(default_factory=list)
    inside: set[Operation] = field(default_factory=set)
    closed: int = 0


@dataclass(slots=True)
class _Appending:
    """The state of append(): the placements, where each operand's bytes are written, and who reads it.

    `shared`: results that several operations write. `chains`: what has been appended to operations.
    """

    placements: list[Placement]
    joined: dict[Operand, Operand]
    results: set[Operand]
    device: DeviceProperties
    shared: set[Operand] = field(default_factory=set)
    runs: list[int] = field(default_factory=list)
    written: dict[Operand, int] = field(default_factory=dict)
    readers: dict[Operand, list[int]] = field(default_factory=dict)
    chains: dict[Operation, Chain] = field(default_factory=dict)
    producers: dict[Operand, Placement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        run = 0
        for number, placement in enumerate(self.placements):
            run += placement.backend == HOST
            self.runs.append(run)
            operation = placement.operation
            self.producers.update(dict.fromkeys(operation.outputs, placement))
            if placement.within is None:  # what gpunn.planning.fusion leaves out is not written
                self.shared.update(self.joined[o] for o in operation.outputs if o in self.joined)
            for operand in dict.fromkeys(o for o in operation.inputs if o is not None):
                self.readers.setdefault(operand, []).append(number)
            elsewhere = placement.backend == ALIAS or placement.within is not None
            source = operation.inputs[0] if elsewhere else None
            place = number if source is None else self.written.get(source, -1)
            self.written.update(dict.fromkeys(operation.outputs, place))

    def step(self) -> None:
        """Append to one operation after the other what can be appended."""
        for number, placement in enumerate(self.placements):
            if placement.backend == DEVICE and self._extends(placement):
                found = self._grown(number)
                if found.closed:
                    self._append(number, found)

    def _extends(self, placement: Placement) -> bool:
        """Tell whether the kernels of an operation can take others into their stores."""
        operation = placement.operation
        kernels = [k for k in placement.kernels if any(w.output == 0 for w in k.writes)]
        bodies = any(isinstance(value, Graph) for value in operation.attrs.values())
        if not kernels or bodies or operation.outputs[0] in self.shared:
            return False
        return not self._stays_apart(operation, operation.outputs) and all(map(_takes, kernels))

    def _stays_apart(self, operation: Operation, operands: Sequence[Operand | None]) -> bool:
        """Tell whether an operation with such operands or results is never computed with others.

        float16 is rounded between two operations: that is integer arithmetic, which takes compilers of
        software seconds where a shader stores in many places.
        """
        dtypes = {o.type.dtype for o in operands if o is not None}
        return not dtypes.isdisjoint(_APART) or (DType.FLOAT16 in dtypes and self.device.software)

    def _grown(self, home: int) -> _Chain:
        """Collect the operations behind one, in their order, up to the first that cannot be appended."""
        found = _Chain({self.placements[home].operation.outputs[0]: 0})
        waiting = set(self._readers(home, next(iter(found.values))))
        while waiting and len(found.steps) < MOST:
            number = min(waiting)
            waiting.remove(number)
            placement = self.placements[number]
            result = self._entered(home, number, found) if self.runs[number] == self.runs[home] else None
            if result is None:
                break
            found.inside.add(placement.operation)
            waiting.update(self._readers(home, result))
            if self._is_closed(found):
                found.closed = len(found.steps)
        return found

    def _readers(self, home: int, operand: Operand) -> Iterator[int]:
        return (n for n in self.readers.get(operand, ()) if n > home)

    def _entered(self, home: int, number: int, found: _Chain) -> Operand | None:
        """Give the result of an operation a number in a chain; None if it cannot be appended.

        With what is computed beside it, if it can.
        """
        placement, operation = self.placements[number], self.placements[number].operation
        if placement.backend == ALIAS:
            source, result = operation.inputs[0], operation.outputs[0]
            if source is None or source.type.dtype is not result.type.dtype:
                return None
            found.values[result] = found.values[source]
            return result
        beside = tuple(self._beside(home, number, found))
        steps = self._longer(home, number, found, beside)
        if steps is None and beside:
            steps = self._longer(home, number, found, ())
        if steps is None:
            return None
        found.values.update((s.operation.outputs[0], n) for n, s in enumerate(steps, start=1))
        found.steps[:] = steps
        return operation.outputs[0]

    def _longer(
        self, home: int, number: int, found: _Chain, beside: tuple[Step, ...]
    ) -> tuple[Step, ...] | None:
        """Return the steps of a chain, those beside it and one more; None if this cannot be appended."""
        before = (*found.steps, *beside)
        values = {**found.values, **{s.operation.outputs[0]: n for n, s in enumerate(before, start=1)}}
        step = self._step(home, number, values)
        if step is None or step.cancels(before):
            return None
        added, steps = (*beside, step), (*before, step)
        if len(steps) > MOST or self._bindings(home, steps) > self.device.most_bindings:
            return None
        if self._binds_twice(home, steps):
            return None
        kernels = self.placements[home].kernels
        if any(s.libraries for s in added) and any(PurePath(k.body).suffix for k in kernels):
            return None  # a body of a custom op may have functions of the same names
        loops = any(k.loop_iterations for k in kernels)
        once = all(k.writes[0].in_loop for k in kernels if _stores(k))
        slow = any(s.is_fixed_point and (s.needs_more or not once) for s in added)
        if self.device.software and loops and slow:
            return None  # compilers of software take up to 0.7 s more, and a run takes as long as before
        return steps

    def _beside(self, home: int, number: int, found: _Chain) -> Iterator[Step]:
        """Yield the steps of operations behind the home of a chain that only one of the chain reads, and that
        read none of its values.
        """
        for operand in dict.fromkeys(self.placements[number].operation.inputs):
            if operand is None or operand in found.values or self.readers[operand] != [number]:
                continue
            place = self.written.get(operand, -1)
            if place > home and operand not in self.results and self.runs[place] == self.runs[home]:
                placement = self.placements[place]
                own = placement.backend == DEVICE and operand in placement.operation.outputs
                step = self._step(home, place, {}) if own else None
                if step is not None:
                    yield step

    def _step(self, home: int, place: int, values: Mapping[Operand, int]) -> Step | None:
        """Return the step of an elementwise operation whose other operands are there in time."""
        operation, kernels = self.placements[place].operation, self.placements[place].kernels
        if len(kernels) != 1 or len(operation.outputs) != 1 or operation.guarded:
            return None
        (kernel,) = kernels
        operands = (*operation.inputs, *operation.outputs)
        if not is_elementwise(kernel) or self._stays_apart(operation, operands):
            return None
        assert kernel.pointwise is not None
        size, found = operation.outputs[0].type.size, dict[str, int | None]()
        rows, stores = kernel.writes[0].rows, filter(_stores, self.placements[home].kernels)
        if rows is not None and not all(ends_in_rows(k, rows, size) for k in stores):
            return None
        for read in kernel.reads:
            if read.name not in kernel.pointwise.operands:
                continue
            assert isinstance(read.operand, int)
            operand = operation.inputs[read.operand]
            assert operand is not None
            number = values.get(operand)
            reach = Reach.of(kernel.pointwise.operands[read.name], size)
            unread = operand.value is None and self.written.get(operand, -1) >= home
            if unread if number is None else not (reach is Reach.DENSE or size == 1):
                return None
            found[read.name] = number
        return Step(place, operation, kernel, found)

    def _binds_twice(self, home: int, steps: Sequence[Step]) -> bool:
        """Tell whether a kernel would bind the tensor twice in whose rows it stores the last result."""
        owner = self.joined.get(steps[-1].operation.outputs[0])
        if owner is None:
            return False
        operation, kernels = self.placements[home].operation, self.placements[home].kernels

        def owner_of(operand: Operand) -> Operand:
            return owner if operand is operation.outputs[0] else self._owner(operand)

        made = (_appended(k, steps) for k in kernels if _stores(k))
        return not all(bound_once(operation, kernel, owner_of) for kernel in made)

    def _owner(self, operand: Operand) -> Operand:
        """Return the operand that has the bytes of one."""
        source = source_of(operand, self.producers)
        return self.joined.get(source, source)

    def _bindings(self, home: int, steps: Sequence[Step]) -> int:
        """Count the buffers of the kernel that stores the result, with those that steps read."""
        kernels = (k for k in self.placements[home].kernels if _stores(k))
        return max(k.bindings for k in kernels) + sum(len(list(outside(step))) for step in steps)

    def _is_closed(self, found: _Chain) -> bool:
        """Tell whether nothing outside of a chain reads a value but the last one."""
        last = len(found.steps)
        inner = [operand for operand, number in found.values.items() if number < last]
        readers = (self.placements[n].operation for operand in inner for n in self.readers.get(operand, ()))
        return last > 0 and self.results.isdisjoint(inner) and all(o in found.inside for o in readers)

    def _append(self, home: int, found: _Chain) -> None:
        """Let the kernels of an operation compute the closed steps of a chain."""
        steps, placement = found.steps[: found.closed], self.placements[home]
        result = steps[-1].operation.outputs[0]
        kernels = tuple(_appended(k, steps) if _stores(k) else k for k in placement.kernels)
        self.chains[placement.operation] = Chain(placement.kernels, tuple(steps))
        self.placements[home] = replace(placement, kernels=kernels)
        for step in steps:
            other = self.placements[step.place]
            reason = f"computed where {placement.operation.op} stores its result"
            self.placements[step.place] = replace(
                other, reason=reason, kernels=(), within=placement.operation
            )
        owner = self.joined.get(result, result)
        inner = (operand for operand, number in found.values.items() if number < found.closed)
        self.joined.update(dict.fromkeys(inner, owner))
        aliases = (operand for operand, number in found.values.items() if number == found.closed)
        self.written.update(dict.fromkeys(aliases, home))


def append(
    model: Graph,
    placements: Sequence[Placement],
    joined: Mapping[Operand, Operand],
    device: DeviceProperties,
) -> tuple[tuple[Placement, ...], dict[Operand, Operand], dict[Operation, Chain]]:
    """Let operations of a device compute the elementwise operations that alone read their results.

    `joined`: see gpunn.planning.pieces, which comes before. device: what the kernels are for.
    Returns the placements with their new kernels, for each operand that has no bytes of its own any more the
    operand that has them, and for each operation what has been appended to it.
    """
    state = _Appending([*placements], dict(joined), model.results, device)
    state.step()
    return tuple(state.placements), state.joined, state.chains


def _takes(kernel: Kernel) -> bool:
    first, *others = kernel.writes
    alone = first.output == 0 and all(w.output != 0 for w in others)
    return alone and whole(first) and not first.direct and first.rows is None


def _stores(kernel: Kernel) -> bool:
    return kernel.writes[0].output == 0


def _appended(kernel: Kernel, steps: Sequence[Step]) -> Kernel:
    """Return a kernel that computes the steps before it stores a value."""
    write, *others = kernel.writes
    reads, params, libraries = [*kernel.reads], dict(kernel.params), [*kernel.libraries]
    for number, step in enumerate(steps, start=1):
        prefix = f"then{number}_"
        reads += (read_of(read, step, prefix, write.width) for read in outside(step))
        params.update(params_of(step, prefix))
        libraries += (name for name in step.libraries if name not in libraries)
    (last,) = steps[-1].kernel.writes
    made = tuple(statement(step, f"then{n}_") for n, step in enumerate(steps, start=1))
    write = replace(write, appended=made)
    if last.rows is not None:
        write = replace(write, rows=last.rows)
        params.update(row_params(write.name, last.rows))
    names = ", ".join(step.operation.op for step in steps)
    return replace(
        kernel,
        reads=tuple(reads),
        writes=(write, *others),
        params=params,
        libraries=tuple(libraries),
        pointwise=None,
        reason=f"{kernel.reason}; its stores compute {names}",
    )
