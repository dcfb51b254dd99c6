"""Kernels of ops on rows that one dispatch does not take: for the maximum, for the sum, for the results."""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Kernel, Read, Scratch, Write, flat_threads
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.kernels.chain import boxes, chained, keeping
from gpunn.ops.kernels.cooperative import CooperativeGroup
from gpunn.types import DType, TensorType


def long_rows(call: Call, kernel: Kernel, group: CooperativeGroup, length: int) -> list[Kernel]:
    """Divide a kernel of shaders/normalize.wgsl for rows of that length, each of which a group shares."""
    parts = boxes((length,), call.device.max_loop_iterations, group.size)
    row = TensorType(DType.FLOAT32 if call.y.dtype in FLOATS else DType.INT32, (group.results,))
    top, total = Scratch(row), Scratch(row)

    def folded(largest: int, read: Read, to: Scratch) -> list[Kernel]:
        part = replace(
            kernel,
            body="row_part",
            reads=(*kernel.reads, read),
            writes=(Write(output=to),),
            constants={**group.constants, "LARGEST": largest},
        )
        return chained(part, keeping(part, {"y": row}, kernel.functions), parts)

    finish = replace(
        kernel,
        body="row_finish",
        threads=flat_threads(call.y.size),
        reads=(*kernel.reads, Read("top", top), Read("sum", total)),
        params={**kernel.params, "count": call.y.size},
        constants={},
        loop_iterations=0,
        reason="element by element, with the maximum and the sum of its row",
    )
    return [*folded(1, Read("top", None), top), *folded(0, Read("top", top), total), finish]
