"""Integer arithmetic of resize_bilinear."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.types import DType, Quantization, TensorType, float32
from tests.ops.integer_checks import check_integer, computed, litert_integer
from tests.ops.quantized import Draw, both, every_width, near, quantized, reals, stored

RESIZES = [
    ((2, 5, 7, 3), (9, 12)),
    ((1, 33, 20, 4), (65, 41)),
    ((1, 8, 8, 4), (16, 16)),
    ((1, 20, 30, 2), (7, 11)),
    ((1, 3, 3, 1), (1, 1)),
]
MODES = ({}, {"align_corners": True}, {"half_pixel_centers": True})


@every_width
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("shape", "size"), RESIZES)
def test_resize_bilinear(
    shape: tuple[int, ...], size: tuple[int, int], mode: dict[str, bool], dtype: DType, backend: str
) -> None:
    x = Draw(3, dtype).type(*shape)
    values = stored(3, x)
    (got,) = check_integer("resize_bilinear", [values], [x], {"size": size, **mode}, backend=backend)
    if dtype is DType.UINT8:  # int8 rounds the distance of rows to 1/1024: its error grows with the image
        real = computed("resize_bilinear", [reals(values, x)], [float32(*shape)], {"size": size, **mode})
        near(got, real, x.with_shape(real.shape), 0.501)


@both
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("shape", "size"), RESIZES)
def test_resize_bilinear_as_litert(
    shape: tuple[int, ...], size: tuple[int, int], mode: dict[str, bool], dtype: DType
) -> None:
    x = Draw(3, dtype).type(*shape)
    values = stored(3, x)
    y = x.with_shape((shape[0], *size, shape[3]))
    types = [x, TensorType(DType.INT32, (2,))]
    operands = [values, np.array(size, np.int32)]
    got = computed("resize_bilinear", [values], [x], {"size": size, **mode})
    for reference in (False, True):
        (expected,) = litert_integer(
            "RESIZE_BILINEAR", operands, types, [y], mode, constants=(1,), version=3, reference=reference
        )
        difference = np.abs(got.astype(int) - expected)
        # The reference kernel adds up uint8 in another order, and may be on the other side of a half.
        assert difference.max() <= (1 if reference and dtype is DType.UINT8 else 0)
        assert np.mean(difference > 0) < 0.02


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_of_many_bytes_sums_beside_halves_are_exact(mode: dict[str, bool], backend: str) -> None:
    x = Draw(3, DType.UINT8).type(1, 2, 2, 4096)
    check_integer("resize_bilinear", [stored(3, x)], [x], {"size": (12, 14), **mode}, backend=backend)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("channels", [3, 4])
def test_enlarging_bytes_greatly(mode: dict[str, bool], channels: int, backend: str) -> None:
    x = quantized(DType.UINT8, (2, 3, 5, channels), 0.1)
    attrs = {"size": (199, 301), **mode}
    (got,) = check_integer("resize_bilinear", [stored(0, x)], [x], attrs, backend=backend)
    y = x.with_shape((2, 199, 301, channels))
    types, size = [x, TensorType(DType.INT32, (2,))], np.array([199, 301], np.int32)
    (expected,) = litert_integer(
        "RESIZE_BILINEAR", [stored(0, x), size], types, [y], mode, constants=(1,), version=3, reference=False
    )
    np.testing.assert_array_equal(got, expected)


def test_resize_bilinear_without_integer_arithmetic(backend: str) -> None:
    x = quantized(DType.UINT8, (1, 3, 5, 1), 0.1)
    other = Quantization((0.3,), (5,))
    attrs = {"size": (4, 4)}
    check_integer(
        "resize_bilinear", [stored(0, x)], [x], attrs, other, backend=backend, host="quantised differently"
    )
