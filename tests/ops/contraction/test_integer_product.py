"""Sums of products become stored integers in few steps, and what follows from constants is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops.contraction import blocks, integer_product
from gpunn.ops.contraction.conversion import Conversion, IntegerSteps, Line, RealSteps
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.requantization import ManySteps
from gpunn.ops.contraction.single_precision import ProvenSteps, SingleSteps
from gpunn.ops.fixed_point.affine import LIMITS, quantize_multiplier, rescale, wrap32
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.quantized import quantized, stored

CHANNELS = 19
EDGES = np.array([0, 1, -1, 2, -2, 2**30, -(2**30), 2**31 - 2**20, -(2**31) + 2**20], np.int64)


def how(factors: list[float], upwards: int) -> Rescaling:
    pairs = np.array([quantize_multiplier(f) for f in factors], np.int64).T
    return Rescaling(0, 0, 7, pairs[0], pairs[1], upwards, (-100, 120))


def converted(conversion: Conversion, sums: Array, dtype: DType) -> Array:
    result: Array = np.empty(sums.shape, dtype.numpy)
    conversion.write(sums.astype(np.float64), result)
    return result


@pytest.mark.parametrize("upwards", [0, 8, CHANNELS])
@pytest.mark.parametrize("kind", ["one", "several", "halves", "large", "none"])
def test_few_steps_round_like_many(kind: str, upwards: int) -> None:
    rng = np.random.default_rng(upwards)
    factors = {
        "one": [0.0123] * CHANNELS,
        "several": [float(f) for f in 2.0 ** -rng.uniform(0.01, 32, CHANNELS)],
        "halves": [2.0**-k for k in range(1, CHANNELS + 1)],
        "large": [0.999999] * CHANNELS,
        "none": [0.0, 1e-12] * (CHANNELS // 2) + [0.5],
    }[kind]
    made = how(factors, upwards)
    bias = rng.integers(-(2**20), 2**20, CHANNELS)
    spread = 2.0 ** rng.uniform(1, 30, (400, 1))
    sums = np.concatenate(
        [
            np.broadcast_to(EDGES[:, None], (len(EDGES), CHANNELS)),
            np.arange(-300, 300)[:, None] - bias,  # so that halves occur
            (rng.uniform(-1, 1, (400, CHANNELS)) * spread).astype(np.int64),
        ]
    )
    away = np.arange(CHANNELS) >= upwards
    expected = np.clip(rescale(sums + bias, made.multiplier, made.shift, away) + 7, -100, 120)
    call: Any = type("Call", (), {"y": quantized(DType.INT8, (1, CHANNELS), 0.5, 7)})
    real = RealSteps.of(call, made, bias)
    for repeated in (1, 3):  # one block of sums, and several
        for conversion in (real, IntegerSteps.of(call, made, bias)):
            if conversion is not None:
                found = converted(conversion, np.tile(sums, (repeated, 1)), DType.INT8)
                np.testing.assert_array_equal(found, np.tile(expected, (repeated, 1)))


@pytest.mark.parametrize("upwards", [0, 8, CHANNELS])
def test_factors_above_one_move_sums_to_the_left(upwards: int) -> None:
    rng = np.random.default_rng(upwards)
    made = how([float(f) for f in 2.0 ** rng.uniform(-4, 9, CHANNELS)], upwards)
    assert (made.shift > 0).any() and (made.shift < 0).any()
    bias = rng.integers(-(2**12), 2**12, CHANNELS)
    wide = (rng.uniform(-1, 1, (400, CHANNELS)) * 2.0 ** rng.uniform(1, 19, (400, 1))).astype(np.int64)
    sums = np.concatenate([np.arange(-300, 300)[:, None] - bias, wide])
    away = np.arange(CHANNELS) >= upwards
    expected = np.clip(rescale(sums + bias, made.multiplier, made.shift, away) + 7, -100, 120)
    call: Any = type("Call", (), {"y": quantized(DType.INT8, (1, CHANNELS), 0.5, 7)})
    real, whole = RealSteps.of(call, made, bias), IntegerSteps.of(call, made, bias)
    assert (real is None) == (upwards < CHANNELS)
    for conversion in (real, whole, SingleSteps.of(call, made, bias)):
        if conversion is not None:
            np.testing.assert_array_equal(converted(conversion, sums, DType.INT8), expected)
    line, ends = Line.of(call, made, bias), np.full(CHANNELS, 2.0**20)
    if line is not None and real is not None:
        proven = ProvenSteps.of(line, real, (-ends, ends))
        assert proven is not None
        found = np.empty(sums.shape, np.int8)
        proven.write(sums.astype(np.float32), found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("bias, scale, many", [(2**31 - 1, 1e-30, False), (2**31 - 1, 0.01, True)])
def test_only_sums_that_count_must_fit_32_bits(
    bias: int, scale: float, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, real = [], integer_product._Weights.of.__func__
    of = classmethod(lambda cls, *given: seen.append(real(cls, *given)) or seen[-1])
    monkeypatch.setattr(integer_product._Weights, "of", of)
    model, x = Model("dead"), quantized(DType.INT8, (1, 5, 4, 8), 0.02, -3)
    scales = (scale, *[0.01] * 5)
    filter = TensorType(DType.INT8, (6, 1, 1, 8), Quantization(scales, (0,) * 6, axis=0))
    weights, biases = stored(1, filter), np.array([bias, 5, -700, 0, 9000, -20000], np.int32)
    of_bias = TensorType(DType.INT32, (6,))
    operands = [model.input("x", x), model.constant("w", weights, filter)]
    operands.append(model.constant("b", biases, of_bias))
    values = stored(2, x)
    sums = (values.astype(np.int64) + 3).reshape(20, 8) @ weights.reshape(6, 8).T.astype(np.int64) + biases
    to = Quantization((float(np.float32(0.05)),), (4,))
    model.output(*model.add("conv2d", operands, quantization=[to]))
    factors = [quantize_multiplier(x.quantization.scale[0] * s / to.scale[0]) for s in scales]
    m, shift = np.array(factors, np.int64).T
    with model.compile("cpu") as compiled:
        got = compiled(values)
    expected = np.clip(rescale(wrap32(sums), m, shift, False) + 4, -128, 127)
    np.testing.assert_array_equal(got.reshape(20, 6), expected)
    assert isinstance(seen[0].conversion, ManySteps) == many


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8, DType.INT16])
@pytest.mark.parametrize("lowest", ["of the dtype", "zero point"])
@pytest.mark.parametrize("seed", range(3))
def test_steps_in_float64_give_the_same_bits(dtype: DType, lowest: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = LIMITS[dtype]
    zero = int(rng.integers(low, high + 1))
    bounds = (zero if lowest == "zero point" else low, high)
    exponents = (0.01, 2) if dtype is DType.INT16 else (3, 9)
    factors = [float(f) for f in 2.0 ** -rng.uniform(*exponents, CHANNELS)]
    pairs = np.array([quantize_multiplier(f) for f in factors], np.int64).T
    upwards = 8 if lowest == "zero point" else CHANNELS
    made = Rescaling(0, 0, zero, pairs[0], pairs[1], upwards, bounds)
    bias = rng.integers(-(2**12), 2**12, CHANNELS)
    call: Any = type("Call", (), {"y": quantized(dtype, (1, CHANNELS), 0.5, zero)})
    real = RealSteps.of(call, made, bias)
    assert real is not None
    sums = thresholds(made, bias, np.arange(low, high + 1, max(1, (high - low) // 500)))
    away = np.arange(CHANNELS) >= upwards
    expected = np.clip(rescale(sums + bias, made.multiplier, made.shift, away) + zero, *bounds)
    np.testing.assert_array_equal(converted(real, sums, dtype), expected)
    single = SingleSteps.of(call, made, bias)
    assert (single is None) == (dtype is DType.INT16)
    if single is not None:  # of sums that are doubtful, for the most part
        known = (np.abs(sums) < 2**24).all(1)
        assert known.any()
        found = np.empty(expected[known].shape, dtype.numpy)
        single.write(sums[known].astype(np.float32), found)
        np.testing.assert_array_equal(found, expected[known])


def thresholds(made: Rescaling, bias: Array, results: Array) -> Array:
    """Return the sums around which a channel's result changes to one of `results`."""
    exact = (results[:, None] - made.zero_y - 0.5) * 2.0**31 / (made.multiplier * 2.0**made.shift)
    nearest = np.rint(exact).astype(np.int64) - bias
    return np.concatenate([nearest + step for step in range(-2, 3)])


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_factors_that_float64_might_round_are_computed_in_integers(dtype: DType) -> None:
    tiny = how([0.01, 2.0**-20], 2)
    call: Any = type("Call", (), {"y": quantized(dtype, (1, 2), 0.5, 7)})
    assert RealSteps.of(call, tiny, np.zeros(2, np.int64)) is None
    large = np.full(2, 2**28)
    assert RealSteps.of(call, how([0.01, 0.01], 2), large) is None
    assert RealSteps.of(call, how([0.01, 0.01], 2), np.zeros(2, np.int64)) is not None


def test_float64_may_round_where_no_result_depends_on_it() -> None:
    rng = np.random.default_rng(0)
    factors = [float(f) for f in 2.0 ** -rng.uniform(8, 24, CHANNELS)]
    bias = rng.integers(-(2**30), 2**30, CHANNELS)
    made = replace(how(factors, CHANNELS), bounds=(0, 255))
    call: Any = type("Call", (), {"y": quantized(DType.UINT8, (1, CHANNELS), 0.5, 7)})
    assert RealSteps.of(call, made, bias) is None
    real = RealSteps.of(call, made, bias, proving=True)
    assert real is not None
    sums = thresholds(made, bias, np.arange(256)).clip(-(2**31), 2**31 - 1)
    expected = converted(IntegerSteps.of(call, made, bias), sums, DType.UINT8)
    np.testing.assert_array_equal(converted(real, sums, DType.UINT8), expected)


@pytest.mark.parametrize("below, proven", [(0, True), (1, False)])
def test_float64_must_not_round_to_another_result(below: int, proven: bool) -> None:
    factor, right, sum, result = 2**30 + 1, 54, 3 << 12, 100
    whole = (result << right) - sum * factor - below  # where the sum is as little below the result
    step = 2.0**-right
    exactly = np.array([factor]), np.array([whole]), 0
    line = Line(exactly[0] * step, exactly[1] * step, (90, 110), 0, np.array([right]), 1, exactly)
    assert not line.exact.any()
    assert line.proven(0) == proven
    constant = (np.array([0]), np.array([(result << right) - below]), 0)
    line = Line(np.zeros(1), constant[1] * step, (0, 255), 0, np.array([right]), 1, constant)
    assert line.proven(0) == proven


def layer(constant: bool) -> Model:
    model = Model("layer")
    types = [quantized(DType.INT8, shape, 0.02) for shape in ((3, 32), (9, 32))]
    x = model.input("x", types[0])
    w = model.constant("w", stored(1, types[1]), types[1]) if constant else model.input("w", types[1])
    result = [Quantization((0.05,), (0,))]
    model.output(*model.add("fully_connected", [x, w], quantization=result))
    return model


@pytest.mark.parametrize("constant", [True, False])
def test_what_follows_from_constants_is_computed_once(
    constant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, real = [], integer_product._Weights.of.__func__
    of = classmethod(lambda cls, *given: seen.append(1) or real(cls, *given))
    monkeypatch.setattr(integer_product._Weights, "of", of)
    model = layer(constant)
    with model.compile("cpu") as compiled:
        for seed in range(3):
            values = [stored(seed, o.type) for o in model.inputs]
            weights = model.operations[0].inputs[1].value if constant else values[1]
            exact = values[0].astype(int) @ weights.astype(int).T * 0.02 * 0.02 / 0.05
            assert np.abs(compiled(*values) - np.clip(exact, -128, 127)).max() <= 0.51
    assert len(seen) == (1 if constant else 3)


@pytest.mark.parametrize("rows", [1, 100, 834, 1700])
def test_exact_products_in_parts_have_all_rows(rows: int) -> None:
    """833 rows of 40 x 30 numbers are as many as BLAS takes without packing."""
    rng = np.random.default_rng(rows)
    a, b = rng.integers(-255, 256, (rows, 40)), rng.integers(-127, 128, (40, 30))
    found = np.empty((rows, 30), np.float32)
    blocks.exact_product(b.astype(np.float32), a.astype(np.float32), found)
    np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize(("depth", "channels", "most"), [(700, 300, 127), (2, 9000, 255), (90000, 3, 128)])
def test_stored_matrices_give_all_columns(depth: int, channels: int, most: int) -> None:
    rng = np.random.default_rng(depth)
    a, b = rng.integers(-9, 10, (3, depth)), rng.integers(-most, most + 1, (depth, channels))
    found = np.empty((3, channels), np.float32)
    terms = blocks.Terms(np.dtype(np.float32), exact=True)
    blocks.Stored(b.astype(np.float32), terms).multiply(a.astype(np.float32), found)
    np.testing.assert_array_equal(found, a @ b)
