"""Kernels that copy and fill, for all ops that move elements.

A copy between two dense tensors is one walk through a space with a stride per dimension on either side
(shaders/strided_copy.wgsl).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.kernel import (
    Function,
    Kernel,
    Param,
    Read,
    Scratch,
    Write,
    flat_threads,
    size_of,
    vec_width,
)
from gpunn.ops.kernels.strides import (
    aligned,
    by_fours,
    dense,
    halves,
    merge,
    space_constants,
    space_params,
    splat,
)
from gpunn.types import DType, Shape, TensorType


def number_param(dtype: DType, value: float) -> Param:
    """Convert a number of a dtype to a parameter, which bodies read as T(p.name)."""
    if dtype.numpy.kind == "c":
        return complex(value)
    if dtype.numpy.kind == "f":
        return float(value)
    bits = int(value) % 2**64
    return (bits % 2**32, bits >> 32) if dtype is DType.INT64 else bits % 2**32


def strided_copy(
    read: Read,
    sizes: Shape,
    x: Shape,
    y: Shape,
    *,
    x_start: int = 0,
    y_start: int = 0,
    output: int | Scratch = 0,
    functions: Mapping[str, Function] | None = None,
    tables: tuple[Read, ...] = (),
    reason: str,
) -> Kernel:
    """Make a kernel that copies a space of `sizes`, walking x and y by their strides from their starts.

    y is result `output`, or a tensor for later kernels. `functions` may contain a function for every element,
    `tables` the tables that it reads.
    """
    sizes, x, y = merge(sizes, x, y)
    fours = aligned(sizes, x, y) and not splat(x) and x_start % 4 == y_start % 4 == 0
    lanes = 4 if fours else 1
    if lanes == 4:
        sizes, x, y = by_fours(sizes, x, y)
    return Kernel(
        body="strided_copy",
        threads=flat_threads(size_of(sizes)),
        reads=(Read("x", read.operand, width=lanes), *tables),
        writes=(Write(output=output, width=lanes),),
        params={
            "count": size_of(sizes),
            "x_start": x_start // lanes,
            "y_start": y_start // lanes,
            **space_params(sizes, {"x": x, "y": y}),
        },
        constants=space_constants(sizes),
        functions=functions or {},
        lanes=lanes,
        reason=reason,
    )


def whole_copy(x: TensorType, operand: int, reason: str) -> Kernel:
    """Make the kernel that copies input `operand`, of type x, to the result's beginning."""
    return strided_copy(Read("x", operand), (x.size,), (1,), (1,), reason=reason)


def filled(y: TensorType, value: float, reason: str) -> Kernel:
    """Make a kernel that sets every element of the result, of type y, to a number."""
    lanes = vec_width(y.size)
    count = y.size // lanes
    return Kernel(
        body="unary",
        threads=flat_threads(count),
        reads=(Read("x", None),),
        writes=(Write(width=lanes),),
        params={"count": count, "value": number_param(y.dtype, value)},
        functions={"apply": Function(("x",), "T(p.value)")},
        lanes=lanes,
        reason=reason,
    )


def bordered(
    space: list[tuple[int, int, int]], lanes: int, body: str, params: Mapping[str, Param], reason: str
) -> Kernel:
    """Make a kernel for a result that is an input with a border.

    space: for each merged dimension its size in the result, in the input, and the elements before; the
    innermost is divisible by `lanes`. `params` are the parameters of the body itself.
    """
    if lanes == 4:
        inner = space[-1]
        space = [*space[:-1], (inner[0] // 4, inner[1] // 4, inner[2] // 4)]
    sizes, extents, before = (tuple(column[k] for column in space) for k in range(3))
    return Kernel(
        body=body,
        threads=flat_threads(size_of(sizes)),
        reads=(Read("x", 0, width=lanes),),
        writes=(Write(width=lanes),),
        params={
            "count": size_of(sizes),
            **params,
            **space_params(sizes, {"x": dense(extents)}),
            **halves("before", before, 0),
            **halves("extent", extents, 1),
        },
        constants=space_constants(sizes),
        lanes=lanes,
        reason=reason,
    )
