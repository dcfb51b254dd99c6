"""The kernel of element-wise functions of one tensor."""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.kernel import Function, Kernel, Param, Read, Write, ceil_div, flat_threads
from gpunn.ops.call import Call
from gpunn.ops.kernels.each import lanes_of
from gpunn.pointwise import Pointwise, Repeat


def elementwise(
    call: Call,
    expression: str,
    params: Mapping[str, Param] | None = None,
    libraries: tuple[str, ...] = (),
    signs: tuple[int, ...] = (),
) -> Kernel:
    """Make a kernel that applies an expression to every element, which may have another type than the
    result's. `signs`: see Pointwise.
    """
    lanes = lanes_of(call.y)
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
        rounded_up=call.y.size % lanes > 0,
        pointwise=Pointwise("apply(x)", {"x": Repeat(call.x.size)}, signs),
        reason="element by element",
    )
