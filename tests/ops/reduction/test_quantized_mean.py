"""Integer arithmetic of means."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import DType, TensorType
from tests.ops.integer_checks import check_integer, computed, litert_integer
from tests.ops.quantized import SEEDS, Draw, both, every_width, near, quantized, reals

MEANS = [
    ((2, 7, 7, 8), (1, 2), True),
    ((2, 4, 8, 40), (2, 1), True),  # the factor may be a power of two, so that many means are halves
    ((2, 7, 7, 9), (1, 2), False),
    ((5, 130), (1,), False),
    ((3, 4, 6, 10), (2,), True),
    ((3, 4, 6, 10), (0, 3), False),
    ((3, 4), (), False),
    ((3, 4), (0, 1), False),
]


@every_width
@pytest.mark.parametrize(("shape", "axes", "keep_dims"), MEANS)
def test_mean(
    shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool, dtype: DType, backend: str
) -> None:
    for seed in SEEDS:
        draw = Draw(seed, dtype)
        x = draw.type(*shape)
        values = draw.values(x)
        real = reals(values, x).mean(axes, keepdims=keep_dims)
        y = x.with_shape(real.shape) if seed == 0 else draw.type(*real.shape, low=0.01)
        attrs = {"axes": axes, "keep_dims": keep_dims}
        (got,) = check_integer("mean", [values], [x], attrs, y.quantization, backend=backend)
        near(got, real, y, 1.01)


@both
@pytest.mark.parametrize(("shape", "axes", "keep_dims"), MEANS)
def test_mean_as_litert(shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool, dtype: DType) -> None:
    """Compared with LiteRT's default kernels; with its reference kernels except for means of H and W."""
    over_image = len(shape) == 4 and set(axes) == {1, 2} and keep_dims
    for seed in SEEDS:
        draw = Draw(seed, dtype)
        x = draw.type(*shape)
        values = draw.values(x)
        attrs = {"axes": axes, "keep_dims": keep_dims}
        kept = values.mean(axes, keepdims=keep_dims).shape
        y = x.with_shape(kept) if seed == 0 else draw.type(*kept, low=0.01)
        result = computed("mean", [values], [x], attrs, y.quantization)
        for reference in (False,) if over_image else (False, True):
            (expected,) = litert_integer(
                "MEAN",
                [values, np.array(axes, np.int32)],
                [x, TensorType(DType.INT32, (len(axes),))],
                [y],
                {"keep_dims": keep_dims},
                constants=(1,),
                version=2,
                reference=reference,
            )
            np.testing.assert_array_equal(result, expected)


def test_the_mean_of_no_elements_goes_through_reals(backend: str) -> None:
    x = quantized(DType.UINT8, (2, 0), 0.1, 7)
    values = np.zeros((2, 0), np.uint8)
    (got,) = check_integer("mean", [values], [x], {"axes": (1,)}, backend=backend, host="no elements")
    assert got.tolist() == [7, 7]


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("rows", [1000, 1100])  # sums just below 2^24, and beyond it
def test_means_of_extremes(dtype: DType, rows: int) -> None:
    low, high = LIMITS[dtype]
    x = quantized(dtype, (1, rows, 65 if dtype is DType.UINT8 else 130, 3), 0.1)
    for value in (low, high):
        values = np.full(x.shape, value, dtype.numpy)
        assert (computed("mean", [values], [x], {"axes": (1, 2), "keep_dims": True}) == value).all()
