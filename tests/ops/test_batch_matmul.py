"""Products of stacks of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array, DType, float32
from tests.ops.harness import ATOL, EPS, check, check_litert, model_of, random
from tests.ops.quantized import check_integer, quantized, stored

SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...], int, int, int], ...] = (
    # Batch dimensions of a and of b; rows, depth, columns.
    ((), (), 3, 5, 4),
    ((2,), (2,), 1, 7, 3),
    ((2, 3), (2, 3), 4, 4, 4),
    ((2, 1), (3,), 2, 3, 5),
    ((3,), (), 5, 70, 2),
    ((), (2, 2), 2, 1, 9),
    ((2, 1, 3), (4, 1), 2, 3, 1),
    ((0,), (1,), 2, 3, 4),
    ((2,), (2,), 2, 0, 3),
)


def bound(a: Array, b: Array, depth: int) -> float:
    """How far a sum of `depth` products can be off: see tolerance() in test_conv.py."""
    largest = float(np.abs(a).max(initial=0) * np.abs(b).max(initial=0))
    return max(ATOL, depth * depth * EPS / 2 * largest)


def matrices(batch: tuple[int, ...], rows: int, columns: int, adjoint: bool, seed: int) -> Array:
    """A stack of matrices as attribute adj_a or adj_b wants it."""
    return random(seed, *batch, *((columns, rows) if adjoint else (rows, columns)))


@pytest.mark.parametrize("adj_a", [False, True])
@pytest.mark.parametrize("adj_b", [False, True])
def test_batch_matmul(adj_a: bool, adj_b: bool, backend: str) -> None:
    for left, right, rows, depth, columns in SHAPES:
        a, b = matrices(left, rows, depth, adj_a, 0), matrices(right, depth, columns, adj_b, 1)
        attrs = {"adj_a": adj_a, "adj_b": adj_b}
        check("batch_matmul", [a, b], attrs, backend=backend, atol=bound(a, b, depth))


def test_batches_that_cannot_be_merged_run_on_the_host(backend: str) -> None:
    a, b = random(0, 2, 1, 2, 1, 2, 2, 3), random(1, 1, 2, 1, 2, 1, 3, 2)
    check("batch_matmul", [a, b], backend=backend, host="5 batch dimensions", atol=bound(a, b, 3))


def test_quantised_products_go_through_reals(backend: str) -> None:
    types = [quantized(DType.INT8, (2, 3, 4), 0.1, 3), quantized(DType.INT8, (4, 5), 0.2, -1)]
    inputs = [stored(k, t) for k, t in enumerate(types)]
    output, host = quantized(DType.INT8, (), 2.0).quantization, "no GPU kernel for quantised tensors"
    (y,) = check_integer("batch_matmul", inputs, types, {}, output, backend=backend, host=host)
    real = 0.1 * (inputs[0] - 3.0) @ (0.2 * (inputs[1] + 1.0))
    assert np.abs(y * 2.0 - np.clip(real, -256, 254)).max() <= 1.0 + 1e-4


def test_agrees_with_litert() -> None:
    for left, right, rows, depth, columns in SHAPES[1:7]:
        for adj_a in (False, True):
            for adj_b in (False, True):
                a, b = matrices(left, rows, depth, adj_a, 0), matrices(right, depth, columns, adj_b, 1)
                options = {"adj_x": adj_a, "adj_y": adj_b}
                attrs: dict[str, Any] = {"adj_a": adj_a, "adj_b": adj_b}
                check_litert("batch_matmul", [a, b], attrs, "BATCH_MATMUL", options, atol=bound(a, b, depth))


@pytest.mark.parametrize(
    ("a", "b", "attrs", "message"),
    [
        ((3,), (3, 2), {}, "input 0 must have rank 2 or more"),
        ((2, 3), (2, 3), {}, "matrices of 2 x 3 and 2 x 3 cannot be multiplied"),
        ((2, 3), (2, 3), {"adj_a": True, "adj_b": True}, "matrices of 3 x 2 and 3 x 2"),
        ((2, 2, 3), (3, 3, 2), {}, r"shapes \[2\] and \[3\] cannot be broadcast"),
        ((2, 3), (3, 2), {"adj_a": 1}, "adj_a must be True or False"),
    ],
)
def test_errors(a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"batch_matmul: {message}"):
        model_of("batch_matmul", [random(0, *a), random(1, *b)], attrs)


def test_integers_are_refused() -> None:
    with pytest.raises(ModelError, match="batch_matmul: input 0 must be float32 or float16, got int32"):
        model_of("batch_matmul", [np.zeros((2, 2), np.int32)] * 2, {})


def test_a_tensor_times_itself(backend: str) -> None:
    """Squares reach 48, so that three times bound() of them covers what they are off by themselves."""
    model = Model("square")
    x = model.input("x", float32(2, 3, 3))
    (square,) = model.add("batch_matmul", [x, x])
    model.output(*model.add("batch_matmul", [square, square], {"adj_b": True}))
    values = random(0, 2, 3, 3)
    with model.compile(backend=backend) as compilation:
        squared = values.astype(np.float64) @ values
        expected = squared @ np.swapaxes(squared, 1, 2)
        np.testing.assert_allclose(compilation(values), expected, rtol=0, atol=3 * 9 * EPS / 2 * 48**2)
