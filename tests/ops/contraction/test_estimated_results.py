"""Results of quantised products that are estimated in f32 (shaders/lib/estimated.wgsl), to the bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.ops.contraction.product_rescaling import (
    ESTIMATED,
    MOST_SHIFT,
    ROUNDED,
    ROUNDED_DOWN,
    SHIFTED,
    Finish,
    Rescaling,
)
from gpunn.ops.fixed_point.affine import quantize_multiplier, rescale
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.integer_checks import check_integer, integer_model
from tests.ops.quantized import quantized

LEAST, MOST = 2.0 ** -(MOST_SHIFT + 1), 0.5  # of the factors that are estimated
F32, I32 = np.float32, np.int32


def pairs_of(factors: Array) -> Array:
    """Return multipliers and shifts [2, N]."""
    return np.array([quantize_multiplier(float(f)) for f in factors], np.int64).T


def first_sums(pairs: Array, results: Array) -> Array:
    """Return the least sum of each channel that reaches a result, rounded twice with halves upwards."""
    m, shift = pairs
    sums = np.ceil((results - 0.5) * 2.0 ** (31 - shift) / m).astype(np.int64)
    while (late := rescale(sums - 1, m, shift, away=False) >= results).any():
        sums -= late
    while (early := rescale(sums, m, shift, away=False) < results).any():
        sums += early
    return sums


def towards(x: Array, up: bool) -> Array:
    """Round float64 to float32 in a direction."""
    near = x.astype(F32)
    wrong = near < x if up else near > x
    return np.where(wrong, np.nextafter(near, F32(np.inf if up else -np.inf)), near).astype(F32)


def estimated(sums: Array, pairs: Array, bounds: tuple[int, int], ups: tuple[bool, bool, bool]) -> Array:
    """Compute what the shader does, with each rounding in a direction of its own."""
    m, shift = pairs
    factor = towards(m.astype(float), ups[0]) * F32(2) ** (shift - 31).astype(F32)
    summand = (F32(2) ** (shift - 1) + F32(0.5)).astype(F32)
    scaled = towards(sums.astype(F32).astype(float) * factor, ups[1])
    e = towards(scaled.astype(float) + summand, ups[2])
    n = np.rint(e)
    above = e - n
    low_word = (sums * m + np.where(shift == -1, 3 << 30, 1 << 30)).astype(np.uint64).astype(np.uint32)
    side = np.where(np.abs(above) < F32(2**-13), low_word.view(I32), above.view(I32))
    floored = np.where(side < 0, n - 1, n).clip(F32(bounds[0]), F32(bounds[1]))
    return np.asarray((floored + F32(SHIFTED)).view(I32)).astype(np.int64) - 0x4B400000


@pytest.mark.parametrize("bounds", [(0, 255), (-255, 0), (-128, 127), (-256, 255), (3, 4)])
def test_results_are_exact_in_whatever_direction_f32_rounds(bounds: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    factors = np.concatenate(
        [np.exp2(rng.uniform(np.log2(LEAST), np.log2(MOST), 400)), 2.0 ** np.arange(-13.0, -1), [0.4999999]]
    )
    pairs = pairs_of(factors.clip(LEAST, np.nextafter(MOST, 0) - 2**-33))
    assert pairs[1].min() == -MOST_SHIFT and pairs[1].max() == -1
    for results in ([bounds[0] + 1], [bounds[1]], rng.integers(bounds[0], bounds[1] + 2, (6, len(factors)))):
        for of in np.atleast_2d(results):
            near = first_sums(pairs, of) + np.arange(-2, 2)[:, None]
            far = rng.integers(-(2**31), 2**31, (2, pairs.shape[1]))
            for sums, ups in product((near, far), product((False, True), repeat=3)):
                exact = rescale(sums, *pairs, away=False).clip(*bounds)
                np.testing.assert_array_equal(estimated(sums, pairs, bounds, ups), exact)


@pytest.mark.parametrize(("op", "activation"), [("fully_connected", None), ("conv2d", "relu")])
@pytest.mark.parametrize("zero", [-128, 0, 127])
def test_sums_beside_a_step_of_the_results(op: str, activation: str | None, zero: int, backend: str) -> None:
    """256 rows have sums around the one where a channel's result changes."""
    rng, channels = np.random.default_rng(zero + 128), 256
    scales = np.exp2(rng.uniform(np.log2(LEAST), np.log2(MOST), channels)).astype(F32).clip(LEAST, 0.4999)
    window, rows = ((1, 1), (1, 16, 16)) if op == "conv2d" else ((), (256,))
    w = TensorType(
        DType.INT8, (channels, *window, 4), Quantization(tuple(map(float, scales)), (0,) * channels, 0)
    )
    x, filter = np.zeros((*rows, 4), np.int8), np.zeros(w.shape, np.int8)
    x[..., 0], filter[..., 0] = np.arange(-128, 128).reshape(rows), 1
    results = rng.integers(-129 - zero, 129 - zero, channels)
    bias = first_sums(pairs_of(scales), results).astype(I32)
    types = [
        quantized(DType.INT8, (*rows, 4), 1.0),
        w,
        TensorType(DType.INT32, (channels,), Quantization(tuple(map(float, scales)), (0,) * channels)),
    ]
    attrs = {} if activation is None else {"activation": activation}
    case = (op, [x, filter, bias], types, attrs, Quantization((1.0,), (zero,)), (1, 2))
    (found,) = check_integer(*case, backend=backend)
    assert np.unique(found).size > (100 if activation is None or zero < 127 else 0)
    kernels = lower(integer_model(*case).operations[0], BASELINE)
    assert not isinstance(kernels, str)
    assert ESTIMATED.library in kernels[0].libraries


HOW = Rescaling(0, 0, 0, np.full(2, 1 << 30), np.full(2, -5), 2, (0, 255))


@pytest.mark.parametrize(
    ("changed", "finish"),
    [
        ({}, ESTIMATED),
        ({"shift": np.array([-1, -12])}, ESTIMATED),
        ({"zero_y": -128, "bounds": (-128, 127)}, ESTIMATED),
        ({"shift": np.array([-1, -13])}, ROUNDED_DOWN),
        ({"shift": np.array([-1, -31])}, ROUNDED_DOWN),
        ({"shift": np.array([-32, -5])}, ROUNDED),
        ({"shift": np.array([0, -5])}, ROUNDED),
        ({"upwards": 1}, ESTIMATED),  # what is negative is 0
        ({"upwards": 1, "bounds": (1, 255), "zero_y": 2}, ROUNDED_DOWN),
        ({"bounds": (-(2**15), 2**15 - 1)}, ROUNDED_DOWN),
    ],
)
def test_the_fewest_steps_that_are_exact(changed: dict[str, object], finish: Finish) -> None:
    assert replace(HOW, **changed).finish is finish  # type: ignore[arg-type]
