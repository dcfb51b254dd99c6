"""Reductions over any axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops import OPS
from gpunn.types import Array
from tests.ops.harness import ATOL, EPS, check, check_litert, limit_device, model_of, random

# Shape and axes: kept and reduced dimensions in every order, short and long.
CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((7,), (0,)),
    ((2, 7, 7, 8), (1, 2)),
    ((2, 7, 7, 5), (1, 2)),
    ((1, 40, 50, 4), (1, 2)),
    ((1, 40, 50, 3), (1, -2)),
    ((3, 5), (-1,)),
    ((3, 500), (1,)),
    ((4, 3, 6), (0,)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 8), (0, 2)),
    ((2, 3, 4, 5), (0, 1, 2, 3)),
    ((3, 1, 4), ()),
    ((3, 4), (1, -1)),
    ((2, 3, 2, 3, 2, 3, 2, 3), (0, 2, 4, 6)),
    ((2, 3, 2, 3, 2, 3, 2, 3), (1, 3, 5, 7)),
    ((0, 4, 3), (1,)),
    ((1, 1, 1), (0, 2)),
    ((), ()),
)


def run(x: Array, axes: tuple[int, ...], backend: str, keep_dims: bool = True) -> None:
    """Check a mean within n eps mean(|x|), the largest sum of the roundings of n additions."""
    unique = tuple({axis % x.ndim for axis in axes})
    terms = int(np.prod([x.shape[axis] for axis in unique]))
    with np.errstate(invalid="ignore"):
        size = np.mean(np.abs(x.astype(np.float64)), axis=unique, keepdims=keep_dims)
    attrs = {"axes": axes, "keep_dims": keep_dims}
    check("mean", [x], attrs, atol=np.asarray(ATOL + terms * EPS * size), backend=backend)


@pytest.mark.parametrize("keep_dims", [False, True])
def test_mean(keep_dims: bool, backend: str) -> None:
    for seed, (shape, axes) in enumerate(CASES):
        run(random(seed, *shape), axes, backend, keep_dims)


@pytest.mark.parametrize("axes", [(0,), ()])
def test_many_sums_of_one_term(axes: tuple[int, ...], backend: str) -> None:
    check("reduce_sum", [random(0, 1, 32768)], {"axes": axes}, backend=backend)


@pytest.mark.parametrize("op", ["mean", "reduce_sum"])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 40, 50, 3), (1, 2)),  # sums of several pixels at a time
        ((2, 40, 50, 24), (-2, 1)),
        ((2, 257, 31, 1), (1, 2)),
        ((1, 13, 499, 5), (1, 2)),  # a prime number of columns
        ((509, 600), (0,)),
        ((3, 130, 2, 2, 2), (1,)),
        ((1000, 21), (1,)),  # short rows
        ((10, 30, 9, 2), (2, 3)),
        ((6000,), (0,)),
    ],
)
def test_sums_as_products(
    op: str, shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool, backend: str
) -> None:
    x = random(0, *shape)
    attrs = {"axes": axes, "keep_dims": keep_dims}
    terms = int(np.prod([shape[axis] for axis in axes]))
    most = terms * EPS * terms * 4 if op == "reduce_sum" else terms * EPS * 4  # |x| is at most 4
    for value in (0, np.nan, np.inf, -np.inf):
        x[(-1,) * len(shape)] = value
        check(op, [x], attrs, atol=ATOL + most, backend=backend)


def test_generated_shapes(backend: str) -> None:
    generator = np.random.default_rng(3)
    for seed in range(25):
        rank = int(generator.integers(1, 6))
        shape = tuple(int(n) for n in generator.choice([1, 2, 3, 4, 8], rank))
        axes = tuple(
            d - rank * int(generator.integers(0, 2)) for d in range(rank) if generator.random() < 0.5
        )
        run(random(seed, *shape), axes, backend)


def test_the_mean_of_no_elements_is_nan(backend: str) -> None:
    (y,) = check("mean", [random(0, 2, 0, 3)], {"axes": (1,)}, backend=backend)
    assert np.isnan(y).all()


def test_nan_and_infinities(backend: str) -> None:
    x = random(0, 6, 100)
    x[0, 3], x[1, 99], x[2, 0], x[3, 5:7] = np.nan, np.inf, -np.inf, (np.inf, -np.inf)
    run(x, (1,), backend)


def test_many_results(backend: str) -> None:
    run(random(0, 70_000, 3), (1,), backend)
    run(random(0, 66_000, 64), (1,), backend)


def test_long_sums_are_split(backend: str) -> None:
    """A sum in one sequence would be off by 1e-3 here; 64 partial sums stay below a 64th of their bound."""
    x = np.full((1, 1000, 1000), 0.1, np.float32)
    check("mean", [x], {"axes": (1, 2)}, backend=backend, atol=(x.size / 64 + 6) * EPS * 0.1)


def test_the_reference_against_numpy() -> None:
    x = random(0, 2, 3, 4)
    mean = OPS["mean"].reference
    np.testing.assert_allclose(mean(x, axes=(0, -1)), x.mean((0, 2)), rtol=1e-6)
    assert mean(x, axes=(1,), keep_dims=True).shape == (2, 1, 4)
    assert mean(x.astype(np.float16), axes=(0, 1, 2)).dtype == np.float16


def test_agrees_with_litert() -> None:
    for axes in ((1, 2), (3,), (0, 1, 2, 3), (-1,)):
        operands = [np.array(axes, np.int32)]
        for keep_dims in (False, True):
            attrs = {"axes": axes, "keep_dims": keep_dims}
            check_litert(
                "mean", [random(1, 2, 3, 4, 5)], attrs, "MEAN", {"keepDims": keep_dims}, operands=operands
            )


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"axes": (2,)}, "mean: axis 2 is out of range for rank 2"),
        ({"axes": (-3,)}, "mean: axis -3 is out of range for rank 2"),
        ({"axes": 1}, "mean: axes must be a sequence, got 1"),
        ({"axes": (0.5,)}, "mean: axes must be an integer, got 0.5"),
        ({"axes": (0,), "keep_dims": 1}, "mean: keep_dims must be True or False, got 1"),
        ({}, "mean: needs attribute axes"),
    ],
)
def test_errors(attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("mean", [random(0, 2, 3)], attrs)


REALS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")
OPERATORS = {
    "reduce_sum": "SUM",
    "reduce_prod": "REDUCE_PROD",
    "reduce_max": "REDUCE_MAX",
    "reduce_min": "REDUCE_MIN",
    "reduce_any": "REDUCE_ANY",
    "reduce_all": "REDUCE_ALL",
}


def rounding(op: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Return how far n roundings, one for each term, can move a sum or a product; 0 for other ops."""
    unique = tuple({axis % x.ndim for axis in axes})
    terms = int(np.prod([x.shape[axis] for axis in unique]))
    size = np.abs(x.astype(np.float64))
    bounds = {"reduce_sum": np.sum, "reduce_prod": np.prod}
    bound = bounds[op](size, axis=unique, keepdims=True) if op in bounds else np.zeros(())
    return np.asarray(terms * EPS * bound)


@pytest.mark.parametrize("op", REALS)
def test_other_reductions(op: str, backend: str) -> None:
    for seed, (shape, axes) in enumerate(CASES):
        x = random(seed, *shape)
        x = np.exp(x / 40).astype(np.float32) * np.sign(x) if op == "reduce_prod" else x
        attrs = {"axes": axes, "keep_dims": True}
        check(op, [x], attrs, backend=backend, atol=ATOL * (op == "reduce_sum") + rounding(op, x, axes))


@pytest.mark.parametrize("op", REALS)
def test_integers(op: str, backend: str) -> None:
    """Results are exact; sums and products wrap around."""
    generator = np.random.default_rng(0)
    for shape, axes in CASES:
        x = generator.integers(-(2**31), 2**31, shape, dtype=np.int32)
        check(op, [x], {"axes": axes}, backend=backend, atol=0, rtol=0)
        long = generator.integers(-(2**63), 2**63, shape, dtype=np.int64)
        check(op, [long], {"axes": axes}, backend=backend)


@pytest.mark.parametrize("op", ["reduce_any", "reduce_all"])
def test_booleans(op: str, backend: str) -> None:
    generator = np.random.default_rng(0)
    for shape, axes in CASES:
        for share in (0.0, 0.03, 0.97, 1.0):
            check(op, [generator.random(shape) < share], {"axes": axes}, backend=backend)
    with pytest.raises(ModelError, match=f"{op}: input 0 must be bool, got float32"):
        model_of(op, [random(0, 2)], {"axes": (0,)})


@pytest.mark.parametrize(("op", "worst"), [("reduce_max", -np.inf), ("reduce_min", np.inf)])
def test_extremes_of_nan_infinities_and_no_elements(op: str, worst: float, backend: str) -> None:
    x = random(0, 6, 100)
    x[0, 3], x[1, 99], x[2, 0], x[3, :] = np.nan, np.inf, -np.inf, worst
    x[4, 5], x[5, 0] = np.nan, np.nan
    (y,) = check(op, [x], {"axes": (1,)}, backend=backend)
    assert np.isnan(y[[0, 4, 5]]).all()
    (y,) = check(op, [random(0, 2, 0)], {"axes": (1,)}, backend=backend)
    assert (y == worst).all()
    (y,) = check(op, [np.zeros((2, 0), np.int32)], {"axes": (1,)}, backend=backend)
    assert (y == (np.iinfo(np.int32).min if worst < 0 else np.iinfo(np.int32).max)).all()


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("shape", [(63, 5), (64, 1), (4099, 32), (3, 40, 33), (2, 35, 7)])
def test_extremes_of_many_short_rows(op: str, shape: tuple[int, ...]) -> None:
    """On the CPU rows of up to 32 elements are turned, some of them at a time."""
    x = random(1, *shape)
    x[..., 7, shape[-1] // 2] = np.nan
    find: Any = np.max if op == "reduce_max" else np.min
    for given in (x, np.arange(x.size, dtype=np.int32).reshape(shape) * 7919 % 1013):
        for keep in (False, True):
            (y,) = check(op, [given], {"axes": (-1,), "keep_dims": keep}, backend="cpu")
            np.testing.assert_array_equal(y, find(given, axis=-1, keepdims=keep))


@pytest.mark.parametrize("op", OPERATORS)
def test_other_reductions_agree_with_litert(op: str) -> None:
    x = random(1, 2, 3, 4, 5, low=0.5, high=1.5)
    values = [x > 0.6] if op in ("reduce_any", "reduce_all") else [x, (8 * x).astype(np.int32)]
    for value in values:
        for axes in ((1, 2), (3,), (0, 1, 2, 3), (-1,)):
            for keep_dims in (False, True):
                attrs = {"axes": axes, "keep_dims": keep_dims}
                operands = [np.array(axes, np.int32)]
                options = {"keepDims": keep_dims}
                bound = float(np.max(rounding(op, value, axes)))
                check_litert(op, [value], attrs, OPERATORS[op], options, operands=operands, atol=ATOL + bound)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_means_of_integers(dtype: Any, backend: str) -> None:
    x = np.array([[3, -3, 2**31 - 1], [4, -4, 2**31 - 3]]).astype(dtype)
    (y,) = check("mean", [x], {"axes": (0,)}, backend=backend)
    assert y.tolist() == [3, -3, 2**31 - 2]
    (y,) = check("mean", [x[:, :0]], {"axes": (1,)}, backend=backend)
    assert y.tolist() == [0, 0]
    generator = np.random.default_rng(0)
    for shape, axes in CASES:
        for low, high in ((2**30, 2**31), (-(2**31), -9)):
            far = generator.integers(low, high, shape).astype(dtype)
            check("mean", [far], {"axes": axes}, backend=backend)


def test_means_of_bools_are_refused() -> None:
    with pytest.raises(
        ModelError, match="mean: input 0 must be float32 or float16 or int32 or int64, got bool"
    ):
        model_of("mean", [np.zeros(3, np.bool_)], {"axes": (0,)})


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_small_integers(dtype: Any, backend: str) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (3, 5, 4)).astype(dtype)
    for op in ("reduce_max", "reduce_min", "reduce_prod", "reduce_sum"):
        check(op, [x], {"axes": (1,)}, backend=backend)
        check(op, [x[:, :0]], {"axes": (1,)}, backend="cpu")


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "axes"), [((3, 1100), (1,)), ((1000, 12), (0,)), ((2, 40, 3, 30), (1, 3))])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_long_reductions_in_parts(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    keep_dims: bool,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device whose loops go round only a few times folds parts of the terms, and then the parts."""
    limit_device(monkeypatch, max_loop_iterations=7)
    attrs = {"axes": axes, "keep_dims": keep_dims}
    terms = int(np.prod([shape[axis] for axis in axes]))
    x = random(1, *shape)
    for op, values in (("mean", x), ("reduce_sum", x), ("reduce_max", x), ("reduce_min", x)):
        check(op, [values], attrs, backend=backend, atol=terms * 4 * terms * EPS)
    check("reduce_prod", [random(2, *shape, low=0.999, high=1.001)], attrs, backend=backend, rtol=terms * EPS)
    for dtype in (np.int32, np.int64):
        whole = np.random.default_rng(2).integers(-(2**31), 2**31, shape).astype(dtype)
        for op in ("mean", "reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
            check(op, [whole], attrs, backend=backend)
    small = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    for op in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        check(op, [small], attrs, backend=backend)
    for op in ("reduce_any", "reduce_all"):
        check(op, [x > 3.9], attrs, backend=backend)
        check(op, [x > -3.999], attrs, backend=backend)
    check("reduce_max", [x.astype(np.float16)], attrs, backend=backend, rtol=2**-11)


def test_a_long_sum_on_the_device_as_it_is(backend: str) -> None:
    """Five million terms are more than the loops of lavapipe's invocations take."""
    x = np.random.default_rng(0).integers(-3, 4, 5_000_000).astype(np.float32)
    (y,) = check("reduce_sum", [x], {"axes": (0,)}, backend=backend, atol=0, rtol=0)
    assert y == x.astype(np.float64).sum()
