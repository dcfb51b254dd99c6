"""Kernels of SVDF: one, or several where a device's loops do not take all filters of a unit at once."""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Function, Kernel, Loop, Read, Scratch, Write, ceil_div, halving, size_of
from gpunn.ops.call import Call
from gpunn.ops.elementwise.unary import activation_function
from gpunn.ops.kernels.chain import member_sums
from gpunn.ops.kernels.cooperative import CooperativeGroup, cooperative_group
from gpunn.types import DType, TensorType


def svdf_kernels(call: Call) -> list[Kernel]:
    """Make the kernels of SVDF on real numbers; svdf_integer.of_integers() converts them to integers."""
    depth, memory, units = call.x.shape[1], call.input(2).shape[1], call.outputs[1].shape[1]
    count, rank = call.outputs[1].size, call["rank"]
    group = cooperative_group(count, max(depth, memory), call.device)
    names = ("x", "feature", "time", "bias", "state")
    walks = (Loop(ceil_div(n, group.size)) for n in (depth, memory))
    kernel = Kernel(
        body="svdf",
        threads=group.threads,
        workgroup=group.workgroup,
        reads=tuple(Read(n, i if call.has(i) else None) for i, n in enumerate(names)),
        writes=(Write("state_out", 0), Write("y", 1)),
        params={"count": count, "units": units, "rank": rank, "depth": depth, "memory": memory},
        constants=group.constants,
        functions={
            "enter": Function(("x",), "x"),
            "entry": Function(("sum",), "sum"),
            "recall": Function(("v",), "v"),
            **activation_function(call),
        },
        loop_iterations=Loop(rank, (*walks, halving(group.size))).iterations,
        reason=group.reason,
    )
    most = call.device.max_loop_iterations
    if most is None or kernel.loop_iterations <= most:
        return [kernel]
    between = DType.FLOAT32 if call.x.quantization is None else DType.INT32
    newest = Scratch(TensorType(between, (call.x.shape[0], units * rank)))
    return [*_entries(call, kernel, group, newest), *_memories(call, kernel, group, newest)]


def _entries(call: Call, kernel: Kernel, group: CooperativeGroup, newest: Scratch) -> list[Kernel]:
    """Make the kernels that add up the newest entry of each filter."""
    x, feature = kernel.reads[:2]
    filters = size_of(newest.type.shape)
    group = replace(group, results=filters)
    entries = replace(
        kernel,
        body="svdf_entry",
        threads=group.threads,
        reads=(x, feature),
        writes=(Write(output=newest),),
        params={**kernel.params, "count": filters},
        reason=f"the newest entries, {group.reason}",
    )
    return member_sums(call, entries, group, (ceil_div(call.x.shape[1], group.size),))


def _memories(call: Call, kernel: Kernel, group: CooperativeGroup, newest: Scratch) -> list[Kernel]:
    """Make the kernels that add up what the memories of the filters bring, and move these on."""
    memories = replace(
        kernel,
        body="svdf_memory",
        reads=(*kernel.reads[2:], Read("newest", newest)),
        writes=(Write("y", 1), Write("state_out", 0)),
        reason=f"the memories, {group.reason}",
    )
    return member_sums(call, memories, group, (call["rank"], ceil_div(call.input(2).shape[1], group.size)))
