"""Types, values and parameters for tests of quantised tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpunn.ops.fixed_point.affine import LIMITS, dequantize
from gpunn.types import Array, DType, Quantization, TensorType

DTYPES = (DType.UINT8, DType.INT8)
SEEDS = range(6)
both = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
WIDTHS = *DTYPES, DType.INT16
every_width = pytest.mark.parametrize("dtype", WIDTHS, ids=lambda d: d.value)
seeds = pytest.mark.parametrize("seed", SEEDS)


def quantized(dtype: DType, shape: Sequence[int], scale: float, zero_point: int = 0) -> TensorType:
    """Return a tensor type with one scale and zero point; the scale is rounded to float32, as in files."""
    return TensorType(dtype, tuple(shape), Quantization((float(np.float32(scale)),), (zero_point,)))


def stored(seed: int, type: TensorType, low: int | None = None, high: int | None = None) -> Array:
    """Return random stored integers, of the type's whole range or between low and high, ends included."""
    first, last = LIMITS[type.dtype]
    values = np.random.default_rng(seed).integers(
        first if low is None else low, last if high is None else high, type.shape, endpoint=True
    )
    return values.astype(type.dtype.numpy)


class Draw:
    """Random types and values of one dtype."""

    def __init__(self, seed: int, dtype: DType) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype

    def type(self, *shape: int, low: float = 0.005, high: float = 0.2) -> TensorType:
        """Return a type with a random scale and zero point; int16 has zero point 0, as in TFLite's files."""
        int16 = self.dtype is DType.INT16
        zero = 0 if int16 else int(self.rng.integers(*LIMITS[self.dtype], endpoint=True))
        return quantized(self.dtype, shape, float(self.rng.uniform(low, high)), zero)

    def values(self, type: TensorType) -> Array:
        """Return random stored values of the whole range."""
        return stored(int(self.rng.integers(2**31)), type)


def every(type: TensorType) -> Array:
    """All stored values."""
    return np.arange(LIMITS[type.dtype][0], LIMITS[type.dtype][1] + 1).astype(type.dtype.numpy)


def near(got: Array, real: Array, type: TensorType, steps: float = 1.0) -> None:
    """Assert that stored values lie within `steps` of real numbers, clamped to the type's range."""
    quantization = type.quantization
    assert quantization is not None
    exact = np.clip(real / quantization.scale[0] + quantization.zero_point[0], *LIMITS[type.dtype])
    assert np.abs(got.astype(np.float64) - exact).max(initial=0) <= steps


def reals(values: Array, type: TensorType) -> Array:
    """Return the real numbers of stored values, in float64."""
    return dequantize(values, type).astype(np.float64)
