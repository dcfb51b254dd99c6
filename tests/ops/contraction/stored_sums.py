"""What tests of exact sums of convolutions on the host have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.ops.contraction.blocks import Terms, summed
from gpunn.ops.contraction.conv_sums import rows_of, sums_of
from gpunn.ops.kernels.window import Window, resolve
from gpunn.ops.memory import Memory
from gpunn.types import Array
from tests.ops.contraction.test_prepared import sums

SINGLE = np.dtype(np.float32)
ZERO = 7  # the zero point of x
WAYS = [(ZERO, 0), (0, ZERO)]  # what is subtracted from x, and what is around it

# x [N, H, W, C], filter [O, KH, KW, I], and attributes.
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]


def window_of(shape: tuple[int, ...], size: tuple[int, ...], attrs: dict[str, Any]) -> Window:
    """Return the window of a case."""
    stride, dilation = attrs.get("stride", (1, 1)), attrs.get("dilation", (1, 1))
    return resolve((shape[1], shape[2]), (size[1], size[2]), stride, dilation, attrs["padding"])


def check_sums(shape: tuple[int, ...], filter: Array, attrs: dict[str, Any], terms: Terms) -> None:
    """Compare the sums of random x with those of its reference in integers; terms: one of WAYS."""
    window = window_of(shape, filter.shape, attrs)
    made = sums_of(window, shape, filter, np.ascontiguousarray(rows_of(filter).T), terms)
    rng = np.random.default_rng(1)
    with Memory().in_use():
        for _ in range(2):  # the padding of small images stays in memory
            x = rng.integers(0, 256, shape, np.uint8)
            found = summed(made, x, (shape[0], *window.out, len(filter)), SINGLE)
            wanted = sums("conv2d", x.astype(np.int64) - ZERO, filter, np.zeros(1), attrs)
            if terms.around:  # the sums are those of x as it is stored, amid padding with the same value
                wanted = wanted + ZERO * filter.sum((1, 2, 3))
            np.testing.assert_array_equal(found, wanted)
