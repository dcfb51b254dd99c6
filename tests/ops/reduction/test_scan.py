"""Running sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from tests.ops.harness import ATOL, EPS, check, check_litert, model_of, random

MODES = [{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}]
modes = pytest.mark.parametrize("mode", MODES, ids=str)


@modes
def test_cumsum(mode: dict[str, bool], backend: str) -> None:
    for seed, shape in enumerate(((1,), (9,), (3, 70), (2, 5, 7, 3), (0, 3), (3, 0))):
        for axis in range(-len(shape), len(shape)):
            x = random(seed, *shape)
            total = np.sum(np.abs(x.astype(np.float64)), axis=axis, keepdims=True)
            atol = np.asarray(ATOL + shape[axis] * EPS * total)
            check("cumsum", [x], {"axis": axis, **mode}, backend=backend, atol=atol)


@modes
def test_integers(mode: dict[str, bool], backend: str) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 20), dtype=np.int32)
    check("cumsum", [x], {"axis": 1, **mode}, backend=backend)
    wide = x.astype(np.int64) << 31
    for axis in range(2):
        check("cumsum", [wide], {"axis": axis, **mode}, backend=backend)


@modes
def test_agrees_with_litert(mode: dict[str, bool]) -> None:
    for x in (random(0, 2, 3, 4), np.arange(24, dtype=np.int32).reshape(2, 3, 4)):
        for axis in (0, 1, -1):
            operands = [np.array(axis, np.int32)]
            check_litert("cumsum", [x], {"axis": axis, **mode}, "CUMSUM", mode, operands=operands)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"axis": 2}, "axis 2 is out of range for rank 2"),
        ({"axis": 0, "reverse": 1}, "reverse must be True or False"),
        ({}, "needs attribute axis"),
    ],
)
def test_errors(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"cumsum: {message}"):
        model_of("cumsum", [random(0, 2, 3)], attrs)
