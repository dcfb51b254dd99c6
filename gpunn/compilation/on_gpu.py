"""placed_on_gpu(): where the operations of a graph run, with the kernels that they have on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpunn.backends.interrupt import check
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel
from gpunn.ops.control import some_rounds, while_loop
from gpunn.planning.append import append
from gpunn.planning.delay import delay
from gpunn.planning.join import join
from gpunn.planning.partition import Lower, Placement, partition
from gpunn.planning.pieces import find_pieces
from gpunn.planning.places import owners
from gpunn.planning.prepend import prepend
from gpunn.planning.switches import switched

if TYPE_CHECKING:
    from gpunn.backends.webgpu.device import Device
    from gpunn.tuning.tuner import Tuner


Lowered = Mapping[Operation, tuple[Kernel, ...] | str]  # kernels of operations, or why the host runs them


def placed_on_gpu(
    graph: Graph, gpu: Device, tuner: Tuner | None, lowered: Lowered
) -> tuple[tuple[Placement, ...], dict[Operand, Operand]]:
    """Return the placements of a graph on a GPU; those that are `lowered` have their kernels already.

    Also returns for each operand that has no bytes of its own the operand that has them.
    """
    others = (o for o in graph.operations if o not in lowered and not o.definition.alias)
    lower = _lowering(gpu, tuner, others)
    placements = partition(graph, lambda operation: lowered.get(operation) or lower(operation))
    placements, places = join(graph, placements, gpu.properties.software)
    joined = owners(places)
    if not gpu.properties.software:  # where each operation has kernels of its own
        from gpunn.planning.fusion import fuse

        lowering, tuned = partial(_lowering, gpu, tuner), tuner is not None
        placements, joined = fuse(graph, placements, joined, lowering, gpu.properties, tuned)
    placements, joined = find_pieces(graph, placements, joined, places)
    return _with_elementwise(graph, gpu, placements, joined)


def _lowering(gpu: Device, tuner: Tuner | None, operations: Iterable[Operation]) -> Lower:
    """Return what gives each of these operations its kernels on a GPU, as the tuner decides."""
    from gpunn.backends.webgpu.lower import lower

    decisions = {} if tuner is None else tuner.decisions(operations)

    def place(operation: Operation) -> tuple[Kernel, ...] | str:
        check()
        return lower(operation, gpu.properties, decisions.get(operation))

    return place


def _with_elementwise(
    graph: Graph, gpu: Device, placements: Sequence[Placement], joined: Mapping[Operand, Operand]
) -> tuple[tuple[Placement, ...], dict[Operand, Operand]]:
    """Append elementwise operations to those before them, or prepend them to those behind them, as far as a
    GPU can bind their operands.
    """
    from gpunn.backends.webgpu.shader import key_of

    placements = delay(graph, placements)
    placements, joined, chains = append(graph, placements, joined, gpu.properties)
    placements, joined, chains = prepend(graph, placements, joined, chains, gpu.properties)
    before = {operation: chain.kernels for operation, chain in chains.items()}
    return switched(placements, before, key_of, gpu.properties.software), joined


def lowered_loops(graph: Graph, gpu: Device) -> dict[Operation, tuple[Kernel, ...] | str]:
    """Return the kernels of each loop of which a GPU runs all rounds, or why the host runs it.

    Then its bodies are compiled, of which a loop on a GPU is made itself.
    """
    from gpunn.backends.webgpu.lower import lower

    loops = (o for o in graph.operations if o.definition in (while_loop, some_rounds))
    return {o: lower(o, gpu.properties) for o in loops}
