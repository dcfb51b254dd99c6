"""Lines of binary.TABLE, and how they become ops: shape rule, kernel, facet for quantised tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any, NamedTuple

import numpy as np

from gpunn.kernel import Function, Kernel, Read
from gpunn.ops.accuracy import PROMISE, Accuracy
from gpunn.ops.algebra import Affine, Algebra, Clamp
from gpunn.ops.axes import PAIRWISE
from gpunn.ops.call import Call, broadcast
from gpunn.ops.check import FLOATS, SMALL, expect_dtype
from gpunn.ops.elementwise import gradients
from gpunn.ops.elementwise.binary_integer import INTEGER, sum_weights
from gpunn.ops.elementwise.binary_kernel import pairwise
from gpunn.ops.elementwise.combine import Combine
from gpunn.ops.elementwise.lines import lines
from gpunn.ops.elementwise.unary import activation_function, apply_activation
from gpunn.ops.expansion import Expand
from gpunn.ops.fixed_point.affine import through_reals
from gpunn.ops.fixed_point.pair_tables import Pairwise, by_pairs, pair_table
from gpunn.ops.memory import LEAST_BYTES, empty
from gpunn.ops.op import Op, Prepare, Quantized, op
from gpunn.types import Array, DType, TensorType

FEW = 64  # channels, too few for a loop of numpy's
MANY = 8  # rows of an image, for which it pays to write one of them


class Binary(NamedTuple):
    """One line: name, meaning, expression in a and b, dtypes, and whether an activation may be fused.

    `integers`: the expression for integers, where it is another, `int64` that for int64, if it is not
    `integers` behind i64_, `uint8` that for uint8, `complex64` that for complex numbers. `reals`: what
    computes the same of float32 in numpy, into memory that is there, where the meaning is that. `compares`:
    the result is bool. `libraries`: what the expressions call (for int64 int64_division stands for division).
    `signs`: see Pointwise; `affine`, `clamp`: see Algebra; `accuracy`, `expand`: see Op.
    """

    name: str
    meaning: Callable[..., Any]
    expression: str
    dtypes: tuple[DType, ...]
    fusible: bool = False
    integers: str = ""
    int64: str = ""
    uint8: str = ""
    complex64: str = ""
    reals: np.ufunc | None = None
    compares: bool = False
    libraries: tuple[str, ...] = ()
    signs: tuple[int, ...] = ()
    affine: Affine | None = None
    clamp: Callable[[float | None], Clamp | None] | None = None
    accuracy: Accuracy = PROMISE
    expand: Expand | None = None

    def expression_for(self, dtype: DType) -> str:
        """Return the expression for operands of a dtype."""
        if dtype in FLOATS:
            return self.expression
        int64 = self.int64 or (self.integers and f"i64_{self.integers}")
        own = {DType.INT64: int64, DType.UINT8: self.uint8, DType.COMPLEX64: self.complex64}
        return own.get(dtype) or self.integers or self.expression

    def libraries_for(self, dtype: DType) -> tuple[str, ...]:
        """Return the libraries that the expression for operands of a dtype calls."""
        if "(" not in self.expression_for(dtype):  # a / b calls nothing
            return ()
        return ("int64_division",) if dtype is DType.INT64 and self.libraries else self.libraries


def _infer(line: Binary) -> Callable[[Call], TensorType]:
    def infer(call: Call) -> TensorType:
        types = [expect_dtype(call, index, *line.dtypes) for index in range(2)]
        if len({t.quantization is None for t in types}) > 1:
            call.fail(f"both inputs must be quantised or neither, got {types[0]} and {types[1]}")
        result = broadcast(call)
        if line.name == "prelu" and result.shape != call.x.shape:
            call.fail(f"alpha must broadcast to {list(call.x.shape)}, got {list(call.input(1).shape)}")
        return replace(result, dtype=DType.BOOL, quantization=None) if line.compares else result

    return infer


def _kernel(line: Binary) -> Callable[[Call], Kernel]:
    def kernel(call: Call) -> Kernel:
        expression, activation = line.expression_for(call.x.dtype), activation_function(call)
        if activation and call.x.dtype in SMALL:
            expression = _wrapped(expression, call.x.dtype)
        functions = {"combine": Function(("a", "b"), expression, ("a", "b")), **activation}
        signs = line.signs if call.x.dtype in FLOATS else ()
        return pairwise(call, Combine(functions, libraries=line.libraries_for(call.x.dtype), signs=signs))

    return kernel


def _wrapped(expression: str, dtype: DType) -> str:
    """Write what a small integer of a dtype is left of a number of 32 bits."""
    bits = f"0u, {8 * dtype.itemsize}u"
    if dtype is DType.UINT8:
        return f"i32(extractBits(u32({expression}), {bits}))"
    return f"extractBits({expression}, {bits})"


def _facet(line: Binary) -> Quantized | None:
    if line.name in INTEGER:
        exact, combine, dtypes = INTEGER[line.name]
        return Quantized(
            lambda call, a, b: exact(call)(a, b),
            lambda call: pairwise(call, combine(call)),
            dtypes=dtypes,
            prepare=by_pairs(exact, sum_weights, lines),
        )
    return _by_pairs(line) if DType.FLOAT32 in line.dtypes else None


def _by_pairs(line: Binary) -> Quantized:
    """Make the facet of an op without integer arithmetic: through real numbers; for 8 bits a table of all
    pairs.
    """

    def meaning(a: Array, b: Array, *, activation: str | None = None) -> Array:
        return apply_activation(line.meaning(a, b), activation)

    def reference(call: Call, a: Array, b: Array) -> Array:
        return through_reals(call, meaning, a, b)

    def exact(call: Call) -> Pairwise:
        return partial(reference, call)

    def kernel(call: Call) -> Kernel:
        pair = "load_table(((u32(a) & 255u) << 8u) | (u32(b) & 255u))"
        table = Read("table", None, value=pair_table(call, exact(call)))
        return pairwise(call, Combine({"combine": Function(("a", "b"), pair)}, tables=(table,)))

    return Quantized(reference, kernel, prepare=by_pairs(exact))


def _by_rows(meaning: Callable[..., Any]) -> Callable[..., Any]:
    """Return a meaning that computes images with a number for each of few channels row by row.

    numpy works along the last axis, which is short there. A row has the numbers once for each pixel.
    """

    @wraps(meaning)
    def computed(a: Array, b: Array) -> Any:
        if _is_short(b, a):
            return meaning(_rows(a), np.tile(b.reshape(-1), a.shape[-2])).reshape(a.shape)
        if _is_short(a, b):
            return meaning(np.tile(a.reshape(-1), b.shape[-2]), _rows(b)).reshape(b.shape)
        return meaning(a, b)

    return computed


def _is_short(numbers: Array, image: Array) -> bool:
    """Tell whether one side is a number for each channel of the other one, which has few and many pixels."""
    channels = numbers.size
    return (
        1 < channels < FEW
        and 2 <= image.ndim >= numbers.ndim
        and numbers.shape[-1] == channels == image.shape[-1]
        and image.size >= MANY * channels * image.shape[-2]
    )


def _rows(image: Array) -> Array:
    return image.reshape(*image.shape[:-2], -1)


def _prepare(line: Binary) -> Prepare:
    reals, by_rows = line.reals, _by_rows(line.meaning)

    def prepare(call: Call) -> Callable[..., Any]:
        shape, dtype = call.y.shape, call.y.dtype.numpy
        if call.y.nbytes < LEAST_BYTES:
            return line.meaning if reals is None or dtype != np.float32 else reals
        if reals is None or dtype != np.float32 or not call.x.shape == call.input(1).shape == shape:
            return by_rows
        return lambda a, b: reals(a, b, out=empty(shape, dtype))

    return prepare


def declare(line: Binary) -> Op:
    """Make the op of a line."""
    return op(
        _infer(line),
        _kernel(line),
        name=line.name,
        dtypes=line.dtypes,
        fusible=line.fusible,
        quantized=_facet(line),
        strings=DType.STRING in line.dtypes,
        algebra=Algebra(affine=line.affine, axes=PAIRWISE, clamp=line.clamp),
        accuracy=line.accuracy,
        prepare=_prepare(line),
        gradient=gradients.binary(line.name),
        expand=line.expand,
    )(_by_rows(line.meaning))
