"""Integer arithmetic of softmax."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import DType, Quantization
from tests.ops.integer_checks import check_integer, computed, litert_integer
from tests.ops.quantized import both, near, quantized, reals, stored

SOFTMAX = [(0.1, 1.0), (0.02, 1.0), (0.3, 0.5), (0.004, 1.0), (1.0, 2.0)]


@both
@pytest.mark.parametrize(("scale", "beta"), SOFTMAX)
def test_softmax(scale: float, beta: float, dtype: DType, backend: str) -> None:
    for shape, axis in (
        ((7, 1), -1),
        ((9, 10), -1),
        ((1, 10), -1),
        ((9, 1, 1), 0),
        ((3, 300), -1),
        ((2, 2000, 21), -1),  # on the host some rows at a time
        ((2, 5, 6, 3), 1),
        ((2, 70, 5), 1),
    ):
        x = quantized(dtype, shape, scale, 3)
        values = stored(1, x)
        attrs = {"axis": axis, "beta": beta}
        (got,) = check_integer("softmax", [values], [x], attrs, backend=backend)
        weights = np.exp(beta * (reals(values, x) - reals(values, x).max(axis, keepdims=True)))
        y = quantized(dtype, shape, 1 / 256, LIMITS[dtype][0])
        near(got, weights / weights.sum(axis, keepdims=True), y, 0.51)


@both
@pytest.mark.parametrize(("scale", "beta"), SOFTMAX)
def test_softmax_as_litert(scale: float, beta: float, dtype: DType) -> None:
    for rows, length in (
        (20, 1),
        (20, 2),
        (20, 10),
        (20, 100),
        (20, 400),
        (1, 1),
        (1, 20),
        (1, 21),
        (1, 300),
        (2, 300),
    ):
        x = quantized(dtype, (rows, length), scale, 3)
        y = quantized(dtype, (rows, length), 1 / 256, LIMITS[dtype][0])
        values = stored(length, x)
        (expected,) = litert_integer("SOFTMAX", [values], [x], [y], {"beta": beta}, version=2)
        np.testing.assert_array_equal(computed("softmax", [values], [x], {"beta": beta}), expected)


def test_softmax_of_many_equal_elements(backend: str) -> None:
    x = quantized(DType.UINT8, (1, 4000), 0.1)
    (got,) = check_integer("softmax", [np.full((1, 4000), 7, np.uint8)], [x], backend=backend)
    assert not got.any()


def test_softmax_without_integer_arithmetic(backend: str) -> None:
    x = quantized(DType.UINT8, (2, 5), 0.1)
    other = Quantization((0.01,), (5,))
    check_integer(
        "softmax", [stored(0, x)], [x], {}, other, backend=backend, host="another output quantisation"
    )
