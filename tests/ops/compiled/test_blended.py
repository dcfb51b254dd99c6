"""Images at another size, whose rows a loop blends with numpy's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops import OPS, compiled
from gpunn.ops.compiled.loops import blended
from gpunn.ops.vision import blending
from gpunn.types import Array
from tests.ops.compiled.plain import REALS
from tests.ops.harness import random

SIZES = [
    ((1, 4, 5, 21), (13, 12)),
    ((2, 3, 7, 5), (8, 9)),
    ((2, 9, 8, 4), (4, 5)),  # some rows do not count
    ((3, 9, 4, 3), (5, 11)),
    ((1, 1, 1, 6), (3, 2)),
    ((1, 3, 2, 4), (1, 1)),
    ((0, 3, 2, 4), (5, 6)),
]


def resized(x: Array, size: tuple[int, int], **attrs: bool) -> Array:
    return np.array(OPS["resize_bilinear"].reference(x, size=size, **attrs))


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(("shape", "size"), SIZES)
@pytest.mark.parametrize("attrs", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str)
def test_blended_rows_have_the_bits_of_numpy(
    shape: tuple[int, ...], size: tuple[int, int], attrs: dict[str, bool]
) -> None:
    x = random(0, *shape)
    got = resized(x, size, **attrs)
    with compiled.in_use(None):
        expected = resized(x, size, **attrs)
    np.testing.assert_array_equal(got.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize(
    ("channels", "dtype", "asked"), [(3, np.float32, True), (2, np.float32, False), (8, np.float64, False)]
)
def test_images_of_several_channels_of_float32_have_the_loop(channels: int, dtype: Any, asked: bool) -> None:
    calls: list[Any] = []

    def counted(ends: Array, *operands: Any) -> None:
        calls.append(ends)
        blended((0, int(ends[-1])), *operands)

    x = random(0, 1, 3, 4, channels).astype(dtype)
    with compiled.in_use(compiled.Loops(REALS._replace(blended=counted), None)):
        got = resized(x, (5, 7))
    assert len(calls) == 2 * asked
    assert blending.LEAST_CHANNELS == 3
    np.testing.assert_array_equal(got, resized(x, (5, 7)))
