"""Diagonals of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, model_of, random

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}


DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16, np.int8])


def typed(seed: int, shape: tuple[int, ...], dtype: Any) -> Array:
    return random(seed, *shape, high=100).astype(dtype)


@DTYPES
@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 1), (0, 2), (2, 0)])
def test_diagonal_matrices(shape: tuple[int, ...], dtype: Any, backend: str) -> None:
    x = typed(0, shape, dtype)
    (y,) = check("matrix_diag", [x], backend=backend, **EXACT)
    np.testing.assert_array_equal(y, x[..., None] * np.eye(shape[-1], dtype=dtype))


@DTYPES
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (5, 2, 4), (0, 2, 2), (3, 0)])
def test_diagonals_set(shape: tuple[int, ...], dtype: Any, backend: str) -> None:
    x, diagonal = typed(0, shape, dtype), typed(1, (*shape[:-2], min(shape[-2:])), dtype)
    kept = x.copy()
    (y,) = check("matrix_set_diag", [x, diagonal], backend=backend, **EXACT)
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(np.diagonal(y, axis1=-2, axis2=-1), diagonal)
    outside = ~np.eye(*shape[-2:], dtype=bool)
    np.testing.assert_array_equal(y[..., outside], x[..., outside])


def test_errors() -> None:
    for op, inputs, message in (
        ("matrix_diag", [random(0)], "needs a rank of 1 or more"),
        ("matrix_set_diag", [random(0, 3), random(0, 3)], "needs matrices"),
        ("matrix_set_diag", [random(0, 3, 2), random(0, 3)], r"should have shape \[2\]"),
        ("matrix_set_diag", [random(0, 3, 2), np.zeros(2, np.int32)], "the type of"),
    ):
        with pytest.raises(ModelError, match=f"{op}: .*{message}"):
            model_of(op, inputs, {})
