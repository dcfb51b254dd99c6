"""Parts and absolute values of complex numbers: real, imag, complex_abs.

x: complex64 of any shape; the result is float32 of the same shape. Raises ModelError for other dtypes.
"""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Kernel
from gpunn.ops.accuracy import BASIC, Accuracy
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ELEMENTWISE
from gpunn.ops.call import Call
from gpunn.ops.check import expect_dtype
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType

_ALIKE = Algebra(axes=ELEMENTWISE)


def _infer(call: Call) -> TensorType:
    return TensorType(DType.FLOAT32, expect_dtype(call, 0, DType.COMPLEX64).shape)


def _real_kernel(call: Call) -> Kernel:
    return elementwise(call, "x.x")


def _imag_kernel(call: Call) -> Kernel:
    return elementwise(call, "x.y")


def _abs_kernel(call: Call) -> Kernel:
    return elementwise(call, "c64_abs(x)", libraries=("modulus",))


@op(_infer, _real_kernel, dtypes=(DType.COMPLEX64,), precise=True, algebra=_ALIKE, accuracy=BASIC)
def real(x: Array) -> Array:
    """Return the real parts, to the bit. TFLite schema, REAL."""
    return np.asarray(x.real)


@op(_infer, _imag_kernel, dtypes=(DType.COMPLEX64,), precise=True, algebra=_ALIKE, accuracy=BASIC)
def imag(x: Array) -> Array:
    """Return the imaginary parts, to the bit. TFLite schema, IMAG."""
    return np.asarray(x.imag)


def _squares(call: Call) -> int:
    return 1


@op(
    _infer,
    _abs_kernel,
    dtypes=(DType.COMPLEX64,),
    precise=True,
    algebra=_ALIKE,
    accuracy=Accuracy(roundings=_squares, arithmetic=True),
)
def complex_abs(x: Array) -> Array:
    """Compute sqrt(real^2 + imag^2), without overflow of the squares.

    Infinite if either part is infinite, else NaN if either part is NaN. Accuracy: the general promise for the
    square root, and one rounding for the sum below it. TFLite schema, COMPLEX_ABS.
    """
    return np.asarray(np.abs(x))


OPS: tuple[Op, ...] = (real, imag, complex_abs)
