"""Kernels of ops on rows that one dispatch does not take: for the maximum, for the sum, for the results."""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Kernel, Read, Scratch, Write, flat_threads
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.kernels.chain import boxes, chained
from gpunn.ops.kernels.cooperative import CooperativeGroup
from gpunn.types import DType, TensorType


def long_rows(call: Call, kernel: Kernel, group: CooperativeGroup, length: int, wide: bool) -> list[Kernel]:
    """Divide a kernel of shaders/normalize.wgsl for rows of that length, each of which a group shares.

    wide: sums have 64 bits.
    """
    parts = boxes((length,), call.device.max_loop_iterations, group.size)
    row = TensorType(DType.FLOAT32 if call.y.dtype in FLOATS else DType.INT32, (group.results,))
    top, total, upper = Scratch(row), Scratch(row), Scratch(row)

    def folded(body: str, constants: dict[str, int], top: Scratch | None, *to: Write) -> list[Kernel]:
        part = replace(
            kernel,
            body=body,
            reads=(*kernel.reads, Read("top", top)),
            writes=to,
            constants={**group.constants, **constants},
        )
        return chained(part, part, parts)

    words = (Write(output=total), Write("y_upper", upper))
    sums = (
        folded("row_sum_int64", {}, top, *words)
        if wide
        else folded("row_part", {"LARGEST": 0}, top, Write(output=total))
    )
    results = replace(
        kernel,
        body="row_finish",
        threads=flat_threads(call.y.size),
        reads=(*kernel.reads, Read("top", top), Read("sum", total), Read("upper", upper if wide else None)),
        params={**kernel.params, "count": call.y.size},
        functions={
            **kernel.functions,
            "finish": replace(kernel.functions["finish"], params=("r", "sum", "settled", "upper")),
        },
        constants={},
        loop_iterations=0,
        reason="element by element, with the maximum and the sum of its row",
    )
    return [*folded("row_part", {"LARGEST": 1}, None, Write(output=top)), *sums, results]
