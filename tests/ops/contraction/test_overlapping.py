"""Convolutions with few output channels on the host: products of windows that overlap in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction import overlapping
from gpunn.ops.kernels.window import resolve
from tests.ops.contraction.test_conv import run
from tests.ops.harness import random


def suits(shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any]) -> bool:
    """Tell whether a convolution is computed so."""
    given = {"stride": (1, 1), "dilation": (1, 1), "padding": "valid", **attrs}
    height, width = shape[1:3]
    size = filter[1], filter[2]
    window = resolve((height, width), size, given["stride"], given["dilation"], given["padding"])
    return overlapping.suits(window, shape, np.empty(filter, np.float32))


@pytest.mark.parametrize(
    ("shape", "filter", "attrs"),
    [
        ((1, 40, 37, 16), (3, 3, 3, 16), {"padding": "same", "activation": "relu"}),  # one block
        ((1, 150, 83, 12), (3, 3, 3, 12), {"padding": "same"}),  # several blocks, the last one smaller
        ((1, 150, 83, 12), (5, 9, 7, 12), {}),
        ((3, 47, 61, 5), (7, 3, 3, 5), {"padding": ((2, 0), (0, 3)), "activation": "tanh"}),
        ((2, 70, 90, 11), (24, 3, 5, 11), {"padding": "same", "stride": (1, 2)}),
        ((5, 90, 95, 8), (1, 3, 7, 8), {"stride": (2, 3), "dilation": (3, 1)}),
        ((1, 1, 5000, 9), (2, 1, 5, 9), {"padding": "same"}),
        ((40, 9, 32, 9), (2, 3, 2, 9), {"padding": "same"}),  # several images in a block
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_windows_overlap(
    shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any], bias: bool
) -> None:
    assert suits(shape, filter, attrs)
    run("cpu", random(1, *shape), random(2, *filter), random(3, filter[0]) if bias else None, attrs)


def test_what_a_window_does_not_see_counts_for_nothing() -> None:
    x, filter = random(1, 1, 64, 40, 8), random(2, 3, 3, 3, 8)
    assert suits(x.shape, filter.shape, {})
    x[0, 30, 20, 3], x[0, 63, 39, 0] = np.nan, np.inf
    run("cpu", x, filter, None, {})


@pytest.mark.parametrize(
    ("shape", "filter", "attrs"),
    [
        ((1, 40, 37, 16), (3, 3, 3, 8), {}),  # groups
        ((1, 40, 37, 16), (3, 3, 3, 16), {"dilation": (1, 2)}),
        ((1, 80, 80, 16), (3, 3, 3, 16), {"stride": (2, 2)}),  # windows hardly overlap
        ((1, 40, 37, 16), (64, 3, 3, 16), {}),
        ((1, 12, 12, 16), (3, 3, 3, 16), {}),
    ],
)
def test_other_convolutions_copy_what_windows_see(
    shape: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    assert not suits(shape, filter, attrs)
