"""Positions of maxima in their windows: by hand, cell by cell in plain loops, and back again."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.kernels.window import resolve
from gpunn.types import Array
from tests.ops.harness import check, model_of, random

WINDOWS: tuple[dict[str, Any], ...] = (
    {"size": (2, 2), "stride": (2, 2)},
    {"size": (3, 2), "stride": (1, 1), "padding": "same"},
    {"size": (2, 3), "stride": (2, 1), "padding": "same"},
    {"size": (3, 3), "stride": (2, 2), "padding": ((1, 0), (2, 1))},
    {"size": (1, 2), "stride": (3, 3)},
    {"size": (4, 5), "stride": (3, 2), "padding": "same"},
)
windows = pytest.mark.parametrize("attrs", WINDOWS, ids=str)
channels = pytest.mark.parametrize("channels", [1, 3, 4, 8])


def positions_of(x: Array, attrs: dict[str, Any]) -> Array:
    """The first greatest cell of each window, by a walk through its cells."""
    shape = (x.shape[1], x.shape[2])
    window = resolve(shape, attrs["size"], attrs["stride"], (1, 1), attrs.get("padding", "valid"))
    found = np.zeros((x.shape[0], *window.out, x.shape[3]), np.int32)
    for place in np.ndindex(*found.shape):
        image, row, column, channel = place
        best = None
        for number, (ky, kx) in enumerate(itertools.product(*map(range, attrs["size"]))):
            y = row * attrs["stride"][0] - window.before[0] + ky
            z = column * attrs["stride"][1] - window.before[1] + kx
            if 0 <= y < shape[0] and 0 <= z < shape[1]:
                value = x[image, y, z, channel]
                if best is None or value > best:
                    best, found[place] = value, number
    return found


@windows
@channels
def test_positions_are_those_of_a_walk(attrs: dict[str, Any], channels: int, backend: str) -> None:
    for seed, shape in enumerate(((2, 7, 9), (1, 4, 5), (3, 6, 6), (0, 4, 5))):
        x = random(seed, *shape, channels)
        (found,) = check("arg_max_pool2d", [x], attrs, backend=backend)
        np.testing.assert_array_equal(found, positions_of(x, attrs))
        steps = np.round(x).astype(np.int8)  # many equal values
        (found,) = check("arg_max_pool2d", [steps], attrs, backend=backend)
        np.testing.assert_array_equal(found, positions_of(steps, attrs))


def test_padding_is_no_maximum_of_the_lowest_numbers(backend: str) -> None:
    attrs: dict[str, Any] = {"size": (3, 2), "stride": (2, 1), "padding": ((2, 1), (1, 1))}
    for lowest, dtype in ((-np.inf, np.float32), (-128, np.int8), (0, np.uint8)):
        x = np.full((1, 4, 5, 3), lowest, dtype)
        (found,) = check("arg_max_pool2d", [x], attrs, backend=backend)
        np.testing.assert_array_equal(found, positions_of(x, attrs))


def test_windows_of_many_cells(backend: str) -> None:
    attrs: dict[str, Any] = {"size": (17, 16), "stride": (2, 1), "padding": "same"}
    for x in (random(0, 1, 19, 18, 2), np.zeros((1, 19, 18, 2), np.int8)):
        (found,) = check("arg_max_pool2d", [x], attrs, backend=backend)
        np.testing.assert_array_equal(found, positions_of(x, attrs))


def test_positions_by_hand(backend: str) -> None:
    """A tie goes to the first, padding never wins, NaN and -inf are found."""
    rows = [[1, 5, -7, -2], [5, 2, -3, -2], [np.nan, 9, -np.inf, -np.inf], [1, np.nan, -np.inf, -np.inf]]
    x = np.array(rows, np.float32).reshape(1, 4, 4, 1)
    attrs: dict[str, Any] = {"size": (2, 2), "stride": (2, 2)}
    (found,) = check("arg_max_pool2d", [x], attrs, backend=backend)
    assert found.reshape(2, 2).tolist() == [[1, 1], [0, 0]]
    padded = {"size": (3, 3), "stride": (3, 3), "padding": ((1, 1), (1, 1))}
    (found,) = check("arg_max_pool2d", [-np.abs(x[:, :2])], padded, backend=backend)
    assert found.reshape(1, 2).tolist() == [[4, 4]]  # -1 in the first window, the first -2 in the second


def unpooled(x: Array, positions: Array, size: tuple[int, int], stride: tuple[int, int]) -> Array:
    """What MediaPipe's kernel says, value by value."""
    batch, height, width, channels = x.shape
    result = np.zeros((batch, height * size[0], width * size[1], channels), x.dtype)
    before = [
        max(((n - 1) * s + k - n * k) // 2, 0) for n, k, s in zip((height, width), size, stride, strict=True)
    ]
    for image, row, column, channel in np.ndindex(*x.shape):
        position = int(positions[image, row, column, channel])
        if 0 <= position < size[0] * size[1]:
            y = row * stride[0] - before[0] + position // size[1]
            z = column * stride[1] - before[1] + position % size[1]
            if 0 <= y < result.shape[1] and 0 <= z < result.shape[2]:
                result[image, y, z, channel] = x[image, row, column, channel]
    return result


@pytest.mark.parametrize(
    ("size", "stride"),
    [
        ((2, 2), (2, 2)),
        ((3, 2), (3, 2)),
        ((3, 3), (1, 2)),
        ((2, 1), (4, 3)),
        ((1, 1), (1, 1)),
        ((2, 4), (5, 1)),
    ],
)
@channels
def test_values_are_put_back(
    size: tuple[int, int], stride: tuple[int, int], channels: int, backend: str
) -> None:
    for seed, shape in enumerate(((2, 3, 4), (1, 1, 1), (1, 5, 2), (0, 2, 2))):
        x = random(seed, *shape, channels)
        positions = np.random.default_rng(seed).integers(-2, size[0] * size[1] + 2, x.shape).astype(np.int32)
        attrs = {"size": size, "stride": stride}
        (found,) = check("max_unpool2d", [x, positions], attrs, backend=backend)
        np.testing.assert_array_equal(found, unpooled(x, positions, size, stride))
        check("max_unpool2d", [x, positions], attrs, backend=backend, constants=(1,))


def test_unpooling_by_hand(backend: str) -> None:
    x = np.array([[7, 8]], np.float32).reshape(1, 1, 2, 1)
    positions = np.array([[2, 1]], np.int32).reshape(x.shape)
    (found,) = check("max_unpool2d", [x, positions], {"size": (2, 2), "stride": (2, 2)}, backend=backend)
    assert found.reshape(2, 4).tolist() == [[0, 0, 0, 8], [7, 0, 0, 0]]
    positions = np.array([[1, 0]], np.int32).reshape(x.shape)  # both at the second column: the last one stays
    (found,) = check("max_unpool2d", [x, positions], {"size": (1, 2), "stride": (1, 1)}, backend=backend)
    assert found.reshape(1, 4).tolist() == [[0, 8, 0, 0]]


def test_a_pool_and_back_keeps_the_maxima(backend: str) -> None:
    x = random(0, 2, 6, 8, 5)
    attrs = {"size": (2, 2), "stride": (2, 2)}
    (positions,) = check("arg_max_pool2d", [x], attrs, backend=backend)
    (maxima,) = check("max_pool2d", [x], attrs, backend=backend)
    (found,) = check("max_unpool2d", [maxima, positions], attrs, backend=backend)
    np.testing.assert_array_equal(found[found != 0], x[found != 0])
    assert np.count_nonzero(found) == maxima.size


@pytest.mark.parametrize(
    ("shape", "size", "stride", "message"),
    [
        ((1, 2, 2, 3), (2, 2), (0, 1), "stride must be two numbers of at least 1"),
        ((1, 2, 2, 3), (2, 0), (1, 1), "size must be two numbers of at least 1"),
        ((1, 2, 2, 1), (2, 2), (1, 1), "positions must have the shape of the values"),
        ((1, 2, 2, 3), (1 << 20, 1 << 20), (1, 1), "unpooled"),
    ],
)
def test_unpooling_refuses(
    shape: tuple[int, ...], size: tuple[int, int], stride: tuple[int, int], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        attrs = {"size": size, "stride": stride}
        model_of("max_unpool2d", [random(0, 1, 2, 2, 3), np.zeros(shape, np.int32)], attrs)
