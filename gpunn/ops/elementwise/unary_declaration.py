"""Lines of unary.TABLE, and how they become ops: shape rule, kernel, table for quantised tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from gpunn.kernel import Kernel, Param, keep_nan
from gpunn.ops.accuracy import PROMISE, Accuracy
from gpunn.ops.algebra import Algebra, Clamp
from gpunn.ops.axes import ELEMENTWISE
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, QUANTIZED, expect_dtype, expect_float
from gpunn.ops.compiled import real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.elementwise import gradients
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.ops.fixed_point.affine import CLAMPS, fixed_output
from gpunn.ops.fixed_point.tables import real_table, table_facet
from gpunn.ops.op import EIGHT_BITS, Op, Prepare, Quantized, op
from gpunn.types import Array, DType, TensorType

Table: TypeAlias = Callable[[Call], Array]  # all results of a quantised call, by the bits of x


class Fused(NamedTuple):
    """The effect of an activation on the errors of its input, and how it is computed in place.

    slope: its steepest. approximate: it adds errors of an elementary function. write: writes what it makes
    of x to an array of the same shape, which may be x.
    """

    slope: float = 1.0
    approximate: bool = False
    write: Callable[[Array, Array], None] | None = None


class Unary(NamedTuple):
    """One line: name, meaning, expression, domain (bounds, ends included).

    `fused`: may stand as the attribute `activation` of other ops. `integer`: then also on integers.
    `accuracy`: see Op. `nan`: the expression drops NaN, which has to be kept. `table`: all results on a
    quantised tensor of 8 bits, where they are not the rounded real ones; `table16`: on one of 16. `output`:
    scale and, above the lowest stored value, zero point of a result that the file does not quantise.
    `dtypes`: what x may be. `params`: the numbers of the kernel, where these are not the attributes; checks
    the attributes. `library`: the one in shaders/lib that the expression calls. `int64`: the expression for
    int64, where it is another. `signs`: see Pointwise. `looped`: the meaning of float32 has a compiled loop.
    """

    name: str
    meaning: Callable[..., Any]
    expression: str
    domain: tuple[float, float]
    fused: Fused | None = None
    nan: bool = False
    integer: bool = False
    table: Table | None = None
    table16: Table | None = None
    output: tuple[float, int] | None = None
    dtypes: tuple[DType, ...] = FLOATS
    params: Callable[[Call], Mapping[str, Param]] | None = None
    library: str = ""
    int64: str = ""
    signs: tuple[int, ...] = ()
    accuracy: Accuracy = PROMISE
    looped: bool = False

    def expression_for(self, dtype: DType) -> str:
        """Return the expression for a dtype."""
        if self.int64 and dtype is DType.INT64:
            return self.int64
        return keep_nan(self.expression, "x") if self.nan and dtype in FLOATS else self.expression


def _params(line: Unary, call: Call) -> Mapping[str, Param]:
    if line.params is not None:
        return line.params(call)
    return {attr: expect_float(call, attr) for attr in call.attrs}


def _infer(line: Unary) -> Callable[[Call], TensorType]:
    def infer(call: Call) -> TensorType:
        _params(line, call)
        x = expect_dtype(call, 0, *line.dtypes)
        return x if line.output is None or x.quantization is None else fixed_output(x, *line.output)

    return infer


def _facet(line: Unary) -> Quantized:
    def table(call: Call) -> Array:
        special = line.table if call.x.dtype in EIGHT_BITS else line.table16
        return real_table(call, lambda x: line.meaning(x, **call.attrs)) if special is None else special(call)

    return table_facet(table, QUANTIZED)


def _kernel(line: Unary) -> Callable[[Call], Kernel]:
    return lambda call: elementwise(
        call,
        line.expression_for(call.x.dtype),
        _params(line, call),
        (line.library,) if line.library else (),
        line.signs if call.x.dtype in FLOATS else (),
    )


def _clamp(name: str) -> Callable[[float | None], Clamp] | None:
    """Return Algebra.clamp of the op of a line."""
    low, high = CLAMPS.get(name, (None, None))
    if name != "neg" and name not in CLAMPS:
        return None
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    found = Clamp(-1 if name == "neg" else 1, low, high)
    return lambda _: found


def _prepare(line: Unary) -> Prepare:
    def in_loop(x: Array, **attrs: Any) -> Array:
        y: Array = line.meaning(x, **attrs)
        return y if real_loops() is None else of_loops(y)

    def prepare(call: Call) -> Callable[[Array], Any]:
        if line.looped and call.x.dtype is DType.FLOAT32:
            return partial(in_loop, **call.attrs)
        return partial(line.meaning, **call.attrs) if call.attrs else line.meaning

    return prepare


def declare(line: Unary) -> Op:
    """Make the op of a line."""
    return op(
        _infer(line),
        _kernel(line),
        name=line.name,
        dtypes=line.dtypes,
        quantized=_facet(line),
        algebra=Algebra(pointwise=True, axes=ELEMENTWISE, clamp=_clamp(line.name)),
        accuracy=line.accuracy,
        prepare=_prepare(line),
        gradient=gradients.unary(line.name),
    )(line.meaning)
