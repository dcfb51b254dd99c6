"""Exact sums of convolutions on the host: products of rows of the window, each by itself, in equal parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction import blocks
from gpunn.ops.contraction.blocks import Terms, summed
from gpunn.ops.contraction.conv_sums import FEWEST_CELLS, rows_of, sums_of
from gpunn.ops.kernels.window import resolve
from gpunn.ops.memory import Memory
from tests.ops.contraction.test_prepared import sums

# x [N, H, W, C], filter [O, KH, KW, I] and attributes; all but the last ones have a product for each row.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 9, 8, 11), (13, 3, 3, 11), {"padding": "same"}),
    ((3, 12, 15, 16), (48, 3, 3, 16), {"padding": "same"}),
    ((2, 8, 9, 37), (5, 2, 1, 37), {"padding": "valid"}),
    ((2, 17, 13, 18), (16, 5, 2, 18), {"padding": ((3, 1), (0, 2)), "dilation": (2, 3)}),
    ((1, 33, 32, 16), (16, 3, 3, 16), {"padding": "same"}),  # in one call, in equal parts
    ((2, 9, 8, 10), (13, 3, 3, 10), {"padding": "same"}),
    ((2, 9, 8, 11), (34, 3, 3, 11), {"padding": "same"}),
    ((1, 9, 8, 32), (6, 3, 3, 16), {"padding": "same"}),
    ((1, 9, 8, 16), (16, 3, 3, 16), {"padding": "same", "stride": (1, 2)}),
]


@pytest.mark.parametrize(("shape", "size", "attrs"), CASES, ids=str)
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("subtracted", "around"), [(7, 0), (0, 7)])
def test_sums_of_stored_integers(
    shape: tuple[int, ...],
    size: tuple[int, ...],
    attrs: dict[str, Any],
    few: bool,
    subtracted: int,
    around: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if few:  # pixels in a block, and rows in a part of a product
        monkeypatch.setattr(blocks, "LEAST_ROWS", 24)
        monkeypatch.setattr(blocks, "BLOCK", 1)
        monkeypatch.setattr(blocks, "SMALL_PRODUCT", 9 * np.prod(size))
        monkeypatch.setattr(blocks, "_parts", blocks._parts.__wrapped__)
    rng = np.random.default_rng(0)
    filter = rng.integers(-127, 128, size).astype(np.float32)
    stride, dilation = attrs.get("stride", (1, 1)), attrs.get("dilation", (1, 1))
    window = resolve((shape[1], shape[2]), (size[1], size[2]), stride, dilation, attrs["padding"])
    dtype = np.dtype(np.float32)
    matrix = np.ascontiguousarray(rows_of(filter).T)
    made = sums_of(window, shape, filter, matrix, Terms(dtype, subtracted, around, exact=True))
    with Memory().in_use():
        for _ in range(2):  # the padding of small images stays in memory
            x = rng.integers(0, 256, shape, np.uint8)
            found = summed(made, x, (shape[0], *window.out, len(filter)), dtype)
            wanted = sums("conv2d", x.astype(np.int64) - 7, filter, np.zeros(1), attrs)
            if around:  # the sums are those of x as it is stored, amid padding with the same value
                wanted = wanted + 7 * np.tile(filter.sum((1, 2, 3)), 1)
            np.testing.assert_array_equal(found, wanted)


def test_rows_have_products_of_their_own_in_the_first_cases() -> None:
    apart = [
        FEWEST_CELLS <= size[2] * size[3] >= size[0] and shape[3] == size[3] and "stride" not in attrs
        for shape, size, attrs in CASES
    ]
    assert apart == [True] * 5 + [False] * 4
