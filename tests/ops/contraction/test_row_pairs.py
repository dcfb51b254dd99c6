"""Winograd's convolution of two rows of the result at a time, on the host: exact, or not used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction import blocks, row_pairs
from gpunn.ops.contraction.blocks import Terms, summed
from gpunn.ops.contraction.conv_sums import rows_of, sums_of
from gpunn.ops.contraction.pieces import Piece
from gpunn.ops.contraction.row_pairs import row_pair_pieces
from gpunn.ops.kernels.window import Window
from gpunn.types import Array
from tests.ops.contraction.stored_sums import SINGLE, WAYS, Case, check_sums, window_of
from tests.ops.contraction.test_prepared import sums

CASES: list[Case] = [
    ((1, 8, 7, 25), (24, 3, 3, 25), {"padding": "same"}),
    ((3, 14, 5, 24), (37, 3, 3, 24), {"padding": "same"}),
    ((2, 10, 9, 29), (26, 3, 1, 29), {"padding": "valid"}),
    ((2, 7, 13, 24), (32, 3, 2, 24), {"padding": ((0, 1), (4, 2)), "dilation": (1, 3)}),
    ((1, 3, 6, 24), (24, 3, 3, 24), {"padding": ((4, 3), (0, 0))}),
    ((1, 2, 33, 32), (32, 3, 3, 32), {"padding": "same"}),
]
OTHERS: list[Case] = [
    ((1, 9, 8, 24), (24, 3, 3, 24), {"padding": "same"}),  # an odd number of rows
    ((1, 8, 8, 23), (24, 3, 3, 23), {"padding": "same"}),
    ((1, 8, 8, 24), (23, 3, 3, 24), {"padding": "same"}),
    ((1, 8, 8, 48), (48, 3, 3, 24), {"padding": "same"}),  # groups
    ((1, 8, 8, 24), (24, 5, 3, 24), {"padding": "same"}),
    ((1, 8, 8, 24), (24, 3, 3, 24), {"padding": "same", "stride": (1, 2)}),
    ((1, 8, 8, 24), (24, 3, 3, 24), {"padding": "same", "dilation": (2, 1)}),
]


def pieces_of(
    window: Window, shape: tuple[int, ...], filter: Array, terms: Terms, pixels: int = 1 << 20
) -> list[Piece] | None:
    return row_pair_pieces(window, shape, filter.shape, rows_of(filter).T, terms, pixels)


def filter_of(size: tuple[int, ...], most: int = 60) -> Array:
    return np.random.default_rng(0).integers(-most, most + 1, size).astype(np.float32)


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
    if few:  # pixels in a block: an odd number of rows, and one more
        monkeypatch.setattr(blocks, "LEAST_ROWS", shape[2])
        monkeypatch.setattr(blocks, "BLOCK", 1)
    filter, window = filter_of(size), window_of(shape, size, attrs)
    terms = Terms(SINGLE, *way, exact=True, most=255)
    pieces = pieces_of(window, shape, filter, terms, shape[2] if few else 1 << 20)
    assert pieces is not None and (len(pieces) > 1) == (few and shape[0] * window.out[0] > 2)
    check_sums(shape, filter, attrs, terms)


@pytest.mark.parametrize(("shape", "size", "attrs"), OTHERS, ids=str)
def test_other_windows_and_filters_have_none(
    shape: tuple[int, ...], size: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    terms = Terms(SINGLE, exact=True, most=255)
    assert pieces_of(window_of(shape, size, attrs), shape, filter_of(size), terms) is None


def test_large_filters_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    (shape, size, attrs), terms = CASES[0], Terms(SINGLE, exact=True, most=255)
    given = window_of(shape, size, attrs), shape, filter_of(size), terms
    monkeypatch.setattr(row_pairs, "MOST_WEIGHTS", filter_of(size).size)
    assert pieces_of(*given) is not None
    monkeypatch.setattr(row_pairs, "MOST_WEIGHTS", filter_of(size).size - 1)
    assert pieces_of(*given) is None


def test_sums_that_might_be_rounded_have_none() -> None:
    """The second product has sums of up to 3 * 96 weights of 381 / 2, and terms of twice the largest one."""
    shape, size = (1, 8, 8, 96), (24, 3, 3, 96)
    window, filter = window_of(shape, size, {"padding": "same"}), np.full(size, 127, np.float32)
    assert 3 * 96 * 381 * 76 < 2**23 < 3 * 96 * 381 * 77
    for most, used in ((255, False), (77, False), (76, True), (0, False)):
        pieces = pieces_of(window, shape, filter, Terms(SINGLE, exact=True, most=most))
        assert (pieces is not None) == used
    assert pieces_of(window, shape, filter, Terms(SINGLE, most=30)) is None


def test_the_largest_sums_are_exact() -> None:
    """All terms and weights are as large as they may be, with either sign."""
    shape, size = (1, 6, 5, 24), (24, 3, 3, 24)
    filter = np.random.default_rng(2).choice([-127, 127], size).astype(np.float32)
    window, attrs = window_of(shape, size, {"padding": "same"}), {"padding": "same"}
    terms = Terms(SINGLE, exact=True, most=128)
    assert pieces_of(window, shape, filter, terms) is not None
    x = np.random.default_rng(3).choice([-128, 127], shape).astype(np.int8)
    matrix = np.ascontiguousarray(rows_of(filter).T)
    found = summed(sums_of(window, shape, filter, matrix, terms), x, (1, 6, 5, 24), SINGLE)
    np.testing.assert_array_equal(found, sums("conv2d", x.astype(np.int64), filter, np.zeros(1), attrs))
