"""Loops on the device: what a body computes in all rounds, as one dispatch of one workgroup.

The bodies of recurrent layers are twenty small operations, and a dispatch of each takes longer than its work.
So one workgroup runs all kernels of the body one after the other, round by round, with barriers in between
(gpunn.backends.webgpu.loop_writer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from gpunn.backends.webgpu.calls import resized
from gpunn.backends.webgpu.loop_rounds import dispatches
from gpunn.backends.webgpu.loop_shader import NARROW, WIDTH
from gpunn.backends.webgpu.loop_writer import Writer
from gpunn.device import DeviceProperties
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.kernel import Kernel, Unsupported
from gpunn.ops.control import some_rounds

# Workgroups times loop iterations, of which each takes a tenth to half of a microsecond. Nothing stops a
# submission, and drivers end dispatches of seconds: a dispatch takes up to 30 ms, and a loop 2 s.
MAX_DISPATCH_WORK = 1 << 16
MAX_LOOP_WORK = 1 << 22

Lower = Callable[[Operation], tuple[Kernel, ...] | str]


def lower_loop(operation: Operation, device: DeviceProperties, lower: Lower) -> tuple[Kernel, ...]:
    """Return the dispatches of a loop. Raises Unsupported with the reason why the host has to run it."""
    condition, body = operation.attrs["condition"], operation.attrs["body"]
    rounds = operation.attrs["most" if operation.definition is some_rounds else "rounds"]
    graphs = [g for g in (condition, body) if g is not None]
    plain = all(isinstance(g, Graph) and not g.pending and not g.variables for g in graphs)
    if rounds is None or not plain:
        raise Unsupported(operation.definition.host_reason)
    try:
        kernels = {o: _lowered(o, lower) for g in graphs for o in g.operations if not o.definition.alias}
        for width in (NARROW, WIDTH) if device.software else (WIDTH,):
            with suppress(Unsupported):
                return _kernels(operation, kernels, width, rounds, device)
        if condition is None:
            return dispatches(operation, kernels, rounds)
        return _kernels(operation, kernels, WIDTH, rounds, device)
    except Unsupported as reason:
        raise Unsupported(f"the host runs each round: {reason}") from None


def _kernels(
    loop: Operation,
    lowered: Mapping[Operation, Sequence[Kernel]],
    width: int,
    rounds: int,
    device: DeviceProperties,
) -> tuple[Kernel, ...]:
    """Return the dispatches of a loop by a workgroup of that many invocations."""
    fitting = {o: [resized(o, kernel, width) for kernel in ks] for o, ks in lowered.items()}
    condition, body = loop.attrs["condition"], loop.attrs["body"]
    bindings = len({*loop.inputs}) + len(loop.outputs) + 3
    fours = bindings <= device.most_bindings
    writer = Writer(loop, condition, body, device, width, fours)
    if condition is not None:
        writer.operations(condition, fitting)
        writer.decide(condition.outputs[0])
    writer.operations(body, fitting)
    writer.hand_on()
    if writer.shared_bytes > device.limit("max-compute-workgroup-storage-size"):
        raise Unsupported(f"a round takes {writer.shared_bytes} bytes of workgroup memory")
    per_round, once = writer.iterations, writer.iterations_once
    if rounds * writer.work > MAX_LOOP_WORK:
        raise Unsupported("its rounds are more than one submission should do")
    at_once = min(rounds, max(MAX_DISPATCH_WORK // max(writer.work, 1), 1))
    if device.max_loop_iterations is not None:  # which counts more than shaders say: half of it is certain
        possible = (device.max_loop_iterations // 2 - once) // per_round
        if possible < 1:
            raise Unsupported(f"a round takes {per_round} iterations of loops")
        at_once = min(at_once, possible)
    if writer.condition is not None:  # what has ended must not go on in another dispatch
        return (writer.kernel(min(at_once, rounds), first=True, last=True),)
    firsts = range(0, max(rounds, 1), max(at_once, 1))
    return tuple(
        writer.kernel(min(at_once, rounds - k), first=k == firsts[0], last=k == firsts[-1]) for k in firsts
    )


def _lowered(operation: Operation, lower: Lower) -> Sequence[Kernel]:
    """Return the kernels of an operation of a body."""
    if any(operand.value is None for _, operand in operation.guarded):
        raise Unsupported(f"{operation.op}: values are checked in each round")
    kernels = lower(operation)
    if isinstance(kernels, str):
        raise Unsupported(f"{operation.op}: {kernels}")
    return kernels
