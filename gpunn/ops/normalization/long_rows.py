"""Kernels of ops on rows that one dispatch does not take: for what rows become, and for the results."""

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
    top, total, upper = (of_rows(call, group.results) for _ in range(3))
    largest = folded(call, kernel, group, length, Write(output=top), LARGEST=1)
    if wide:
        words = Write(output=total), Write("y_upper", upper)
        sums = folded(call, kernel, group, length, *words, top=top, body="row_sum_int64")
    else:
        sums = folded(call, kernel, group, length, Write(output=total), top=top, LARGEST=0)
    return [*largest, *sums, finished(call, kernel, top, total, upper if wide else None)]


def of_rows(call: Call, rows: int) -> Scratch:
    """Make a tensor of one element for each row."""
    return Scratch(TensorType(DType.FLOAT32 if call.y.dtype in FLOATS else DType.INT32, (rows,)))


def folded(
    call: Call,
    kernel: Kernel,
    group: CooperativeGroup,
    length: int,
    *to: Write,
    top: Scratch | None = None,
    body: str = "row_part",
    **constants: int,
) -> list[Kernel]:
    """Make kernels that fold rows of that length to an element each, part after part (shaders/row_part.wgsl).

    top: what relative() gets for each row; None: 0.
    """
    part = replace(
        kernel,
        body=body,
        reads=(*kernel.reads, Read("top", top)),
        writes=to,
        constants={**group.constants, **constants},
    )
    return chained(part, part, boxes((length,), call.device.max_loop_iterations, group.size))


def finished(
    call: Call, kernel: Kernel, top: Scratch | None, total: Scratch, upper: Scratch | None = None
) -> Kernel:
    """Make the kernel that computes the results from what rows have been folded to (row_finish.wgsl)."""
    return replace(
        kernel,
        body="row_finish",
        threads=flat_threads(call.y.size),
        reads=(*kernel.reads, Read("top", top), Read("sum", total), Read("upper", upper)),
        params={**kernel.params, "count": call.y.size},
        functions={
            **kernel.functions,
            "finish": replace(kernel.functions["finish"], params=("r", "sum", "settled", "upper")),
        },
        constants={},
        loop_iterations=0,
        reason="element by element, with what its row has been folded to",
    )
