"""Ops that create a tensor from a few numbers: fill, one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, model_of

DTYPES = (np.float32, np.int32, np.uint8, np.int8, np.bool_)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)


@dtypes
@pytest.mark.parametrize("shape", [(), (7,), (8,), (2, 3, 5), (0, 2), (1, 2, 1, 2, 1, 2, 1, 2, 1)])
def test_fill(dtype: type, shape: tuple[int, ...], backend: str) -> None:
    for value in (np.array(1, dtype), np.zeros((1, 1), dtype)):
        check("fill", [value], {"shape": shape}, backend=backend)


def test_fill_of_64_bit_integers(backend: str) -> None:
    value = np.array(-(2**40), np.int64)
    (y,) = check("fill", [value], {"shape": (3,)}, backend=backend)
    assert y.tolist() == [-(2**40)] * 3


@dtypes
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((4,), -1), ((2, 3), 0), ((2, 3), 1), ((2, 3), -1), ((2, 3), -3), ((), 0), ((2, 0), 1)],
)
def test_one_hot(dtype: type, shape: tuple[int, ...], axis: int, backend: str) -> None:
    for depth in (1, 5, 8, 0):
        indices = np.random.default_rng(depth).integers(-1, depth + 1, shape).astype(np.int32)
        inputs = [indices, np.array(1, dtype), np.zeros(1, dtype)]
        (y,) = check("one_hot", inputs, {"depth": depth, "axis": axis}, backend=backend)
        inside = (indices >= 0) & (indices < depth)
        np.testing.assert_array_equal(np.sum(y != 0, axis=axis), inside)


def test_one_hot_by_hand(backend: str) -> None:
    inputs = [np.array([2, 0], np.int32), np.float32(3).reshape(()), np.float32(-1).reshape(())]
    (y,) = check("one_hot", inputs, {"depth": 3}, backend=backend)
    assert y.tolist() == [[-1, -1, 3], [3, -1, -1]]


ONE: Array = np.ones((), np.float32)
INDEX: Array = np.zeros(2, np.int32)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        (
            "fill",
            [np.ones(2, np.float32)],
            {"shape": (3,)},
            r"input 0 must have one element, got shape \[2\]",
        ),
        ("fill", [ONE], {"shape": (-1,)}, r"shape must have entries >= 0, got \[-1\]"),
        ("fill", [ONE], {"shape": 3}, "shape must be a sequence, got 3"),
        ("one_hot", [ONE, ONE, ONE], {"depth": 2}, "input 0 must be int32 or int64, got float32"),
        ("one_hot", [INDEX, ONE, INDEX], {"depth": 2}, r"input 2 must have one element, got shape \[2\]"),
        ("one_hot", [INDEX, ONE, INDEX[0]], {"depth": 2}, "on and off must have one dtype"),
        ("one_hot", [INDEX, ONE, ONE], {"depth": -1}, "depth must be >= 0, got -1"),
        ("one_hot", [INDEX, ONE, ONE], {"depth": 2, "axis": 2}, "axis 2 is out of range for rank 2"),
    ],
)
def test_errors(op: str, inputs: list[Array], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of(op, [np.asarray(v) for v in inputs], attrs)
