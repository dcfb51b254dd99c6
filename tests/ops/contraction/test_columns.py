"""Sums over windows with a stride, from copies for each column of the window: of stored integers, exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction import columns
from gpunn.ops.contraction.blocks import Terms, summed
from gpunn.ops.contraction.conv_sums import sums_by_channel
from gpunn.ops.kernels.window import resolve
from gpunn.ops.memory import Memory
from tests.ops.contraction.test_prepared import sums

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 9, 8, 5), {"stride": (2, 2), "padding": "same"}),
    ((3, 12, 15, 64), {"stride": (1, 2), "padding": ((1, 0), (2, 3))}),
    ((1, 45, 40, 37), {"stride": (2, 3), "padding": "same"}),
    ((1, 33, 35, 64), {"stride": (2, 2), "padding": "same"}),
    ((1, 67, 31, 96), {"stride": (2, 2), "padding": "valid"}),
    ((2, 32, 30, 96), {"stride": (3, 2), "dilation": (2, 3), "padding": ((0, 2), (5, 1))}),
]


@pytest.mark.parametrize(("shape", "attrs"), CASES, ids=str)
@pytest.mark.parametrize(("subtracted", "around"), [(7, 0), (0, 7)])
@pytest.mark.parametrize("times", [1, 2])
def test_sums_of_stored_integers(
    shape: tuple[int, ...], attrs: dict[str, Any], subtracted: int, around: int, times: int
) -> None:
    rng = np.random.default_rng(0)
    filter = rng.integers(-127, 128, (1, 3, 3, times * shape[3])).astype(np.float32)
    window = resolve(
        (shape[1], shape[2]), (3, 3), attrs["stride"], attrs.get("dilation", (1, 1)), attrs["padding"]
    )
    dtype = np.dtype(np.float32)
    made = sums_by_channel(window, shape, filter, Terms(dtype, subtracted, around, exact=True))
    with Memory().in_use():
        for _ in range(2):  # the padding of small images stays in memory
            x = rng.integers(0, 256, shape, np.uint8)
            found = summed(made, x, (shape[0], *window.out, filter.shape[3]), dtype)
            wanted = sums("depthwise_conv2d", x.astype(np.int64) - 7, filter, np.zeros(1), attrs)
            if around:  # the sums are those of x as it is stored, amid padding with the same value
                wanted = wanted + 7 * filter.sum((0, 1, 2))
            np.testing.assert_array_equal(found, wanted)


def test_the_cases_are_cast_before_and_while_they_are_copied() -> None:
    both = {shape[3] < columns.FEW_CAST or math.prod(shape[1:]) <= columns.SMALL_CAST for shape, _ in CASES}
    assert both == {False, True}
