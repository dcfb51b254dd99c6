"""Reductions of stored values: sums, products, extremes."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops.check import QUANTIZED
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.reduction import reduce_integer
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import limit_device
from tests.ops.integer_checks import check_integer, integer_model, litert_integer
from tests.ops.quantized import quantized, stored
from tests.ops.reduction.test_reduce import CASES, OPERATORS


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
def test_extremes_of_stored_values(op: str, dtype: DType, backend: str) -> None:
    for seed, (shape, axes) in enumerate(CASES[1:12]):
        type = quantized(dtype, shape, 0.1, 3)
        x = stored(seed, type)
        (y,) = check_integer(op, [x], [type], {"axes": axes}, backend=backend)
        extreme = np.max if op == "reduce_max" else np.min
        np.testing.assert_array_equal(y, extreme(x, axis=tuple({a % x.ndim for a in axes})))
    other, host = Quantization((0.05,), (1,)), "quantised differently"
    check_integer(op, [x], [type], {"axes": axes}, other, backend=backend, host=host)


Reduced = tuple[Array, TensorType, Quantization, Array]


def reduced(op: str, dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...], seed: int) -> Reduced:
    """Return stored values, their type, a quantisation whose range the results fill, and the real results.

    Scales of odd seeds are powers of two, so that many results are halves.
    """
    rng = np.random.default_rng(seed)
    low, high = LIMITS[dtype]
    zero, to_zero = (
        (0, 0) if dtype is DType.INT16 else (int(z) for z in rng.integers(low, high, 2, endpoint=True))
    )
    axes = tuple({axis % len(shape) for axis in axes})
    terms = int(np.prod([shape[axis] for axis in axes]))
    # Magnitudes around 1, so that long products neither vanish nor leave the range.
    scale = 2.0 ** -(7 if seed % 2 else 6.5) * (1 if dtype is not DType.INT16 else 2**-8)
    type = quantized(dtype, shape, scale, zero)
    x = stored(seed, type)
    reals = (x.astype(np.float64) - zero) * type.quantization.scale[0]
    real = (np.sum if op == "reduce_sum" else np.prod)(reals, axis=axes)
    step = (
        4 * scale * np.sqrt(terms) if op == "reduce_sum" else np.abs(real).max(initial=1e-30) / (high - low)
    )
    return x, type, Quantization((float(np.float32(step)),), (to_zero,)), real


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_quantised_sums(dtype: DType, backend: str) -> None:
    """Results are the nearest stored values, apart from roundings of float32 in sums far below 2^24 steps."""
    for seed, (shape, axes) in enumerate(CASES):
        x, type, y, real = reduced("reduce_sum", dtype, shape, axes, seed)
        (found,) = check_integer("reduce_sum", [x], [type], {"axes": axes}, y, backend=backend)
        exact = np.clip(real / y.scale[0] + y.zero_point[0], *LIMITS[dtype])
        assert np.abs(found - exact).max(initial=0) <= 0.51


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_quantised_products(dtype: DType, backend: str) -> None:
    """A factor of 15 bits for each of up to nine terms, and a rounding that later terms may enlarge."""
    off = 3 + 9 * 2**-16 * (LIMITS[dtype][1] - LIMITS[dtype][0])
    for seed, (shape, axes) in enumerate(CASES):
        x, type, y, real = reduced("reduce_prod", dtype, shape, axes, seed)
        (found,) = check_integer("reduce_prod", [x], [type], {"axes": axes}, y, backend=backend)
        if len(axes) and np.prod([shape[axis] for axis in axes]) <= 9:
            exact = np.clip(real / y.scale[0] + y.zero_point[0], *LIMITS[dtype])
            assert np.abs(found - exact).max(initial=0) <= off


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_prod"])
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_quantised_reductions_have_the_bits_of_litert(op: str, dtype: DType) -> None:
    """Compared with its default kernels, which have no product of uint8."""
    if (op, dtype) == ("reduce_prod", DType.UINT8):
        return
    for seed, (shape, axes) in enumerate(
        [((60, 7), (1,)), ((9, 7), (0,)), ((3, 60, 2), (2, 0)), ((4, 2), (0, 1))] * 8
    ):
        x, type, y, real = reduced(op, dtype, shape, axes, seed)
        result, operands = TensorType(dtype, real.shape, y), np.array(axes, np.int32)
        (theirs,) = litert_integer(
            OPERATORS[op],
            [x, operands],
            [type, TensorType(DType.INT32, operands.shape)],
            [result],
            {},
            constants=(1,),
            version=2,
            reference=False,
        )
        operation = integer_model(op, [x], [type], {"axes": axes}, y).operations[0]
        np.testing.assert_array_equal(operation.evaluate([x])[0], theirs)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_quantised_reductions_saturate(dtype: DType, backend: str) -> None:
    """Sums far beyond the range, and products of 200 factors of 2, 31 of which leave 32 bits."""
    low, high = LIMITS[dtype]
    for value, zero, ends in ((low, high, (low, high)), (high, low, (high, high))):
        type = quantized(dtype, (3, 200), 2 / (high - low), zero)
        x, y = np.full(type.shape, value, dtype.numpy), Quantization((0.5,), (low + 100,))
        for op, expected in zip(("reduce_sum", "reduce_prod"), ends, strict=True):
            (found,) = check_integer(op, [x], [type], {"axes": (1,)}, y, backend=backend)
            assert (found == expected).all()


def test_sums_beyond_32_bits_and_products_of_nothing(backend: str) -> None:
    """Sums of 2^31 and more have 64 bits; products of no elements go through reals."""
    type = quantized(DType.INT8, (1, 2**23 + 2**16), 2.0**-24, -128)
    y = Quantization((1 / 32,), (0,))
    x = np.full(type.shape, 127, np.int8)
    for op in ("reduce_sum", "mean"):
        (found,) = check_integer(op, [x], [type], {"axes": (1,)}, y, backend=backend)
        assert found.tolist() == [127 if op == "reduce_sum" else 0]
    (found,) = check_integer(
        "reduce_prod",
        [x[:, :0]],
        [type.with_shape((1, 0))],
        {"axes": (1,)},
        y,
        backend=backend,
        host="no elements",
    )
    assert found.tolist() == [32]
    (found,) = check_integer(
        "reduce_sum", [x[:, :0]], [type.with_shape((1, 0))], {"axes": (1,)}, y, backend=backend
    )
    assert found.tolist() == [0]


@pytest.mark.parametrize("count", [32_768, 70_003])
def test_means_of_more_int16_than_32_bits_hold(count: int, backend: str) -> None:
    """The mean is the exact one, rounded to a step; LiteRT's sums overflow from 2^31 on."""
    random = np.random.default_rng(count)
    for low, high, zero in ((-32768, 32768, 0), (15_000, 32_768, -5), (-32768, -32767, 32767)):
        for axes, shape in (((1,), (2, count)), ((0,), (count, 3)), ((0,), (count, 4))):
            type = quantized(DType.INT16, shape, 0.1, zero)
            x = random.integers(low, high, shape).astype(np.int16)
            y = Quantization((0.23,), (7,))
            (found,) = check_integer("mean", [x], [type], {"axes": axes}, y, backend=backend)
            exact = (x.astype(np.float64).mean(axis=axes[0]) - zero) * 0.1 / 0.23 + 7
            assert np.abs(found - np.clip(exact, -32768, 32767)).max() <= 0.5 + 2**-8


def test_the_mean_of_many_int16_worked_by_hand(backend: str) -> None:
    """Half of 40,000 are 100, half 103, of 0.5 each: 50.75, in steps of 0.25 from -3."""
    type = quantized(DType.INT16, (40_000,), 0.5, 0)
    x = np.repeat(np.array([100, 103], np.int16), 20_000)
    y = Quantization((0.25,), (-3,))
    (found,) = check_integer("mean", [x], [type], {"axes": (0,)}, y, backend=backend)
    assert found == 200


@pytest.mark.parametrize(("shape", "axes"), [((3, 1100), (1,)), ((1000, 12), (0,)), ((40, 3, 30), (0, 2))])
def test_long_products_in_parts(
    shape: tuple[int, ...], axes: tuple[int, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every factor, of 0.98 to 1.02, rounds in order; dispatches of 300 factors hand the product on."""
    limit_device(monkeypatch, max_loop_iterations=300)
    for dtype in (DType.INT8, DType.UINT8, DType.INT16):
        zero = 0 if dtype is DType.INT16 else 3
        type, y = quantized(dtype, shape, 0.01, zero), Quantization((0.01,), (zero,))
        x = stored(1, type, 98 + zero, 102 + zero)
        (found,) = check_integer("reduce_prod", [x], [type], {"axes": axes}, y, backend=backend)
        assert len(np.unique(found)) > 1


def test_a_product_of_70000_factors(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but three factors of each row are 1: 2 x 2 x 2 and 3 x 3 x 3."""
    limit_device(monkeypatch, max_loop_iterations=300)
    two = quantized(DType.INT8, (2, 70_000), 1.0)
    x = np.where(np.arange(70_000) % 30_000 == 7, np.array([[2], [3]]), 1).astype(np.int8)
    y = Quantization((1.0,), (0,))
    (found,) = check_integer("reduce_prod", [x], [two], {"axes": (1,)}, y, backend=backend)
    assert found.tolist() == [8, 27]


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8, DType.INT16])
def test_long_sums_in_64_bits(
    dtype: DType, axes: tuple[int, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of more than 50 terms count as long here; they have the bits of short ones."""
    type = quantized(dtype, (90, 80), 0.1, 0 if dtype is DType.INT16 else 3)
    x, y = stored(1, type), Quantization((0.7,), (0 if dtype is DType.INT16 else 5,))
    (short,) = check_integer("reduce_sum", [x], [type], {"axes": axes}, y, backend=backend)
    monkeypatch.setattr(reduce_integer, "_fitting", lambda call: 50)
    (long,) = check_integer("reduce_sum", [x], [type], {"axes": axes}, y, backend=backend)
    np.testing.assert_array_equal(short, long)


def test_the_sum_of_many_int16_worked_by_hand(backend: str) -> None:
    """2^17 times 32767 steps of 2^-15 is 2^17 - 4: in steps of 4, from -32768, 32767."""
    type, y = quantized(DType.INT16, (2**17, 2), 2.0**-15), Quantization((4.0,), (-1,))
    x = np.full(type.shape, 32767, np.int16) * np.array([1, -1], np.int16)
    (found,) = check_integer("reduce_sum", [x], [type], {"axes": (0,)}, y, backend=backend)
    assert found.tolist() == [32766, -32768]


@pytest.mark.parametrize("op", ["mean", "reduce_sum", "reduce_max", "reduce_min"])
@pytest.mark.parametrize(("shape", "axes"), [((3, 1100), (1,)), ((1000, 12), (0,)), ((2, 40, 30, 4), (1, 2))])
def test_quantised_reductions_in_parts(
    op: str, shape: tuple[int, ...], axes: tuple[int, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device whose loops go round only a few times gives the same bits."""
    limit_device(monkeypatch, max_loop_iterations=7)
    for dtype in (DType.INT8, DType.UINT8, DType.INT16):
        type = quantized(dtype, shape, 0.1, 0 if dtype is DType.INT16 else 3)
        choice = op in ("reduce_max", "reduce_min")
        y = type.quantization if choice else Quantization((0.17 if op == "mean" else 4.0,), (1,))
        check_integer(op, [stored(1, type)], [type], {"axes": axes}, y, backend=backend)
