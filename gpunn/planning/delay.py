"""Elementwise operations that run as late as they can, so that one behind them can be appended to them.

An appended operation runs where the first one of its chain does (gpunn.planning.append), and what it reads
must be there by then. In x f + (b - mean f), as TensorFlow writes normalisations, the product with a large x
stands before what is small in the sum; it may as well run between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand
from gpunn.planning.partition import DEVICE, HOST, Placement
from gpunn.planning.places import source_of
from gpunn.planning.steps import is_elementwise


def delay(model: Graph, placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """Put elementwise operations right before the one that reads their results, where this one is elementwise
    and reads what is computed between the two. So run those before them that alone they read.

    Others stay: those that may be appended to what computes their operand, and those of variables, which may
    have their next value later.
    """
    written = {o: n for n, p in enumerate(placements) for o in p.operation.outputs}
    producers = {o: p for p in placements for o in p.operation.outputs}
    readers: dict[Operand, list[int]] = {}
    for number, placement in enumerate(placements):
        for operand in dict.fromkeys(o for o in placement.operation.inputs if o is not None):
            readers.setdefault(operand, []).append(number)
    runs = [*accumulate(placement.backend == HOST for placement in placements)]
    movable: dict[int, int] = {}  # to the number of the operation that reads the result

    def stays(operand: Operand, result: Operand) -> bool:
        """Tell whether an operation of this operand stays where it is."""
        if source_of(operand, producers).lifetime is Lifetime.VARIABLE:
            return True
        alone = operand in producers and operand not in model.results and len(readers[operand]) == 1
        return alone and operand.type.size == result.type.size and written[operand] not in movable

    for number, placement in enumerate(placements):
        if not _is_elementwise(placement) or placement.operation.outputs[0] in model.results:
            continue
        (result,), given = placement.operation.outputs, placement.operation.inputs
        reader, *others = readers.get(result, [number])
        near = not others and runs[reader] == runs[number] and _is_elementwise(placements[reader])
        if near and not any(stays(o, result) for o in given if o is not None):
            movable[number] = reader
    before: dict[int, list[int]] = {}
    late: set[int] = set()
    for number, reader in reversed(movable.items()):
        places = (written.get(o, -1) for o in placements[reader].operation.inputs if o is not None)
        if reader in late or any(place > number for place in places):
            before.setdefault(reader, []).insert(0, number)
            late.add(number)

    def ordered(number: int) -> Iterator[Placement]:
        for earlier in before.get(number, ()):
            yield from ordered(earlier)
        yield placements[number]

    return tuple(p for n in range(len(placements)) if n not in late for p in ordered(n))


def _is_elementwise(placement: Placement) -> bool:
    """Tell whether an operation is elementwise, in one kernel of a device."""
    one = placement.backend == DEVICE and len(placement.kernels) == len(placement.operation.outputs) == 1
    return one and is_elementwise(placement.kernels[0]) and not placement.operation.guarded
