"""The kernel of element-wise functions of one tensor."""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.kernel import Function, Kernel, Param, Read, Write, ceil_div, flat_threads, vec_width
from gpunn.ops.call import Call
from gpunn.pointwise import Pointwise, Repeat
from gpunn.types import TensorType

MANY = 1 << 16  # elements: fewer take as long as a copy into a larger tensor


def lanes_of(y: TensorType) -> int:
    """Return how many elements of a result are stored at once, the last of which may lie in its padding.

    Those of less than a word are always stored by fours. A result of few words is not, if 4 does not divide
    its size: so it can be stored in a part of a larger tensor (gpunn.planning.join).
    """
    size = y.dtype.itemsize
    return 4 if size < 4 or (size == 4 and y.size >= MANY) else vec_width(y.size)


def elementwise(
    call: Call, expression: str, params: Mapping[str, Param] | None = None, libraries: tuple[str, ...] = ()
) -> Kernel:
    """Make a kernel that applies an expression to every element, which may have another type than the
    result's.
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
        pointwise=Pointwise("apply(x)", {"x": Repeat(call.x.size)}),
        reason="element by element",
    )
