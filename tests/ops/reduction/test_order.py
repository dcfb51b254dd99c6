"""arg_max, arg_min, top_k: results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array, DType
from tests.ops.harness import check, check_litert, model_of, random
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
ARGS = pytest.mark.parametrize("op", ["arg_max", "arg_min"])
SHAPES: tuple[tuple[int, ...], ...] = ((1,), (9,), (3, 70), (2, 5, 7, 3), (1, 1001), (0, 3), (2, 3, 200))


def awkward(*shape: int) -> Array:
    """Return few different values, so that many are equal, with zeros of both signs, infinities and NaN."""
    values = np.array([-np.inf, -2, -0.0, 0.0, 1e-42, 2, np.inf, np.nan], np.float32)
    return values[np.random.default_rng(0).integers(0, len(values), shape)]


@ARGS
def test_args(op: str, backend: str) -> None:
    for seed, shape in enumerate(SHAPES):
        for axis in range(-len(shape), len(shape)):
            if shape[axis]:
                check(op, [random(seed, *shape)], {"axis": axis}, backend=backend)


@ARGS
def test_ties_zeros_and_nan(op: str, backend: str) -> None:
    for shape in ((200, 3), (50, 130)):
        x = awkward(*shape)
        (y,) = check(op, [x], {"axis": 1}, backend=backend)
        np.testing.assert_array_equal(y, np.argmax(x, 1) if op == "arg_max" else np.argmin(x, 1))
        x[np.isnan(x)] = 0
        check(op, [x], {"axis": 1}, backend=backend)


@ARGS
@pytest.mark.parametrize("length", [1, 2, 10, 21, 32, 33])
def test_many_short_rows(op: str, length: int) -> None:
    """On the CPU rows of up to 32 elements are turned, some of them at a time."""
    found: Any = np.argmax if op == "arg_max" else np.argmin
    for rows in ((2047,), (2, 1025), (8195,)):
        x = awkward(*rows, length)
        numbers = np.where(np.isnan(x), 1, x)
        integers = np.clip(numbers, -9, 9).astype(np.int32)
        late = numbers.copy()
        late[..., -1, -1] = np.nan  # in the rows that are turned last
        for given in (x, numbers, integers, late):
            (y,) = check(op, [given], {"axis": given.ndim - 1}, backend="cpu")
            np.testing.assert_array_equal(y, found(given, -1))


@ARGS
def test_args_of_integers(op: str, backend: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(-(2**31), 2**31, (7, 90), dtype=np.int32)
    x[0], x[1], x[2, 5:] = 2**31 - 1, -(2**31), -(2**31)
    check(op, [x], {"axis": 1}, backend=backend)
    check(op, [x], {"axis": 0}, backend=backend)
    for dtype in (DType.UINT8, DType.INT8):
        type = quantized(dtype, (6, 99), 0.1, 3)
        (y,) = check_integer(op, [stored(0, type)], [type], {"axis": -1}, backend=backend)
        assert y.dtype == np.int32


@ARGS
def test_indices_of_64_bits(op: str, backend: str) -> None:
    attrs = {"axis": 0, "dtype": "int64"}
    (y,) = check(op, [random(0, 5, 3)], attrs, backend=backend)
    assert y.dtype == np.int64


@pytest.mark.parametrize("k", [0, 1, 3, 9])
def test_top_k(k: int, backend: str) -> None:
    for seed, shape in enumerate(((9,), (3, 70), (2, 2, 9), (0, 9), (2, 1001))):
        values, indices = check("top_k", [random(seed, *shape)], {"k": k}, backend=backend, **EXACT)
        assert values.shape == indices.shape == (*shape[:-1], k)
        assert (np.diff(values) <= 0).all()


def test_top_k_with_ties_and_nan(backend: str) -> None:
    x = awkward(20, 30)
    values, indices = check("top_k", [x], {"k": 30}, backend=backend, **EXACT)
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
    for row, order in zip(x, indices, strict=True):
        key = [(not np.isnan(v), -v if v == v else 0) for v in row]
        assert sorted(range(30), key=lambda i, key=key: key[i]) == order.tolist()  # type: ignore[misc]


def test_top_k_of_integers(backend: str) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 20), dtype=np.int32)
    x[0, :2], x[1] = -(2**31), 5
    check("top_k", [x], {"k": 20}, backend=backend)
    type = quantized(DType.INT8, (3, 100), 0.1, 3)
    values, indices = check_integer("top_k", [stored(0, type)], [type], {"k": 7}, backend=backend)
    assert values.dtype == np.int8 and indices.dtype == np.int32


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.bool_])
def test_small_integers(dtype: type, backend: str) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (3, 20)).astype(dtype)
    for op in ("arg_max", "arg_min"):
        check(op, [x], {"axis": 1}, backend=backend)
    if dtype is not np.bool_:
        check("top_k", [x], {"k": 7}, backend=backend)


def test_long_rows(backend: str) -> None:
    """The kernel goes along a row k times, or sorts it."""
    many = np.random.default_rng(0).integers(-9, 9, (3, 5000))
    for x in (random(0, 2, 9000), awkward(2, 5000), *map(many.astype, (np.int8, np.int32, np.int64))):
        for k in (1, 2, 16, 17, 300):
            check("top_k", [x], {"k": k}, backend=backend, **EXACT)
    check(
        "top_k", [random(0, 1, 300_001)], {"k": 16}, backend=backend, **EXACT
    )  # lavapipe: too many loop iterations


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.float16])
@pytest.mark.parametrize(
    ("shape", "k"), [((1, 5000), 30), ((3, 513), 513), ((2, 2, 1025), 400), ((0, 600), 20), ((600,), 0)]
)
def test_sorted_rows(shape: tuple[int, ...], k: int, dtype: Any, backend: str) -> None:
    """Few different values, and NaN."""
    x = random(0, *shape, low=-100, high=100).astype(np.int8).astype(dtype)
    if x.dtype.kind == "f":
        x[..., ::9] = np.nan
    check("top_k", [x], {"k": k}, backend=backend, **EXACT)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("length", [257, 300, 511, 520, 2049, 5000])
def test_the_first_of_sorted_rows(length: int, dtype: Any, hardware: str) -> None:
    """Runs are cut off behind the first k; hardware sorts more elements at a time."""
    x = random(length, 2, length, low=-99, high=99).astype(np.int8).astype(dtype)
    for k in (17, 24, 100, 255, length - 1, length):
        check("top_k", [x], {"k": k}, backend=hardware, **EXACT)


def test_buckets(backend: str) -> None:
    boundaries = (-1.5, 0.0, 0.0, 2.0)
    x = np.array([[-2, -1.5, -0.0, 1.9], [2, 1e9, np.inf, np.nan]], np.float32)
    attrs = {"boundaries": boundaries}
    (y,) = check("bucketize", [x], attrs, backend=backend)
    assert y.tolist() == [[0, 1, 3, 3], [4, 4, 4, 4]]
    check("bucketize", [np.arange(-3, 4, dtype=np.int32)], attrs, backend=backend)
    assert check("bucketize", [x], {"boundaries": ()}, backend=backend)[0].max() == 0
    for count in (1, 2, 3, 4, 7, 8, 100):
        attrs = {"boundaries": tuple(np.sort(random(count, count)).tolist())}
        for dtype in (np.float32, np.float16, np.int32, np.int64):
            check("bucketize", [random(0, 5, 7, low=-9, high=9).astype(dtype)], attrs, backend=backend)
    for wrong in ((1.0, 0.0), (float("nan"),), (1.0, float("nan"))):
        with pytest.raises(ModelError, match="bucketize: boundaries must be in ascending order"):
            model_of("bucketize", [x], {"boundaries": wrong})


@pytest.mark.parametrize("count", [1, 32, 33, 200])
def test_few_and_many_boundaries(count: int) -> None:
    boundaries = [k // 2 - 8 for k in range(count)]
    x = np.array([np.nan, -np.inf, np.inf, -0.0, -8, 7.5, 90, 91.5, *range(-9, 12)], np.float32)
    (y,) = check("bucketize", [x], {"boundaries": tuple(map(float, boundaries))}, backend="cpu")
    assert y.tolist() == [sum(not v < b for b in boundaries) for v in x.tolist()]


def test_agrees_with_litert() -> None:
    x = np.random.default_rng(0).integers(-3, 3, (4, 5, 6)).astype(np.float32)  # many ties
    for op, operator in (("arg_max", "ARG_MAX"), ("arg_min", "ARG_MIN")):
        for axis in (0, 1, -1):
            for dtype in ("int32", "int64"):
                attrs, options = {"axis": axis, "dtype": dtype}, {"output_type": dtype.upper()}
                check_litert(op, [x], attrs, operator, options, operands=[np.array(axis, np.int32)])
    for k in (1, 4, 6):
        check_litert("top_k", [x], {"k": k}, "TOPK_V2", operands=[np.array(k, np.int32)])


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("arg_max", {"axis": 2}, "axis 2 is out of range for rank 2"),
        ("arg_min", {"axis": 1}, r"axis 1 must not be empty, got shape \[2, 0\]"),
        ("arg_max", {"axis": 0, "dtype": "float32"}, "dtype must be int32 or int64, got 'float32'"),
        ("top_k", {"k": 1}, r"k must be in 0 \.\.\. 0, got 1"),
        ("top_k", {"k": -1}, r"k must be in 0 \.\.\. 0, got -1"),
        ("top_k", {"k": 1.0}, "k must be an integer"),
    ],
)
def test_errors(op: str, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: {message}"):
        model_of(op, [random(0, 2, 0)], attrs)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ModelError, match="top_k: input 0 must be float32 or float16 or int32 or int64"):
        model_of("top_k", [np.zeros(3, np.bool_)], {"k": 1})
    with pytest.raises(ModelError, match="top_k: input 0 must have rank 1 or more"):
        model_of("top_k", [random(0)], {"k": 0})
