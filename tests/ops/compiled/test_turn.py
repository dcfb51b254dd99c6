"""Transposed copies by a compiled loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.ops import compiled
from gpunn.ops.movement.turn import turned
from gpunn.types import Array
from tests.ops.compiled.plain import INTEGERS, REALS

CASES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((41, 53), (1, 0)),
    ((16, 64), (1, 0)),
    ((7, 3, 2, 29), (0, 1, 3, 2)),  # pairs side by side
    ((2, 29, 23), (1, 2, 0)),  # pairs of rows that are far apart in the copy
    ((9, 5, 37), (0, 2, 1)),  # fewer rows than lanes
    ((1, 20, 3, 4, 18), (2, 0, 3, 4, 1)),
    ((3, 17, 5, 19), (2, 3, 0, 1)),
    ((4, 6, 5, 18), (3, 2, 1, 0)),
]
OTHERS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((200, 3, 5), (1, 2, 0)),  # few columns
    ((20, 30, 16), (1, 0, 2)),  # rows as they are
    ((16, 17), (1, 0)),  # few elements
]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.bool_])
@pytest.mark.parametrize(("shape", "perm"), CASES, ids=str)
def test_elements_are_where_numpy_puts_them(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: Any, found: compiled.Loops
) -> None:
    x = np.random.default_rng(0).integers(0, 2**30, shape).astype(dtype)
    x.flags.writeable = False  # an input of a user
    got = turned(x, x.transpose(perm))
    assert got.dtype == dtype and got.flags.c_contiguous
    np.testing.assert_array_equal(got, x.transpose(perm))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int16, np.uint8])
@pytest.mark.parametrize(("shape", "perm"), [*CASES, *OTHERS], ids=str)
def test_matrices_of_words_and_bytes_have_the_loop(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: Any
) -> None:
    asked: list[Array] = []

    def counted(x: Array, *operands: Any) -> None:
        asked.append(x)
        REALS.turn(x, *operands)

    x = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    own = compiled.Loops(REALS._replace(turn=counted), INTEGERS._replace(turn=counted))
    with compiled.in_use(own):
        np.testing.assert_array_equal(turned(x, x.transpose(perm)), x.transpose(perm))
    assert bool(asked) == ((shape, perm) in CASES and x.itemsize in (1, 4))
