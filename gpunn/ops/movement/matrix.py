"""Diagonals of matrices: matrix_diag, matrix_set_diag.

dtype: any, elements move as stored; the result has the first input's type, quantisation included.
"""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Kernel, Read
from gpunn.ops.call import Call
from gpunn.ops.kernels.copies import filled, strided_copy, whole_copy
from gpunn.ops.movement import gradients
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType


def _diagonal(y: TensorType, operand: int) -> Kernel:
    """Make the kernel that puts rows of input `operand` on the diagonals of y's matrices."""
    rows, columns = y.shape[-2:]
    count = min(rows, columns)
    batch = y.size // max(rows * columns, 1)
    return strided_copy(
        Read("x", operand),
        (batch, count),
        (count, 1),
        (rows * columns, columns + 1),
        reason="each diagonal to its places",
    )


def _infer_diag(call: Call) -> TensorType:
    if call.x.rank < 1:
        call.fail("needs a rank of 1 or more, got a scalar")
    return call.x.with_shape((*call.x.shape, call.x.shape[-1]))


def _diag_kernels(call: Call) -> list[Kernel]:
    zeros = filled(call.y, 0, "zeros everywhere, before the diagonals are put in")
    return [zeros, _diagonal(call.y, 0)]


@op(_infer_diag, _diag_kernels, raw=True, gradient=gradients.MATRIX_DIAG)
def matrix_diag(diagonal: Array) -> Array:
    """Make matrices with rows of `diagonal` [..., N] on their diagonals and stored zeros elsewhere: [..., N,
    N].

    Raises ModelError for a scalar. TFLite schema, MatrixDiagOptions.
    """
    return _with_diagonal(np.zeros((*diagonal.shape, diagonal.shape[-1]), diagonal.dtype), diagonal)


def _infer_set_diag(call: Call) -> TensorType:
    x, diagonal = call.x, call.input(1)
    if x.rank < 2:
        call.fail(f"needs matrices, got {x}")
    expected = (*x.shape[:-2], min(x.shape[-2:]))
    same = (diagonal.dtype, diagonal.quantization) == (x.dtype, x.quantization)
    if diagonal.shape != expected or not same:
        call.fail(f"the diagonal should have shape {list(expected)} and the type of {x}, got {diagonal}")
    return x


def _set_diag_kernels(call: Call) -> list[Kernel]:
    return [
        whole_copy(call.x, "the matrices, before the diagonals are put in"),
        _diagonal(call.y, 1),
    ]


@op(_infer_set_diag, _set_diag_kernels, raw=True, gradient=gradients.MATRIX_SET_DIAG)
def matrix_set_diag(x: Array, diagonal: Array) -> Array:
    """Replace the diagonals of matrices x [..., M, N] by the rows of `diagonal` [..., min(M, N)].

    Raises ModelError for other shapes, and unless both have one dtype and quantisation. TFLite schema,
    MatrixSetDiagOptions.
    """
    return _with_diagonal(x.copy(), diagonal)


def _with_diagonal(matrices: Array, diagonal: Array) -> Array:
    """Set the diagonals of matrices in place and return the matrices."""
    places = np.arange(diagonal.shape[-1])
    matrices[..., places, places] = diagonal
    return matrices


OPS: tuple[Op, ...] = (matrix_diag, matrix_set_diag)
