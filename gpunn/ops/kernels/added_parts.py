"""Sums in parts that several invocations compute, and a second kernel that adds these up (split-K)."""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Kernel, Read, Scratch, Write, flat_threads, nested, vec_width
from gpunn.ops.call import Call
from gpunn.types import DType, TensorType


def added_parts(call: Call, kernel: Kernel, parts: int) -> list[Kernel]:
    """Return a kernel with `parts` results, one behind the other, and the kernel that adds these up.

    The second one has the bias and the activation of the first one, which then computes sums alone.
    """
    total = Scratch(TensorType(DType.FLOAT32, (parts, *call.y.shape)))
    bias = next((read for read in kernel.reads if read.name == "bias"), Read("bias", None))
    lanes = vec_width(call.y.shape[-1] if bias.operand is not None else call.y.size)
    sums = replace(
        kernel,
        reads=tuple(Read("bias", None) if read is bias else read for read in kernel.reads),
        writes=tuple(replace(write, output=total) for write in kernel.writes),
        functions={name: function for name, function in kernel.functions.items() if name != "apply"},
    )
    add = Kernel(
        body="add_parts",
        threads=flat_threads(call.y.size // lanes),
        reads=(Read("x", total, lanes), bias),
        writes=(Write(width=lanes),),
        params={"count": call.y.size // lanes, "parts": parts, "row": max(call.y.shape[-1] // lanes, 1)},
        functions={name: function for name, function in kernel.functions.items() if name == "apply"},
        lanes=lanes,
        loop_iterations=nested(parts).iterations,
        reason=f"adds {parts} parts",
    )
    return [sums, add]
