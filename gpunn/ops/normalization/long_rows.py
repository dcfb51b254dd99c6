"""Kernels of ops on rows: one, or for long rows one for what they become and another for the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpunn.kernel import (
    Function,
    Kernel,
    Kernels,
    Param,
    Read,
    Scratch,
    Write,
    ceil_div,
    flat_threads,
)
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.kernels.chain import boxes, chained
from gpunn.ops.kernels.cooperative import CooperativeGroup, cooperative_group, in_groups
from gpunn.ops.op import EIGHT_BITS
from gpunn.rows import Pitch, Start
from gpunn.types import DType, TensorType

Divide = Callable[[Kernel, CooperativeGroup], list[Kernel]]  # a kernel whose rows one dispatch does not take


def row_kernels(
    call: Call,
    body: str,
    run: tuple[int, int],
    divide: Divide,
    *tables: Read,
    params: Mapping[str, Param],
    functions: Mapping[str, Function] | None = None,
    constants: Mapping[str, int] | None = None,
    libraries: tuple[str, ...] = (),
    at_once: bool = True,
) -> Kernels:
    """Return the ways to compute an op on rows, which a body walks three times.

    run: how many elements a row has, and the distance between them. tables: operands beside x. at_once: False
    divides short rows, too.
    """
    length, inner = run
    rows, most = call.x.size // max(length, 1), call.device.max_loop_iterations

    def kernels(group: CooperativeGroup) -> Sequence[Kernel]:
        kernel = Kernel(
            body=body,
            threads=group.threads,
            workgroup=group.workgroup,
            any_width=group.size == 1,
            reads=(Read("x", 0), *tables),
            libraries=libraries,
            params={"rows": rows, "length": length, "inner": inner, **params},
            constants={**group.constants, **(constants or {})},
            functions=functions or {},
            loop_iterations=3 * ceil_div(length, group.size),
            reason=f"rows of {length}: {group.reason}",
        )
        short = most is None or kernel.loop_iterations <= most
        return [_in_lanes(kernel, call, group)] if at_once and short else divide(kernel, group)

    return in_groups(cooperative_group(rows, length, call.device, few=True), length, kernels)


def _in_lanes(kernel: Kernel, call: Call, group: CooperativeGroup) -> Kernel:
    """Return a kernel of whole rows that takes four elements at once, where these lie side by side.

    On software: lavapipe's loop takes as long for an element as for four. Neighbours on hardware load what
    lies side by side together, anyway.
    """
    x, *tables = kernel.reads
    length, inner = kernel.params["length"], kernel.params["inner"]
    assert isinstance(length, int) and isinstance(inner, int)
    in_words = call.device.software and inner == 1 and group.size == 1
    if in_words and length % 4 and kernel.body == "normalize" and call.x.dtype in EIGHT_BITS:
        words = Start(4)
        return replace(
            kernel,
            body="normalize_bytes",
            reads=(replace(x, pitch=words), *tables),
            params={**kernel.params, **words.params("x")},
            loop_iterations=3 * (ceil_div(length, 4) + 1),
            reason=f"{kernel.reason}, in words",
        )
    if not in_words or length % 4:
        rows = Pitch(length * inner)
        return replace(
            kernel,
            reads=(replace(x, pitch=rows), *tables),
            libraries=(*kernel.libraries, "by_element"),
            params={**kernel.params, **rows.params("x")},
        )
    rows = Pitch(length, 4)
    return replace(
        kernel,
        lanes=4,
        reads=(replace(x, width=4, pitch=rows), *tables),
        writes=(Write(width=4),),
        libraries=(*kernel.libraries, "by_fours"),
        params={**kernel.params, **rows.params("x"), "length": length // 4},
        loop_iterations=3 * (length // 4),
        reason=f"{kernel.reason}, in fours",
    )


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
    call: Call, kernel: Kernel, top: Scratch, total: Scratch, upper: Scratch | None = None
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
