"""Fourier transforms of real numbers: rfft2d."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpunn.kernel import Kernel, Scratch, Unsupported, fits_i32
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_ints, expect_unquantised
from gpunn.ops.op import Op, op
from gpunn.ops.signal.fourier import real_transform, transform
from gpunn.ops.signal.fourier_kernel import Rows, along
from gpunn.types import Array, DType, TensorType, bounded


def _infer(call: Call) -> TensorType:
    x = expect_unquantised(call, 0, *FLOATS)
    if x.rank < 2:
        call.fail(f"takes rows and columns, got {x}")
    height, width = expect_ints(call, "length", 2)
    if min(height, width) < 1:
        call.fail(f"length must be two numbers of at least 1, got {[height, width]}")
    found = TensorType(DType.COMPLEX64, (*x.shape[:-2], height, width // 2 + 1))
    return bounded("spectrum", found)


def _kernels(call: Call) -> list[Kernel]:
    """Make the kernels of the rows within the height and, if the height is above 1, those of the columns."""
    (height, width), (rows, columns) = call["length"], call.x.shape[-2:]
    batch, used, kept = math.prod(call.x.shape[:-2]), min(rows, height), width // 2 + 1
    wide, high = real_transform(width), transform(height)
    if not used or not columns:
        raise Unsupported("there is nothing to transform")
    if not fits_i32(call.x.size, batch * used * wide.longest, batch * kept * high.longest):
        raise Unsupported("more elements than the shaders can count")
    across = Rows(batch * used, min(columns, width), columns, 1, kept, used, rows, real=True)
    if height == 1:
        return [*along(across, wide, 0, 0)]
    spectra = Scratch(TensorType(DType.COMPLEX64, (batch, used, kept)))
    down = Rows(batch * kept, used, used, kept, height)
    return [*along(across, wide, 0, spectra), *along(down, high, spectra, 0)]


def _error(evaluation: Evaluation) -> Array:
    """Bound the errors of each spectrum by its input (fourier.py)."""
    height, width = evaluation.call["length"]
    ways = (real_transform(width), *([transform(height)] if height > 1 else []))
    x = np.abs(evaluation.input(0)[..., :height, :width])
    if any(way.chirp for way in ways):
        size = np.sqrt(height * width * (x * x).sum(axis=(-2, -1)))
        return np.asarray(sum(way.mean_growth for way in ways) * EPS * size)[..., None, None]
    return np.asarray(sum(way.growth for way in ways) * EPS * x.sum(axis=(-2, -1)))[..., None, None]


def _flops(call: Call) -> int:
    """Count 5 n log2(n) for a complex transform of length n, half of that for a real one."""
    height, width = call["length"]
    kept, batch = width // 2 + 1, math.prod(call.x.shape[:-2])
    rows = 2.5 * width * math.log2(width) * min(height, call.x.shape[-2])
    return int(batch * (rows + 5 * height * math.log2(height) * kept))


@op(_infer, _kernels, precise=True, accuracy=Accuracy(formula=_error, arithmetic=True), flops=_flops)
def rfft2d(x: Array, *, length: Sequence[int]) -> Array:
    """Compute the discrete Fourier transform of rows and columns, as far as it does not repeat itself.

    x: float32 or float16, [..., rows, columns]. length: (height, width), each at least 1; x is cut to it, or
    filled up with zeros behind. The result is complex64, [..., height, width // 2 + 1]; element (k, l) is the
    sum over all (i, j) of x[i, j] exp(-2 pi i (k i / height + l j / width)). If x has an infinity or NaN,
    elements of that spectrum may be NaN, too. Raises ModelError for another dtype, less than two dimensions,
    and a length below 1. Accuracy: fourier.py. TFLite schema, RFFT2D.
    """
    height, width = length
    found = np.fft.rfft2(x.astype(np.float64), s=(height, width)) if x.size else _nothing(x, height, width)
    return found.astype(np.complex128 if x.dtype == np.float64 else np.complex64)


def _nothing(x: Array, height: int, width: int) -> Array:
    return np.zeros((*x.shape[:-2], height, width // 2 + 1), np.complex128)


OPS: tuple[Op, ...] = (rfft2d,)
