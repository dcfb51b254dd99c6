"""Scatters of values, and the order in which many updates of one place are added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, model_of, random

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
MANY = 1000  # updates: four blocks, merged in two steps, the last one not full


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def typed(seed: int, shape: tuple[int, ...], dtype: Any) -> Array:
    return random(seed, *shape, low=0, high=100).astype(dtype)


def names(seed: int, count: int, extents: tuple[int, ...]) -> Array:
    """Return rows of numbers below `extents`."""
    columns = [np.random.default_rng((seed, n)).integers(0, n, count) for n in extents]
    return np.stack(columns, axis=-1).astype(np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize(
    ("index", "shape", "shared"),
    [
        (ints([0, 1], [2, 3], [0, 1]), (3, 4), False),
        (ints([1, 2, 3]), (2, 3, 4), True),
        (ints(4, 0), (5,), False),
        (np.array(3, np.int32), (5,), True),
        (ints(7, 2, 7), (9,), True),
        (np.zeros((0, 2), np.int32), (2, 2), False),
        (np.zeros((0, 2), np.int32), (0, 3), False),
        (names(0, MANY, (7, 5)), (7, 5), False),
        (names(0, 257, (2, 1, 2, 1, 3)), (2, 1, 2, 1, 3), False),
    ],
)
def test_sparse_to_dense(
    index: Array, shape: tuple[int, ...], shared: bool, dtype: Any, backend: str
) -> None:
    places = index.reshape(-1, len(shape))
    values = typed(0, () if shared else (len(places),), dtype)
    inputs = [index, values, np.array(1, dtype)]
    for constants in ((), (0,)):
        (y,) = check("sparse_to_dense", inputs, {"shape": shape}, backend=backend, constants=constants)
    expected = np.full(shape, 1, dtype)
    for k, place in enumerate(places):
        expected[tuple(place)] = values if shared else values[k]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (ints([1], [3], [1]), (5, 4)),
        (ints([0, 1], [2, 0]), (3, 2)),
        (ints([[2], [0]], [[2], [2]]), (3, 2, 2)),
        (np.zeros((0, 1), np.int32), (2, 2)),
        (np.zeros((0, 1), np.int32), (0, 2)),
        (np.zeros((3, 0), np.int32), (2, 2)),
        (np.zeros((2, 3, 0), np.int32), ()),
        (ints([2, 1, 0, 1, 0]), (3, 2, 1, 2, 1, 3)),
        (names(0, MANY, (4, 3)), (4, 3, 3)),
    ],
)
def test_scatter(index: Array, shape: tuple[int, ...], dtype: Any, backend: str) -> None:
    updates = typed(0, (*index.shape[:-1], *shape[index.shape[-1] :]), dtype)
    # Each of the sums of up to MANY terms below 100 rounds as often as there are terms.
    close: dict[str, Any] = {"rtol": len(index) * 2.0**-24 + 1e-6}
    for constants in ((), (0,)):
        (y,) = check(
            "scatter_nd", [index, updates], {"shape": shape}, backend=backend, constants=constants, **close
        )
    expected = np.zeros(shape, dtype if dtype is np.bool_ else np.float64)
    for place in np.ndindex(index.shape[:-1]):
        expected[tuple(index[place])] += updates[place]
    np.testing.assert_allclose(y, expected % 256 if dtype is np.uint8 else expected, **close)


def test_operations_are_counted_by_updates() -> None:
    index = np.zeros((7, 1), np.int32)
    for op, inputs, attrs in (
        ("scatter_nd", [index, random(0, 7, 3)], {"shape": (2, 3)}),
        ("segment_sum", [random(0, 7, 3), index[:, 0]], {"segments": 2}),
    ):
        (operation,) = model_of(op, inputs, attrs).operations
        assert operation.definition.count_flops(operation.call()) == 21
    sums = [index[:, 0], index, random(0, 7), random(0, 2, 3)]
    (operation,) = model_of("embedding_lookup_sparse", sums, {"shape": (1,)}).operations
    assert operation.definition.count_flops(operation.call()) == 42


def test_sums_are_in_the_order_of_the_updates(backend: str) -> None:
    """A small number added to a large one is lost; added after the opposite of the large one, it is not."""
    terms = np.tile(np.array([1, 2.0**30, 3, -(2.0**30), 5], np.float32), 200)
    index = np.zeros((MANY, 1), np.int32)
    index[::7] = 1  # and other rows between them
    expected = np.zeros(2, np.float32)
    for place, term in zip(index[:, 0], terms, strict=True):
        expected[place] += term
    with model_of("scatter_nd", [index, terms], {"shape": (2,)}).compile(backend=backend) as compiled:
        assert compiled(index, terms).tolist() == expected.tolist()


@pytest.mark.parametrize(("dtype", "row"), [(np.float32, 4), (np.int64, 1), (np.float16, 1)])
def test_many_updates_of_one_row(dtype: Any, row: int, backend: str) -> None:
    """More than an invocation may add up: 130,000 of one row, and some of rows before and after it."""
    index = np.full((130_000, 1), 1, np.int32)
    index[[5, 70_000]] = [[0], [2]]
    updates = np.zeros((130_000, row), dtype)
    updates[[3, 5, 64_899, 64_900, 64_901, 70_000, 129_999]] = np.arange(1, 8)[:, None]
    check("scatter_nd", [index, updates], {"shape": (3, row)}, backend=backend, **EXACT)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_many_updates_of_many_rows(dtype: Any, backend: str) -> None:
    """Ten thousand updates of as many rows: six merges; integers wrap around, indices are of their dtype."""
    index = names(1, 10_000, (9_999,))
    least = int(np.iinfo(dtype).min)
    updates = np.random.default_rng(2).integers(least, -least, (10_000, 2), dtype=dtype)
    inputs = [index.astype(dtype), updates]
    (y,) = check("scatter_nd", inputs, {"shape": (9_999, 2)}, backend=backend)
    expected = np.zeros((9_999, 2), object)
    for place, update in zip(index[:, 0], updates.astype(object), strict=True):
        expected[place] += update
    np.testing.assert_array_equal(y, (expected - least) % (-2 * least) + least)


@pytest.mark.parametrize("constants", [(), (0,)])
@pytest.mark.parametrize("shape", [(70, 70), (4097,), (90, 50, 4), (4096, 3)])
def test_a_list_of_the_first_updates_of_many_rows(
    shape: tuple[int, ...], constants: tuple[int, ...], hardware: str
) -> None:
    """Most rows have none, some several; the first and the last one have some."""
    depth = min(len(shape), 2) if shape[-1] > 4 else len(shape) - 1
    index = np.concatenate([names(1, MANY, tuple(n // 2 for n in shape[:depth])), np.zeros((2, depth))])
    index = np.concatenate([index, [np.array(shape[:depth]) - 1]]).astype(np.int32)
    updates = random(2, len(index), *shape[depth:]).round()
    check("scatter_nd", [index, updates], {"shape": shape}, backend=hardware, constants=constants, **EXACT)


@pytest.mark.parametrize("wrong", [-1, 4, -(2**31), 2**31 - 1])
def test_an_index_out_of_range_is_an_error(wrong: int, backend: str) -> None:
    index, x, one = ints([0, 1], [1, wrong]), random(0, 2), random(0)
    for op, inputs in (("scatter_nd", [index, x]), ("sparse_to_dense", [index, x, one])):
        message = rf"{op}: indices must be in 0 \.\.\. 3, got {wrong}"
        with (
            model_of(op, inputs, {"shape": (2, 4)}).compile(backend=backend) as compiled,
            pytest.raises(ModelError, match=message),
        ):
            compiled(*inputs)
        with pytest.raises(ModelError, match=message):
            model_of(op, inputs, {"shape": (2, 4)}, (0,)).compile(backend=backend)(*inputs[1:])


def test_sparse_to_dense_errors() -> None:
    one, three = random(0), random(0, 3)
    for indices, values, default, shape, message in (
        (np.zeros((2, 3)), one, one, (2, 2), "do not name elements of shape"),
        (np.zeros((2, 2)), three, one, (2, 2), "one value, or 2, got"),
        (np.zeros((2, 2)), one, three, (2, 2), "the default must be one element"),
        (np.zeros(()), one, one, (2, -1), "shape must be >= 0"),
    ):
        with pytest.raises(ModelError, match=message):
            model_of("sparse_to_dense", [indices.astype(np.int32), values, default], {"shape": shape})


@pytest.mark.parametrize(
    ("index", "updates", "shape", "message"),
    [
        ((2,), (), (2,), "do not name slices of shape"),
        ((2,), (2, 2), (2,), "do not name slices of shape"),
        ((2, 1), (2,), (2, 3), r"updates must have shape \[2, 3\]"),
    ],
)
def test_errors(
    index: tuple[int, ...], updates: tuple[int, ...], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ModelError, match=f"scatter_nd: .*{message}"):
        model_of("scatter_nd", [np.zeros(index, np.int32), random(0, *updates)], {"shape": shape})
