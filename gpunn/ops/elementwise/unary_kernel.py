"""The kernel of element-wise functions of one tensor."""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.kernel import Function, Kernel, Param, Read, Write, ceil_div, flat_threads, vec_width
from gpunn.ops.call import Call
from gpunn.pointwise import Pointwise, Repeat


def elementwise(
    call: Call, expression: str, params: Mapping[str, Param] | None = None, libraries: tuple[str, ...] = ()
) -> Kernel:
    """Make a kernel that applies an expression to every element, which may have another type than the
    result's.

    Elements of less than a word are stored four at once; the last may lie in the padding of the tensors.
    """
    lanes = 4 if call.y.dtype.itemsize < 4 else vec_width(call.x.size)
    count = ceil_div(call.x.size, lanes)
    return Kernel(
        body="unary",
        threads=flat_threads(count),
        reads=(Read("x", 0, width=lanes),),
        writes=(Write(width=lanes),),
        params={"count": count, **(params or {})},
        functions={"apply": Function(("x",), expression, ("x",))},
        libraries=libraries,
        lanes=lanes,
        pointwise=Pointwise("apply(x)", {"x": Repeat(call.x.size)}),
        reason="element by element",
    )
