"""Places: where results lie in the tensors that have their bytes, and kernels that find them there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Param, Read, Write
from gpunn.planning.partition import ALIAS, HOST, Placement, read_by, read_from, written_by, written_to
from gpunn.rows import Pitch, Rows, Start, Walk

_EXACT = 2**24  # numbers of rows are computed in float32 (shaders/lib/in_rows.wgsl)
_WORD = 4  # bytes
_MOST_LEVELS = 4  # of rows within rows: each takes a store ten instructions

Kernels = tuple[Kernel, ...]
# Some of an operation's kernels, by the place among all of them.
Numbered = dict[int, Kernel]
# The operand that has the bytes of another one, and where they are in it.
Place = tuple[Operand, Rows | Walk]


@dataclass(slots=True)
class Places:
    """The places of results in their owners, and the kernels of operations that find them there.

    `results`: operands that leave the model. `producers`, `readers`: of each operand; who reads it more than
    once stands there more than once, and what computes a reader with its own kernels stands there instead.
    `bound`: the kernels of operations that were asked for.
    """

    placements: Sequence[Placement]
    results: set[Operand]
    kernels: dict[Operation, Kernels] = field(default_factory=dict)
    bound: dict[Operation, Bindings] = field(default_factory=dict)
    places: dict[Operand, Place] = field(default_factory=dict)
    producers: dict[Operand, Placement] = field(default_factory=dict)
    readers: dict[Operand, list[Placement]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        homes = {p.operation: p for p in self.placements}
        for placement in self.placements:
            self.kernels[placement.operation] = placement.kernels
            self.producers.update(dict.fromkeys(placement.operation.outputs, placement))
            home = placement if placement.within is None else homes[placement.within]
            for operand in placement.operation.inputs:
                if operand is not None:
                    self.readers.setdefault(operand, []).append(home)

    def placed(self, why: str) -> tuple[Placement, ...]:
        """Return the placements with their new kernels; `why`: the reason of those that have none left."""
        return tuple(self._placed(p, why) for p in self.placements)

    def _placed(self, placement: Placement, why: str) -> Placement:
        found = self.bound.get(placement.operation)
        kernels = placement.kernels if found is None else found.left
        left = kernels or not placement.kernels
        return replace(placement, kernels=kernels, reason=placement.reason if left else why)

    def runs(self) -> Iterator[list[Placement]]:
        """Yield the placements between which the host does nothing."""
        for on_host, group in itertools.groupby(self.placements, lambda p: p.backend == HOST):
            if not on_host:
                yield [*group]

    def bindings(self, operation: Operation) -> Bindings:
        """Return the kernels of an operation by the operands that they bind."""
        if operation not in self.bound:
            self.bound[operation] = Bindings(operation, self.kernels[operation])
        return self.bound[operation]

    def put(self, operand: Operand, place: Place, changed: Mapping[Operation, Numbered]) -> None:
        """Give an operand a place, with new kernels of some operations."""
        for operation, kernels in changed.items():
            self.bindings(operation).update(kernels)
        self.places[operand] = place

    def reading(
        self, operations: Sequence[Operation], views: Sequence[Operand], owner: Operand, rows: Rows
    ) -> dict[Operation, Numbered] | None:
        """Return the kernels of operations that read an operand in rows of an owner; `views` are its shapes.

        None if one of them cannot find it there.
        """
        if any(v.type.dtype is not views[0].type.dtype for v in views):
            return None
        made: dict[Operation, Numbered] = {}
        for operation in operations:
            found = self._reading(operation, views, rows)
            if found is None or self.binds_twice(operation, found, owner, views):
                return None
            made[operation] = found
        return made

    def source(self, operand: Operand) -> Operand:
        """Return what an operand is another shape of; itself if no alias gives it."""
        return source_of(operand, self.producers)

    def views(self, operand: Operand) -> Iterator[Operand]:
        """Yield an operand, and all that are other shapes of it."""
        yield operand
        for placement in self.readers.get(operand, ()):
            if placement.backend == ALIAS:
                yield from self.views(placement.operation.outputs[0])

    def binds_twice(
        self, operation: Operation, changed: Numbered, owner: Operand, views: Sequence[Operand]
    ) -> bool:
        """Tell whether a kernel would bind an owner twice, and write it, if `views` were in it, too.

        What it reads and what it writes may lie in one binding. changed: the kernels that find `views` there.
        """

        def owner_of(operand: Operand) -> Operand:
            source = self.source(operand)
            return owner if operand in views else self.places.get(source, (source,))[0]

        bindings = self.bindings(operation)
        kernels = {**bindings.reading(*views), **bindings.writing(*views), **changed}
        return not all(bound_once(operation, kernel, owner_of) for kernel in kernels.values())

    def _reading(self, operation: Operation, views: Sequence[Operand], rows: Rows) -> Numbered | None:
        """Return kernels that read an operand in rows of another tensor; None if they cannot."""
        bindings = self.bindings(operation)
        numbers, made = bindings.numbers(*views), bindings.reading(*views)
        found = {r.operand for kernel in made.values() for r in kernel.reads}
        if not (numbers <= found or found.intersection(views)):
            return None  # it reads the operand in a way of its own
        for place, kernel in made.items():
            for read in kernel.reads:
                if read.operand in numbers or read.operand in views:
                    moved = _read_in_rows(kernel, read, rows, views[0])
                    if moved is None:
                        return None
                    kernel = moved
            made[place] = kernel
        return made


class Bindings:
    """The kernels of an operation, by the operands that they read and write.

    Kernels are told apart by where they stand: there may be one for each of very many operands.
    """

    def __init__(self, operation: Operation, kernels: Kernels) -> None:
        self._left = dict(enumerate(kernels))
        self._numbers: dict[Operand | None, list[int]] = {}
        self._reading: dict[Operand, list[int]] = {}
        self._writing: dict[Operand, list[int]] = {}
        for number, operand in enumerate(operation.inputs):
            self._numbers.setdefault(operand, []).append(number)
        for place, kernel in self._left.items():
            for read in dict.fromkeys(read_by(operation, kernel)):
                self._reading.setdefault(read, []).append(place)
            for written in dict.fromkeys(written_by(operation, kernel)):
                self._writing.setdefault(written, []).append(place)

    def numbers(self, *operands: Operand) -> set[int]:
        """Return the places of operands among the inputs."""
        return {number for operand in operands for number in self._numbers.get(operand, ())}

    def reading(self, *operands: Operand) -> Numbered:
        """Return the kernels that read one of these operands."""
        return self._of(self._reading, operands)

    def writing(self, *operands: Operand) -> Numbered:
        """Return the kernels that write one of these operands."""
        return self._of(self._writing, operands)

    def _of(self, places: Mapping[Operand, Sequence[int]], operands: Sequence[Operand]) -> Numbered:
        found = (place for operand in operands for place in places.get(operand, ()))
        return {place: self._left[place] for place in found if place in self._left}

    def update(self, kernels: Numbered) -> None:
        """Put kernels in the places of others, which bind the same operands."""
        self._left.update(kernels)

    def drop(self, places: Collection[int]) -> None:
        """Leave out the kernels in these places."""
        for place in places:
            del self._left[place]

    @property
    def left(self) -> Kernels:
        """Return the kernels that are left."""
        return tuple(self._left.values())


def owners(places: Mapping[Operand, Place]) -> dict[Operand, Operand]:
    """Return for each operand that has no bytes of its own the one that has them."""
    return {operand: owner for operand, (owner, _) in places.items()}


def source_of(operand: Operand, producers: Mapping[Operand, Placement]) -> Operand:
    """Return what an operand is another shape of; itself if no alias gives it."""
    while operand in producers and producers[operand].backend == ALIAS:
        source = producers[operand].operation.inputs[0]
        assert source is not None
        operand = source
    return operand


def bound_width(bound: Read | Write) -> int:
    """Return how many elements of an operand are bound together: one if its rows part fours."""
    rows = None if isinstance(bound, Read) and bound.pitch is not None else bound.rows
    return bound.width if rows is None or rows.unit == 4 else 1


def bound_once(operation: Operation, kernel: Kernel, owner_of: Callable[[Operand], Operand]) -> bool:
    """Tell whether a kernel binds each tensor once that it writes, also if it reads other parts of it.

    owner_of: gives the operand that has the bytes of one.
    """
    writes = [(w, owner_of(o)) for w in kernel.writes if (o := written_to(operation, w)) is not None]
    reads = [(r, owner_of(o)) for r in kernel.reads if (o := read_from(operation, r)) is not None]
    apart = len({owner for _, owner in writes}) == len(writes)
    return apart and all(_alike(r, w, o) for w, o in writes for r, other in reads if other is o)


def _alike(read: Read, write: Write, owner: Operand) -> bool:
    """Tell whether a kernel can load from the binding that it stores to, in words of the same kind."""
    dtype = owner.type.dtype
    words = dtype.numpy.itemsize == _WORD and read.dtype in (None, dtype)
    return words and whole(read) and read.pack is None and bound_width(read) == bound_width(write)


def whole(bound: Read | Write) -> bool:
    """Tell whether a kernel has an operand in one binding from its first byte on."""
    return bound.window is None and bound.segments is None


def in_words(operand: Operand, rows: Rows | Walk) -> bool:
    """Tell whether accessors can compute where words of an operand are in a larger tensor."""
    type, unit = operand.type, rows.unit
    return type.size // unit < _EXACT and (type.dtype.numpy.itemsize >= _WORD or unit == 4)


def ends_in_rows(kernel: Kernel, rows: Rows | Walk, size: int) -> bool:
    """Tell whether what a kernel stores of a result of so many elements ends with it, in rows of a tensor.

    Elements behind it would be those of another result, or none: then WGSL lets the driver take any element.
    """
    return rows.unit == 4 or size % 4 == 0 or not kernel.pads


def written_in_rows(
    kernels: Sequence[Kernel], output: int, rows: Rows | Walk, operand: Operand, owner: Operand
) -> Kernels | None:
    """Return kernels that write a result into rows of another tensor; None if their stores do not fit it."""
    type = operand.type
    if len(rows.levels()) > _MOST_LEVELS or type.dtype is not owner.type.dtype or not in_words(operand, rows):
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


def _read_in_rows(kernel: Kernel, read: Read, rows: Rows, operand: Operand) -> Kernel | None:
    """Return a kernel that reads an operand in rows of another tensor; None if that would take it long.

    Parameters say where rows begin, if the kernel has such. Else the accessors compute the place of each
    element, if the kernel loads each once: it is elementwise, or `read` says so.
    """
    if not whole(read):
        return None
    params: Mapping[str, Param]
    if read.pitch is not None:
        pitch = pitch_params(read, read.pitch, rows, operand.type.size)
        if pitch is None:
            return None
        params = {**kernel.params, **pitch}
    elif read.once or (kernel.pointwise is not None and read.name in kernel.pointwise.operands):
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


def pitch_params(read: Read, pitch: Pitch | Start, rows: Rows, size: int) -> dict[str, int] | None:
    """Return the parameters of a kernel that finds rows of an operand in those of a larger tensor.

    size: of the operand, in elements. None if the rows of both do not fit together, or if elements that are
    loaded at once lie apart.
    """
    together = max(read.width, pitch.unit)
    if isinstance(pitch, Start):
        fits = rows.length == size and rows.first % together == 0
        return pitch.params(read.name, rows.first) if fits else None
    if rows.length == pitch.length:
        apart = rows.pitch
    elif rows.length == size:
        apart = pitch.length
    else:
        return None
    aligned = rows.first % together == apart % together == 0
    return pitch.params(read.name, apart, rows.first) if aligned else None
