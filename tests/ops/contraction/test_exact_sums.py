"""Exact sums of convolutions on the host: products of rows of the window, each by itself, in equal parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction import blocks
from gpunn.ops.contraction.blocks import Terms
from gpunn.ops.contraction.conv_sums import FEWEST_CELLS
from tests.ops.contraction.stored_sums import SINGLE, WAYS, Case, check_sums

# All but the last ones have a product for each row.
CASES: list[Case] = [
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
@pytest.mark.parametrize("way", WAYS)
def test_sums_of_stored_integers(
    shape: tuple[int, ...],
    size: tuple[int, ...],
    attrs: dict[str, Any],
    few: bool,
    way: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if few:  # pixels in a block, and rows in a part of a product
        monkeypatch.setattr(blocks, "LEAST_ROWS", 24)
        monkeypatch.setattr(blocks, "BLOCK", 1)
        monkeypatch.setattr(blocks, "SMALL_PRODUCT", 9 * np.prod(size))
        monkeypatch.setattr(blocks, "_parts", blocks._parts.__wrapped__)
    filter = np.random.default_rng(0).integers(-127, 128, size).astype(np.float32)
    check_sums(shape, filter, attrs, Terms(SINGLE, *way, exact=True))


def test_rows_have_products_of_their_own_in_the_first_cases() -> None:
    apart = [
        FEWEST_CELLS <= size[2] * size[3] >= size[0] and shape[3] == size[3] and "stride" not in attrs
        for shape, size, attrs in CASES
    ]
    assert apart == [True] * 5 + [False] * 4
