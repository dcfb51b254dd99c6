"""Results that are written at once where an op would copy them: the parts of a concatenation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Param, Rows, Write
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement

_EXACT = 2**24  # numbers of rows are computed in float32 (shaders/lib/in_rows.wgsl)
_WORD = 4  # bytes


@dataclass(slots=True)
class _Joins:
    """The new kernels of operations, the owners of results, and the places of results in these."""

    kernels: dict[Operation, tuple[Kernel, ...]]
    places: dict[Operand, tuple[Operand, Rows]] = field(default_factory=dict)


def join(
    model: Graph, placements: Sequence[Placement]
) -> tuple[tuple[Placement, ...], dict[Operand, Operand]]:
    """Let operations of a device write into the result of the operation that would only copy theirs.

    Returns the placements with their new kernels, and for each operand that has no bytes of its own any more
    the operand that has them. An operation qualifies if nothing else reads its result, and if the host does
    nothing between the two.
    """
    readers = Counter(o for p in placements for o in p.operation.inputs if o is not None)
    readers.update(model.results)
    found = _Joins({p.operation: p.kernels for p in placements if p.backend == DEVICE})
    for on_host, group in itertools.groupby(placements, lambda p: p.backend == HOST):
        if not on_host:
            run = list(group)
            producers = {o: p for p in run for o in p.operation.outputs}
            for placement in reversed(run):
                if placement.backend == DEVICE and placement.operation.definition.places is not None:
                    _join(placement.operation, producers, readers, found)
    joined = tuple(replace(p, kernels=found.kernels.get(p.operation, p.kernels)) for p in placements)
    return joined, {operand: owner for operand, (owner, _) in found.places.items()}


def _join(
    operation: Operation,
    producers: Mapping[Operand, Placement],
    readers: Mapping[Operand, int],
    found: _Joins,
) -> None:
    """Let those who compute the operands of an operation write where it would copy them."""
    places = operation.definition.places
    assert places is not None
    (result,) = operation.outputs
    owner, outer = found.places.get(result, (result, None))
    for index, (operand, rows) in enumerate(zip(operation.inputs, places(operation.call()), strict=True)):
        assert operand is not None
        place = rows if rows is None or outer is None else rows.within(outer, result.type.size)
        copies = [k for k in found.kernels[operation] if any(r.operand == index for r in k.reads)]
        if place is None or not all(whole(w) for k in copies for w in k.writes):
            continue
        *views, source = _sources(operand, producers)
        if source not in producers or any(readers[o] != 1 for o in (*views, source)):
            continue
        producer = producers[source].operation
        kernels = _in_rows(found.kernels[producer], producer.outputs.index(source), place, source, owner)
        if kernels is not None:
            found.kernels[producer] = kernels
            found.kernels[operation] = tuple(k for k in found.kernels[operation] if k not in copies)
            found.places[source] = (owner, place)


def _sources(operand: Operand, producers: Mapping[Operand, Placement]) -> Iterator[Operand]:
    """Yield an operand, what it is another shape of, and so on."""
    yield operand
    while operand in producers and producers[operand].backend == ALIAS:
        source = producers[operand].operation.inputs[0]
        assert source is not None
        operand = source
        yield operand


def whole(write: Write) -> bool:
    """Tell whether a kernel has its result in one binding from its first byte on."""
    return write.window is None and write.segments is None


def ends_in_rows(kernel: Kernel, rows: Rows, size: int) -> bool:
    """Tell whether what a kernel stores of a result of so many elements ends with it, in rows of a tensor.

    Elements behind it would be those of another result, or none: then WGSL lets the driver take any element.
    """
    return rows.unit == 4 or size % 4 == 0 or not kernel.pads


def _in_rows(
    kernels: Sequence[Kernel], output: int, rows: Rows, operand: Operand, owner: Operand
) -> tuple[Kernel, ...] | None:
    """Return kernels that write a result into rows of another tensor; None if their stores do not fit it."""
    type, unit = operand.type, rows.unit
    words = type.dtype.numpy.itemsize >= _WORD
    if type.dtype is not owner.type.dtype or type.size // unit >= _EXACT or not (words or unit == 4):
        return None  # elements that share a word with those of other operations would need atomic stores
    made = []
    for kernel in kernels:
        writes, params = [*kernel.writes], dict(kernel.params)
        for k, write in enumerate(writes):
            if write.output != output:
                continue
            if not whole(write) or write.direct or not ends_in_rows(kernel, rows, type.size):
                return None
            writes[k] = replace(write, rows=rows, width=write.width if unit == 4 else 1)
            params.update(row_params(write.name, rows))
        made.append(replace(kernel, writes=tuple(writes), params=params))
    return tuple(made)


def row_params(name: str, rows: Rows) -> dict[str, Param]:
    """Return the parameters of accessors that store into rows, in elements or in fours."""
    length, pitch, first = (n // rows.unit for n in (rows.length, rows.pitch, rows.first))
    return {
        f"{name}_length": length,
        f"{name}_gap": pitch - length,
        f"{name}_first": first,
        f"{name}_inverse": 1.0 / length,
    }
