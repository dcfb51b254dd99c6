"""Running sums along an axis, which an attribute names or the value of an operand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpunn.kernel import (
    Function,
    Kernel,
    Kernels,
    Read,
    Scratch,
    Write,
    ceil_div,
    flat_threads,
    size_of,
    spans,
)
from gpunn.ops.accuracy import sums
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import Axes, Space, alike
from gpunn.ops.call import Call
from gpunn.ops.check import (
    FLOATS,
    INDICES,
    NUMBERS,
    expect_bool,
    expect_dtype,
    expect_int,
    expect_unquantised,
)
from gpunn.ops.guard import Guard
from gpunn.ops.kernels.strides import dense
from gpunn.ops.op import Op, op
from gpunn.ops.reduction.gradients import CUMSUM
from gpunn.types import Array, DType, TensorType

_SIDE_BY_SIDE = 64  # invocations: enough for the vectors of a CPU's cores
_FEW = 32  # blocks: they are read twice, which takes as long as they save
_LONG = 1024  # elements: shorter rows take as long as a dispatch


def _infer(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *NUMBERS)
    if call.has(1):
        along = expect_unquantised(call, 1, *INDICES)
        if not x.rank:
            call.fail(f"there is no axis in {x}")
        if along.size != 1 or call["axis"] is not None:
            call.fail(f"the axis must be one number, an operand or an attribute, got {along}, {call['axis']}")
    elif call["axis"] is None:
        call.fail("needs attribute axis, or an operand for it")
    else:
        call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    expect_bool(call, "exclusive")
    expect_bool(call, "reverse")
    return x


def _space(call: Call) -> Space | None:
    """Return the axes that x and the result share; None if a value names one of them."""
    return None if call.has(1) else alike(call)


def _lengths(call: Call) -> tuple[int, ...]:
    """Return the extents of the axes along which sums may run."""
    shape = call.x.shape
    return shape if call.has(1) else (shape[call.axis(call["axis"], len(shape))],)


def _axes(call: Call) -> list[range]:
    return [range(-call.x.rank, call.x.rank)] if call.has(1) else []


def _in_parts(call: Call, kernel: Kernel, rows: int, length: int) -> list[Kernel]:
    """Make kernels that sum as many elements of each row as the device's loops take, one after the other."""
    dtype = DType.FLOAT32 if call.y.dtype in FLOATS else call.y.dtype
    before: Scratch | None = None
    kernels = []
    for span in spans(length, call.device.max_loop_iterations):
        after = Scratch(TensorType(dtype, (rows,)))
        kernels.append(
            replace(
                kernel,
                body=f"{kernel.body}_part",
                reads=(*kernel.reads, Read("before", before)),
                writes=(*kernel.writes, Write("after", after)),
                params={**kernel.params, "first": span.start, "end": span.stop},
                loop_iterations=len(span),
                reason=f"{kernel.reason}, for a part of its elements",
            )
        )
        before = after
    return kernels


def _blocks(call: Call, rows: int, length: int) -> int:
    """Return into how many blocks each row is divided, so that the device has work; 1 if it has.

    The sums of a row's blocks add up in one invocation, so they are not many more than elements of a block.
    """
    wanted = max(call.device.parallel_invocations, _SIDE_BY_SIDE) // max(rows, 1)
    if length < _LONG or wanted < _FEW:
        return 1
    most = call.device.max_loop_iterations or length
    return max(min(wanted, math.isqrt(length)), ceil_div(length, most))


def _in_blocks(call: Call, kernel: Kernel, blocks: int) -> list[Kernel]:
    """Make kernels that sum each block, the blocks of a row, and then from the sum before a block on."""
    rows, length = (int(str(kernel.params[name])) for name in ("count", "length"))
    block = ceil_div(length, blocks)
    blocks = ceil_div(length, block)
    dtype = DType.FLOAT32 if call.y.dtype in FLOATS else call.y.dtype
    totals, before = (Scratch(TensorType(dtype, (blocks, rows))) for _ in range(2))
    of_blocks = replace(
        kernel,
        threads=flat_threads(rows * blocks),
        params={**kernel.params, "count": rows * blocks, "rows": rows, "block": block},
        loop_iterations=block,
        reason=f"{blocks} blocks for each row",
    )
    along_blocks = replace(
        kernel,
        reads=(Read("x", totals),),
        writes=(Write(output=before),),
        params={"count": rows, "length": blocks, "inner": rows},
        constants={"EXCLUSIVE": 1, "REVERSE": 0},
        loop_iterations=blocks,
    )
    return [
        replace(of_blocks, body="block_sums", writes=(Write(output=totals),)),
        along_blocks,
        replace(of_blocks, body="cumsum_blocks", reads=(*kernel.reads, Read("before", before))),
    ]


def _kernel(call: Call) -> Kernels:
    lengths, size = _lengths(call), call.x.size
    rows = tuple(size // max(length, 1) for length in lengths)
    plus = "i64_add(a, b)" if call.x.dtype is DType.INT64 else "a + b"
    kernel = Kernel(
        body="cumsum",
        threads=flat_threads(max(rows)),
        reads=(Read("x", 0),),
        constants={"EXCLUSIVE": int(call["exclusive"]), "REVERSE": int(call["reverse"])},
        functions={"plus": Function(("a", "b"), plus)},
        loop_iterations=max(lengths),
        reason="one invocation per row",
    )
    if not call.has(1):
        axis = call.axis(call["axis"], call.x.rank)
        inner = size_of(call.x.shape[axis + 1 :])
        whole = replace(kernel, params={"count": rows[0], "length": lengths[0], "inner": inner})
        blocks = _blocks(call, rows[0], lengths[0])
        if blocks > 1:
            return _in_blocks(call, whole, blocks)
    else:
        axes = np.array([*zip(rows, lengths, dense(lengths), strict=True)], np.int32)
        whole = replace(
            kernel,
            body="cumsum_along",
            reads=(Read("x", 0), Read("along", 1), Read("axis", None, value=axes)),
            params={"count": max(rows), "length": max(lengths), "axes": len(axes)},
            reason="one invocation per row of the axis that a value names",
        )
    limit = call.device.max_loop_iterations
    divided = limit is not None and max(lengths) > limit
    return _in_parts(call, whole, max(rows), max(lengths)) if divided else whole


@op(
    _infer,
    _kernel,
    guards=(Guard(1, _axes, "the axis"),),
    algebra=Algebra(axes=Axes(space=_space, axis=("axis",))),
    accuracy=sums(lambda call: max(_lengths(call))),
    gradient=CUMSUM,
)
def cumsum(
    x: Array,
    along: Array | None = None,
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Array:
    """Add up the elements along an axis, which may be negative, up to each element.

    The axis is the attribute `axis`, or the value of `along`, one int32 or int64. `exclusive` leaves the
    element itself out, `reverse` adds from the end. Shapes: any of rank 1 or more; the result has x's shape.
    dtype: float32, float16, int32, int64 (sums wrap around) and, through real numbers on the host, quantised
    uint8, int8 and int16. Raises ModelError for other dtypes, unless the axis is given in one of the two
    ways, and for an axis out of range, also in the run. Accuracy: n eps sum(|x|) of float32 for n terms, plus
    the general promise, because every term rounds. TFLite schema, CumsumOptions.
    """
    if along is not None:
        axis = int(along.item())
    assert axis is not None  # infer has checked it
    turned = np.flip(x, axis) if reverse else x
    sums = np.cumsum(turned, axis=axis, dtype=x.dtype)
    if exclusive:
        sums = np.roll(sums, 1, axis)
        np.moveaxis(sums, axis, 0)[:1] = 0
    return np.ascontiguousarray(np.flip(sums, axis) if reverse else sums)


OPS: tuple[Op, ...] = (cumsum,)
