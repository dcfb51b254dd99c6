"""Grid arithmetic: no device is needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunn.kernel import (
    MAX_GROUPS,
    Kernel,
    Pack,
    ceil_div,
    dims4,
    fits_i32,
    flat_threads,
    size_of,
    tile_grid,
    vec_width,
)


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (2**40, 3, 366503875926)]
)
def test_ceil_div(a: int, b: int, expected: int) -> None:
    assert ceil_div(a, b) == expected


def grid(threads: tuple[int, int, int], workgroup: int) -> tuple[int, int, int]:
    return Kernel(body="", threads=threads, workgroup=(workgroup, 1, 1), reads=()).groups


@given(st.integers(0, 2**31), st.sampled_from([1, 32, 64, 256]))
def test_flat_threads_start_every_invocation_within_the_limits(count: int, workgroup: int) -> None:
    x, y, z = grid(flat_threads(count, workgroup), workgroup)
    assert max(x, y, z) <= MAX_GROUPS
    assert x * y * z * workgroup >= count
    assert x * y * z <= ceil_div(count, workgroup) + y  # less than one group in each row is superfluous


@pytest.mark.parametrize(
    ("count", "threads"),
    [
        (0, (0, 1, 1)),
        (1, (64, 1, 1)),
        (64, (64, 1, 1)),
        (65, (128, 1, 1)),
        (MAX_GROUPS * 64, (MAX_GROUPS * 64, 1, 1)),
        (MAX_GROUPS * 64 + 1, (32_768 * 64, 2, 1)),
    ],
)
def test_flat_threads(count: int, threads: tuple[int, int, int]) -> None:
    assert flat_threads(count) == threads


def test_groups_are_rounded_up_in_each_dimension() -> None:
    kernel = Kernel(body="", threads=(9, 8, 1), workgroup=(8, 8, 1), reads=())
    assert kernel.groups == (2, 1, 1)


def test_vec_width() -> None:
    assert [vec_width(8), vec_width(8, 6), vec_width(0), vec_width()] == [4, 1, 4, 4]


def test_dims4() -> None:
    assert dims4((), 7) == (7, 7, 7, 7)
    assert dims4((1, 2, 3), 0) == (0, 1, 2, 3)
    assert dims4((1, 2, 3, 4), 0) == (1, 2, 3, 4)
    with pytest.raises(ValueError, match="unpack"):
        dims4((1, 2, 3, 4, 5), 0)


def test_fits_i32() -> None:
    assert fits_i32()
    assert fits_i32(0, 2**31 - 1)
    assert not fits_i32(0, 2**31)


def test_size_of() -> None:
    assert [size_of(()), size_of((3, 4)), size_of((3, 0))] == [1, 12, 0]


def test_equal_packs_share_constants() -> None:
    packs = [Pack(np.transpose), Pack(np.transpose), Pack(np.reshape, (4,))]
    assert len(set(packs)) == 2
    assert packs[2](np.zeros((2, 2))).shape == (4,)


@given(st.integers(1, 70), st.integers(0, 300))
def test_tile_grid_reaches_every_tile_once(columns: int, rows: int) -> None:
    threads, params = tile_grid(columns, rows)
    block, blocks = params["BLOCK"], params["BLOCKS"]
    x, y, _ = grid(threads, 64)
    seen = set()
    for group in range(x * y):
        for local in range(64):  # the numbering of lib/tiles.wgsl
            tile = (group % blocks * block + local % block, group // blocks * (64 // block) + local // block)
            assert tile not in seen
            seen.add(tile)
    assert {(c, r) for c in range(columns) for r in range(rows)} <= seen
