"""The loop of pools: maxima as numpy finds them, means within the error of their sums."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import OPS, compiled
from gpunn.types import Array, DType, float32
from tests.ops.compiled.plain import INTEGERS, REALS
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 7, 9, 3), {"size": (2, 2), "stride": (2, 2)}),
    ((1, 7, 9, 5), {"size": (3, 3), "padding": "same"}),
    ((1, 6, 7, 40), {"size": (3, 2), "padding": "same", "stride": (1, 2), "activation": "relu6"}),
    ((1, 5, 4, 130), {"size": (2, 4), "padding": ((1, 0), (2, 3)), "stride": (1, 1)}),
    ((1, 4, 6, 600), {"size": (2, 2), "stride": (2, 1)}),
    ((3, 5, 4, 17), {"size": (5, 4)}),
    ((1, 8, 90, 1), {"size": (7, 5), "padding": "same"}),
]


def pooled(op: str, x: Array, attrs: dict[str, Any]) -> Array:
    """Compute a pool as in many runs."""
    model = Model("pool")
    model.output(*model.add(op, [model.input("x", float32(*x.shape))], attrs))
    compute = model.operations[0].direct()
    assert compute is not None
    return np.asarray(compute(x))


def expected(op: str, x: Array, attrs: dict[str, Any]) -> Array:
    """Compute a pool by the reference, in the type of x."""
    y = OPS[op].reference(x, **{k: v for k, v in attrs.items() if k != "activation"})
    return np.asarray(OPS[attrs["activation"]].reference(y) if "activation" in attrs else y)


@pytest.mark.parametrize("shape, attrs", CASES, ids=str)
def test_maxima(shape: tuple[int, ...], attrs: dict[str, Any], found: compiled.Loops) -> None:
    x = random(1, *shape)
    x.reshape(-1)[::7], x.reshape(-1)[3::11] = np.nan, -np.inf
    for values in (x, np.full(shape, -np.inf, np.float32)):
        got = pooled("max_pool2d", values, attrs)
        np.testing.assert_array_equal(got, expected("max_pool2d", values, attrs))
    assert np.isnan(pooled("max_pool2d", x, attrs)).any()


@pytest.mark.parametrize("shape, attrs", CASES, ids=str)
def test_means(shape: tuple[int, ...], attrs: dict[str, Any], found: compiled.Loops) -> None:
    x = random(1, *shape)
    double = x.astype(np.float64)
    sizes = expected("average_pool2d", np.abs(double), {k: v for k, v in attrs.items() if k != "activation"})
    roundings = math.prod(attrs["size"]) + 1  # of sums, and of the quotient
    error = np.abs(pooled("average_pool2d", x, attrs) - expected("average_pool2d", double, attrs))
    assert np.all(error <= roundings * 2.0**-24 * sizes)


def stored_pool(op: str, x: Array, dtype: DType, attrs: dict[str, Any]) -> Array:
    """Compute a pool of stored integers as in many runs."""
    model = Model("pool")
    type = quantized(dtype, x.shape, 0.05, 3 if dtype is DType.INT8 else 131)
    model.output(*model.add(op, [model.input("x", type)], attrs, quantization=[type.quantization]))
    compute = model.operations[0].direct()
    assert compute is not None
    return np.asarray(compute(x))


@pytest.mark.parametrize("op", ["max_pool2d", "average_pool2d"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("shape, attrs", CASES, ids=str)
def test_pools_of_stored_integers(
    shape: tuple[int, ...], attrs: dict[str, Any], dtype: DType, op: str, found: compiled.Loops
) -> None:
    x = stored(1, quantized(dtype, shape, 0.05))
    for values in (x, np.full_like(x, np.iinfo(dtype.numpy).min)):
        got = stored_pool(op, values, dtype, attrs)
        with compiled.in_use(None):
            np.testing.assert_array_equal(got, stored_pool(op, values, dtype, attrs))


@pytest.mark.parametrize(
    ("op", "dtype", "asks"),
    [
        ("max_pool2d", DType.INT8, True),
        ("max_pool2d", DType.INT16, False),
        ("average_pool2d", DType.UINT8, True),
        ("average_pool2d", DType.INT16, False),
    ],
)
def test_only_pools_of_8_bits_have_loops(op: str, dtype: DType, asks: bool) -> None:
    asked: list[Array] = []

    def counted(loop: compiled.Shared, ends: Array, x: Array, *operands: Any) -> None:
        asked.append(x)
        loop(ends, x, *operands)

    maxima, means = (partial(counted, loop) for loop in (INTEGERS.pools, INTEGERS.mean_pools))
    shape, attrs = CASES[0]
    with compiled.in_use(compiled.Loops(None, INTEGERS._replace(pools=maxima, mean_pools=means))):
        stored_pool(op, np.zeros(shape, dtype.numpy), dtype, attrs)
    assert bool(asked) == asks


def test_only_float32_has_the_loop() -> None:
    asked: list[Array] = []

    def counted(ends: Array, x: Array, *operands: Any) -> None:
        asked.append(x)
        REALS.pools(ends, x, *operands)

    own = compiled.Loops(REALS._replace(pools=counted), None)
    shape, attrs = CASES[0]
    with compiled.in_use(own):
        for k, op in enumerate(("max_pool2d", "average_pool2d")):
            pooled(op, random(1, *shape), attrs)
            assert len(asked) == k + 1
        pooled("l2_pool2d", random(1, *shape), attrs)
        expected("max_pool2d", random(1, *shape).astype(np.float64), attrs)
    assert len(asked) == 2
