"""Results that are written at once where an op would copy them: parts of a concatenation, transpositions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Param, Read, Write
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement, read_by, written_by
from gpunn.rows import Pitch, Rows, Walk

_EXACT = 2**24  # numbers of rows are computed in float32 (shaders/lib/in_rows.wgsl)
_WORD = 4  # bytes
_MOST_LEVELS = 3  # of rows within rows: each takes a store ten instructions

Kernels = tuple[Kernel, ...]


@dataclass(slots=True)
class _Joins:
    """The state of join(): the new kernels of operations, and the places of results in their owners.

    `results`: operands that leave the model. `software`: whether the CPU does the device's work. `producers`,
    `readers`: of each operand; who reads it more than once stands there more than once.
    """

    placements: Sequence[Placement]
    results: set[Operand]
    software: bool
    kernels: dict[Operation, Kernels] = field(default_factory=dict)
    places: dict[Operand, tuple[Operand, Rows | Walk]] = field(default_factory=dict)
    producers: dict[Operand, Placement] = field(default_factory=dict)
    readers: dict[Operand, list[Placement]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for placement in self.placements:
            self.kernels[placement.operation] = placement.kernels
            self.producers.update(dict.fromkeys(placement.operation.outputs, placement))
            for operand in placement.operation.inputs:
                if operand is not None:
                    self.readers.setdefault(operand, []).append(placement)

    def join(self, operation: Operation, near: set[Operation]) -> None:
        """Let those who compute the operands of an operation write where it would copy them.

        near: the operations between which the host does nothing.
        """
        places = operation.definition.places
        assert places is not None
        (result,) = operation.outputs
        owner, outer = self.places.get(result, (result, None))
        for index, (operand, rows) in enumerate(zip(operation.inputs, places(operation.call()), strict=True)):
            assert operand is not None
            assert not isinstance(outer, Walk)  # results of operations with places are copied there: _moved()
            place = rows if rows is None or outer is None else rows.within(outer, result.type.size)
            copies = [k for k in self.kernels[operation] if any(r.operand == index for r in k.reads)]
            if place is not None and all(whole(w) for k in copies for w in k.writes):
                source = source_of(operand, self.producers)
                producer = self.producers.get(source)
                if producer is not None and producer.operation in near and producer.backend == DEVICE:
                    changed = self._moved(producer.operation, operation, source, (owner, place))
                    if changed is not None:
                        self.kernels.update(changed)
                        kept = tuple(k for k in self.kernels[operation] if k not in copies)
                        self.kernels[operation] = kept
                        self.places[source] = (owner, place)

    def _moved(
        self, producer: Operation, copier: Operation, source: Operand, place: tuple[Operand, Rows | Walk]
    ) -> dict[Operation, Kernels] | None:
        """Return the new kernels of those who write and read a result that an operation copies to a place.

        None if one of them cannot do so there.
        """
        owner, rows = place
        views = [*_views(source, self.readers)]
        everyone = Counter(p.operation for v in views for p in self.readers.get(v, ()) if p.backend != ALIAS)
        if source in self.places or everyone[copier] != 1 or not self.results.isdisjoint(views):
            return None
        written = written_in_rows(self.kernels[producer], producer.outputs.index(source), rows, source, owner)
        others = [operation for operation in everyone if operation is not copier]
        joins = producer.definition.places is not None
        if isinstance(rows, Walk) and (self.software or others or joins):
            return None  # others find their elements in rows alone
        if written is None or any(v.type.dtype is not source.type.dtype for v in views if others):
            return None
        if any(self._binds_twice(operation, owner, views) for operation in (producer, *others)):
            return None
        changed = {producer: written}
        for operation in others:
            assert isinstance(rows, Rows)
            kernels = self._reading(operation, views, rows)
            if kernels is None:
                return None
            changed[operation] = kernels
        return changed

    def _binds_twice(self, operation: Operation, owner: Operand, views: Sequence[Operand]) -> bool:
        """Tell whether a kernel would read an owner and write it, if `views` were in it, too."""

        def inside(operand: Operand) -> bool:
            source = source_of(operand, self.producers)
            return operand in views or self.places.get(source, (source,))[0] is owner

        return any(
            any(map(inside, read_by(operation, kernel))) and any(map(inside, written_by(operation, kernel)))
            for kernel in self.kernels[operation]
        )

    def _reading(self, operation: Operation, views: Sequence[Operand], rows: Rows) -> Kernels | None:
        """Return kernels that read an operand in rows of another tensor; None if they cannot."""
        copies = operation.definition.places is not None
        numbers = {k for k, operand in enumerate(operation.inputs) if operand in views}
        made = []
        if not numbers.issubset(r.operand for k in self.kernels[operation] for r in k.reads):
            return None  # it reads the operand in a way of its own
        for kernel in self.kernels[operation]:
            for read in kernel.reads:
                if read.operand in numbers:
                    found = _read_in_rows(kernel, read, rows, views[0], copies)
                    if found is None:
                        return None
                    kernel = found
            made.append(kernel)
        return tuple(made)


def join(
    model: Graph, placements: Sequence[Placement], software: bool
) -> tuple[tuple[Placement, ...], dict[Operand, Operand]]:
    """Let operations of a device write into the result of the operation that would only copy theirs.

    software: whether the CPU does the device's work; then transpositions stay (docs/tuning.md).
    Returns the placements with their new kernels, and for each operand that has no bytes of its own any more
    the operand that has them. docs/architecture.md has the conditions.
    """
    found = _Joins(placements, model.results, software)
    for on_host, group in itertools.groupby(placements, lambda p: p.backend == HOST):
        if not on_host:
            run = list(group)
            near = {p.operation for p in run}
            for placement in reversed(run):
                if placement.backend == DEVICE and placement.operation.definition.places is not None:
                    found.join(placement.operation, near)
    joined = tuple(replace(p, kernels=found.kernels[p.operation]) for p in placements)
    return joined, {operand: owner for operand, (owner, _) in found.places.items()}


def source_of(operand: Operand, producers: Mapping[Operand, Placement]) -> Operand:
    """Return what an operand is another shape of; itself if no alias gives it."""
    while operand in producers and producers[operand].backend == ALIAS:
        source = producers[operand].operation.inputs[0]
        assert source is not None
        operand = source
    return operand


def _views(operand: Operand, readers: Mapping[Operand, Sequence[Placement]]) -> Iterator[Operand]:
    """Yield an operand, and all that are other shapes of it."""
    yield operand
    for placement in readers.get(operand, ()):
        if placement.backend == ALIAS:
            yield from _views(placement.operation.outputs[0], readers)


def whole(bound: Read | Write) -> bool:
    """Tell whether a kernel has an operand in one binding from its first byte on."""
    return bound.window is None and bound.segments is None


def ends_in_rows(kernel: Kernel, rows: Rows | Walk, size: int) -> bool:
    """Tell whether what a kernel stores of a result of so many elements ends with it, in rows of a tensor.

    Elements behind it would be those of another result, or none: then WGSL lets the driver take any element.
    """
    return rows.unit == 4 or size % 4 == 0 or not kernel.pads


def written_in_rows(
    kernels: Sequence[Kernel], output: int, rows: Rows | Walk, operand: Operand, owner: Operand
) -> Kernels | None:
    """Return kernels that write a result into rows of another tensor; None if their stores do not fit it."""
    type, unit = operand.type, rows.unit
    words = type.dtype.numpy.itemsize >= _WORD
    if len(rows.levels()) > _MOST_LEVELS or type.dtype is not owner.type.dtype:
        return None
    if type.size // unit >= _EXACT or not (words or unit == 4):
        return None  # elements that share a word with those of other operations would need atomic stores
    made = []
    for kernel in kernels:
        writes, params = [*kernel.writes], dict(kernel.params)
        for k, write in enumerate(writes):
            if write.output != output:
                continue
            if not whole(write) or write.direct or not ends_in_rows(kernel, rows, type.size):
                return None
            writes[k] = replace(write, rows=rows)
            params = _with(params, row_params(write.name, rows))
        made.append(replace(kernel, writes=tuple(writes), params=params))
    return tuple(made)


def _read_in_rows(kernel: Kernel, read: Read, rows: Rows, operand: Operand, copies: bool) -> Kernel | None:
    """Return a kernel that reads an operand in rows of another tensor; None if that would take it long.

    Parameters say where rows begin, if the kernel has such. Else the accessors compute the place of each
    element, if the kernel loads each once: it is elementwise, or it `copies` them.
    """
    if not whole(read):
        return None
    params: Mapping[str, Param]
    if read.pitch is not None:
        pitch = pitch_params(read, read.pitch, rows, operand.type.size)
        if pitch is None:
            return None
        params = {**kernel.params, **pitch}
    elif copies or (kernel.pointwise is not None and read.name in kernel.pointwise.operands):
        params = _with(kernel.params, row_params(read.name, rows))
    else:
        return None
    reads = (replace(read, rows=rows) if r.name == read.name else r for r in kernel.reads)
    return replace(kernel, reads=tuple(reads), params=params)


def _with(params: Mapping[str, Param], others: Mapping[str, Param]) -> dict[str, Param]:
    """Return the parameters of a body together with those of its accessors, which have names of their own."""
    assert params.keys().isdisjoint(others), f"a body has a parameter of its accessors: {[*others]}"
    return {**params, **others}


def row_params(name: str, rows: Rows | Walk) -> dict[str, Param]:
    """Return the parameters of accessors that load and store in rows, in elements or in fours."""
    unit = rows.unit
    found: dict[str, Param] = {f"{name}_first": rows.first // unit}
    if unit == 1:
        found[f"{name}_apart"] = rows.step
    for level, (length, gap) in enumerate(rows.levels()):
        found[f"{name}_length{level}"] = length // unit
        found[f"{name}_gap{level}"] = gap // unit % 2**32  # they may be negative
        found[f"{name}_inverse{level}"] = unit / length
    return found


def pitch_params(read: Read, pitch: Pitch, rows: Rows, size: int) -> dict[str, int] | None:
    """Return the parameters of a kernel that finds rows of an operand in those of a larger tensor.

    size: of the operand, in elements. None if the rows of both do not fit together, or if elements that are
    loaded at once lie apart.
    """
    if rows.length == pitch.length:
        apart = rows.pitch
    elif rows.length == size:
        apart = pitch.length
    else:
        return None
    together = max(read.width, pitch.unit)
    aligned = rows.first % together == apart % together == 0
    return pitch.params(read.name, apart, rows.first) if aligned else None
