"""The loop of max pools has the results of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import OPS, compiled
from gpunn.types import Array, float32
from tests.ops.compiled.plain import REALS
from tests.ops.harness import random

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 7, 9, 3), {"size": (2, 2), "stride": (2, 2)}),
    ((1, 7, 9, 5), {"size": (3, 3), "padding": "same"}),
    ((1, 6, 7, 40), {"size": (3, 2), "padding": "same", "stride": (1, 2), "activation": "relu6"}),
    ((1, 5, 4, 130), {"size": (2, 4), "padding": ((1, 0), (2, 3)), "stride": (1, 1)}),
    ((1, 4, 6, 600), {"size": (2, 2), "stride": (2, 1)}),
    ((3, 5, 4, 17), {"size": (5, 4)}),
    ((1, 8, 90, 1), {"size": (7, 5), "padding": "same"}),
]


def pooled(x: Array, attrs: dict[str, Any]) -> Array:
    """Compute a pool as in many runs."""
    model = Model("pool")
    model.output(*model.add("max_pool2d", [model.input("x", float32(*x.shape))], attrs))
    compute = model.operations[0].direct()
    assert compute is not None
    return np.asarray(compute(x))


@pytest.mark.parametrize("shape, attrs", CASES, ids=str)
def test_maxima(shape: tuple[int, ...], attrs: dict[str, Any], found: compiled.Loops) -> None:
    x = random(1, *shape)
    x.reshape(-1)[::7], x.reshape(-1)[3::11] = np.nan, -np.inf
    own = {k: v for k, v in attrs.items() if k != "activation"}
    expected = OPS["max_pool2d"].reference(x, **own)
    if "activation" in attrs:
        expected = OPS[attrs["activation"]].reference(expected)
    assert np.isnan(expected).any()
    np.testing.assert_array_equal(pooled(x, attrs), expected)
    (x,) = np.full((1, *shape), -np.inf, np.float32)
    np.testing.assert_array_equal(pooled(x, own), OPS["max_pool2d"].reference(x, **own))


def test_only_float32_has_the_loop() -> None:
    asked: list[Array] = []

    def counted(x: Array, *operands: Any) -> None:
        asked.append(x)
        REALS.maxima(x, *operands)

    own = compiled.Loops(REALS._replace(maxima=counted), None)
    shape, attrs = CASES[0]
    with compiled.in_use(own):
        pooled(random(1, *shape), attrs)
        assert len(asked) == 1
        OPS["max_pool2d"].reference(random(1, *shape).astype(np.float64), **attrs)
    assert len(asked) == 1
