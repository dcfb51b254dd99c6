"""Fixed-point arithmetic against exact integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    dequantize,
    divide_by_power,
    high_multiply,
    inverse_root,
    quantize,
    quantize_multiplier,
    quantize_multipliers,
    rescale,
    rescale_int64,
    rescale_upwards,
    rescale_whole,
    wrap32,
)
from gpunn.types import DType, Quantization, TensorType

EDGES = [0, 1, -1, 2, -2, 3, -3, 2**30, -(2**30), 2**31 - 1, -(2**31), 2**31 - 2, 12345, -12345, 715827883]


def nearest(value: Fraction, negative_half_up: bool) -> int:
    """To the nearest integer; halves away from zero, or for negative values upwards."""
    doubled = abs(value) * 2
    magnitude = (doubled.numerator // doubled.denominator + 1) // 2
    if value < 0 and negative_half_up and doubled.denominator == 1 and doubled.numerator % 2:
        magnitude -= 1
    return magnitude if value >= 0 else -magnitude


def test_high_multiply_is_the_rounded_product() -> None:
    for a in EDGES:
        for b in [*range(2**30, 2**31 - 1, 97_654_321), 2**30, 2**31 - 1, 0]:
            got = int(high_multiply(np.array([a], np.int64), b)[0])
            assert got == nearest(Fraction(a * b, 2**31), negative_half_up=True), (a, b)


@pytest.mark.parametrize("away", [True, False])
def test_divide_by_power_rounds_halves_away_from_zero_or_upwards(away: bool) -> None:
    for x in [*EDGES, *range(-40, 41)]:
        for exponent in (0, 1, 2, 5, 31):
            got = int(divide_by_power(np.array([x], np.int64), exponent, away)[0])
            assert got == nearest(Fraction(x, 2**exponent), negative_half_up=not away), (x, exponent)


def test_each_channel_may_round_its_own_way() -> None:
    x, away = np.full((2, 3), -6, np.int64), np.array([True, False, True])
    assert divide_by_power(x, 2, away).tolist() == [[-2, -1, -2]] * 2
    assert rescale(x, 2**30, -1, away).tolist() == [[-2, -1, -2]] * 2


@pytest.mark.parametrize("factor", [1.0, 0.5, 0.25, 0.999999, 1e-3, 3.7, 1000.0, 2.0**-31, 1 - 2.0**-53])
def test_a_multiplier_is_within_half_a_step_of_its_factor(factor: float) -> None:
    m, shift = quantize_multiplier(factor)
    assert 2**30 <= m < 2**31
    assert abs(Fraction(m) * Fraction(2) ** (shift - 31) - Fraction(factor)) <= Fraction(2) ** (shift - 32)


@pytest.mark.parametrize("factor", [0.0, 2.0**-34, 2.0**-32 * (1 - 2.0**-31), -1.0, np.nan])
def test_factors_that_no_multiplier_has_are_zero(factor: float) -> None:
    assert quantize_multiplier(factor) == (0, 0)


@pytest.mark.parametrize("factor", [2.0**30, 2.0**30 * (1 - 2.0**-32), 2.0**40, np.inf])
def test_a_large_factor_has_the_largest_multiplier_that_32_bits_can_be_shifted_by(factor: float) -> None:
    assert quantize_multiplier(factor) == (2**31 - 1, 30)


def test_each_of_many_factors_has_its_multiplier() -> None:
    m, shift = quantize_multipliers(np.array([[0.75, 2.0**-40], [2.0**35, 1 - 2.0**-40]]))
    assert m.tolist() == [[3 * 2**29, 0], [2**31 - 1, 2**30]]
    assert shift.tolist() == [[0, 0], [30, 1]]
    assert m.dtype == shift.dtype == np.int64


def test_inverse_roots() -> None:
    """Of numbers down to 1/4: 5 steps of Newton's method from 1 leave 1.2e-6, each rounded in 2^-28."""
    x = np.unique(
        [*range(1, 70), *(2**k + d for k in range(7, 53) for d in (-1, 0, 1, 2**k // 3)), 2**53 - 1]
    )
    m, shift = inverse_root(x)
    assert (m > 0).all() and m.max() < 2**31 and shift.max() == 0
    np.testing.assert_allclose(m / 2.0**31 * 2.0**shift, x**-0.5, rtol=2e-6)


def test_rescale_is_within_one_of_the_real_product() -> None:
    rng = np.random.default_rng(0)
    for factor in (0.0005, 0.3, 0.9999, 1.7):
        x = rng.integers(-(2**27), 2**27, 1000)
        got = rescale(x, *quantize_multiplier(factor))
        assert np.abs(got - x * factor).max() <= 1


def test_wrap32() -> None:
    assert wrap32(np.array([2**31, -(2**31) - 1, 5], np.int64)).tolist() == [-(2**31), 2**31 - 1, 5]


def test_quantize_rounds_clamps_and_undoes_dequantize() -> None:
    kind = TensorType(DType.UINT8, (5,), Quantization((0.5,), (10,)))
    assert quantize(np.array([0.25, -0.25, 1e9, -1e9, np.nan]), kind).tolist() == [11, 9, 255, 0, 10]
    every = TensorType(DType.INT8, (256,), Quantization((0.125,), (-3,)))
    stored = np.arange(-128, 128).astype(np.int8)
    assert np.array_equal(quantize(dequantize(stored, every), every), stored)


@pytest.mark.parametrize("scales", [(-1.0,), (math.nan,), (math.inf,), (1.0, -1.0)], ids=str)
def test_scales_of_no_tensor(scales: tuple[float, ...]) -> None:
    kind = TensorType(DType.INT8, (2,), Quantization(scales, (0,)))
    for convert in (quantize, dequantize):
        with pytest.raises(ModelError, match="do not quantise int8"):
            convert(np.int8([1, 2]), kind)


@pytest.mark.parametrize(
    ("dtype", "scale", "zero"), [(DType.INT8, 0.0, 0), (DType.UINT8, 1.0, -1), (DType.FLOAT32, 1.0, 0)]
)
def test_reals_that_cannot_be_quantised(dtype: DType, scale: float, zero: int) -> None:
    with pytest.raises(ModelError, match="do not quantise"):
        quantize(np.float32([1, 2]), TensorType(dtype, (2,), Quantization((scale,), (zero,))))


def test_stored_integers_broadcast_to_the_type() -> None:
    one = TensorType(DType.INT8, (3, 2), Quantization((0.5,), (3,)))
    assert dequantize(np.int8([5]), one).tolist() == [[1]]
    two = TensorType(DType.INT8, (3, 2), Quantization((0.5, 0.25), (3,), 1))
    assert dequantize(np.int8([5]), two).tolist() == [[1, 0.5]]


def test_scales_along_an_axis() -> None:
    kind = TensorType(DType.INT8, (2, 3), Quantization((0.5, 2.0), (0, 0), 0))
    assert dequantize(np.full((2, 3), 4, np.int8), kind).tolist() == [[2, 2, 2], [8, 8, 8]]


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8, DType.INT16])
@pytest.mark.parametrize("seed", range(4))
def test_real_numbers_are_exact_products_rounded_once(dtype: DType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = LIMITS[dtype]
    scale = float(rng.lognormal(0, 20)) if seed % 2 else float(np.float32(rng.lognormal(0, 20)))
    zero = int(rng.integers(low, high + 1))
    stored = np.unique(rng.integers(low, high + 1, 500)).astype(dtype.numpy)
    with np.errstate(over="ignore", under="ignore"):
        exact = [np.float32(float(int(v) - zero) * scale) for v in stored]
        reals = dequantize(stored, TensorType(dtype, stored.shape, Quantization((scale,), (zero,))))
    assert reals.dtype == np.float32
    np.testing.assert_array_equal(reals.view(np.uint32), np.array(exact).view(np.uint32))


def test_rescaling_of_64_bit_sums_by_hand() -> None:
    """The factor is 3/4, in 15 bits 24576 / 2^15: 5 * 3/4 is 3.75, 2 * 3/4 * 2 is 3; halves go upwards."""
    m = 3 << 29
    x = np.array([5, -5, 2, -2, 2**40])
    assert rescale_int64(x, m, 0).tolist() == [4, -4, 2, -1, 3 * 2**38]
    assert rescale_int64(x, m, 1).tolist() == [8, -7, 3, -3, 3 * 2**39]
    assert rescale_int64(np.array([2**20]), 2**31 - 1, -20).tolist() == [1]


def test_whole_factors_of_64_bit_sums() -> None:
    """Compare with Python's integers, of any length; halves go upwards."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 47, 2000)
    x = rng.integers(-(2**47) + 1, 2**47, 2000) >> sizes
    for factor in (2**-31, 3e-6, 0.4, 0.75, 1.5, 2.0**20):
        m, shift = quantize_multiplier(factor)
        down = 31 - shift
        once = [(int(v) * m + (1 << (down - 1))) >> down for v in x]
        right = max(-shift, 0)
        first = [(int(v) * m + (1 << (30 - max(shift, 0)))) >> (31 - max(shift, 0)) for v in x]
        twice = [(v + ((1 << right) >> 1)) >> right for v in first]
        small = np.abs(np.array(once, np.float64)) < 2**31  # of larger results only the size matters
        for found, wanted in ((rescale_whole, once), (rescale_upwards, twice)):
            np.testing.assert_array_equal(found(x, m, shift)[small], np.array(wanted, object)[small])
            assert (np.abs(found(x, m, shift)[~small]) >= 2**31 - 1).all()


@pytest.mark.parametrize("convert", [quantize, dequantize])
def test_what_is_no_quantised_tensor_is_refused(convert: Callable[[Any, Any], Any]) -> None:
    one = TensorType(DType.INT8, (2, 3), Quantization((0.5,), (1,)))
    along = TensorType(DType.INT8, (2, 3), Quantization((0.5, 2.0), (0, 0), 0))
    for values, type, words in (
        (np.zeros(3, np.int8), None, "the type must be a gpunn.TensorType, got None"),
        ("abc", one, "made of numbers, got <U3"),
        ([[1], [1, 2]], one, "cannot be made of"),
        (None, one, "made of numbers, got object"),
        (np.zeros((3, 2), np.int8), replace(along, shape=(3, 3)), r"\[3, 2\] does not fit int8\[3, 3\]"),
        (np.zeros(3, np.int8), replace(along, shape=()), "does not fit int8"),
    ):
        with pytest.raises(ModelError, match=words):
            convert(values, type)
    np.testing.assert_array_equal(
        convert([[2, 4, 6]], one), {quantize: [[5, 9, 13]], dequantize: [[0.5, 1.5, 2.5]]}[convert]
    )
