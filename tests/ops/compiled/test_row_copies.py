"""Copies of rows by a loop: concatenations, and transposed copies whose elements lie side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn import Model
from gpunn.ops import OPS, compiled
from gpunn.ops.movement.turn import turned
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.compiled.plain import INTEGERS, REALS
from tests.ops.quantized import quantized, stored

JOINED = [
    ([(1, 31, 17, 30), (1, 31, 17, 11)], -1),
    ([(3, 40, 50), (3, 70, 50), (3, 1, 50)], 1),
    ([(2, 90, 100), (1, 90, 100)], 0),
    ([(1, 100, 60, 3), (1, 100, 60, 5)], 3),  # short rows
    ([(2, 0, 9000), (2, 3, 9000)], 1),
]
PERMUTED = [((3, 7, 5, 9, 96), (0, 2, 1, 3, 4)), ((97, 3, 64), (1, 0, 2)), ((5, 6, 7, 120), (2, 1, 0, 3))]


def joined(xs: list[Array], axis: int, dtype: DType) -> Array:
    """Join arrays as in many runs."""
    model, scale = Model("joined"), Quantization((0.1,), (3,)) if dtype is DType.UINT8 else None
    inputs = [model.input(f"x{k}", TensorType(dtype, x.shape, scale)) for k, x in enumerate(xs)]
    model.output(*model.add("concat", inputs, {"axis": axis}, quantization=[scale]))
    compute = model.operations[0].direct()
    assert compute is not None
    found = compute(*xs)
    return np.asarray(found)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32, DType.UINT8])
@pytest.mark.parametrize(("shapes", "axis"), JOINED)
def test_inputs_are_joined(
    shapes: list[tuple[int, ...]], axis: int, dtype: DType, found: compiled.Loops
) -> None:
    numbers = np.random.default_rng(0)
    xs = [numbers.integers(0, 200, shape).astype(dtype.numpy) for shape in shapes]
    got, expected = joined(xs, axis, dtype), np.concatenate(xs, axis)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("scale", [0.1, 0.05])
def test_quantised_inputs_are_joined_through_their_tables(scale: float, found: compiled.Loops) -> None:
    model, type = Model("joined"), quantized(DType.INT8, (1, 60, 50, 33), 0.1, 3)
    other = quantized(DType.INT8, (1, 60, 50, 64), scale, -5)
    inputs = [model.input("a", type), model.input("b", other)]
    (y,) = model.add("concat", inputs, {"axis": 3}, quantization=[type.quantization])
    model.output(y)
    a, b = stored(0, type), stored(1, other)
    (got,) = model.operations[0].prepared()([a, b])
    entered = np.rint((b.astype(np.float64) + 5) * scale / 0.1 + 3).clip(-128, 127)
    np.testing.assert_array_equal(got[..., :33], a)
    assert np.abs(got[..., 33:] - entered).max() <= 1  # halves


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
@pytest.mark.parametrize(("shape", "perm"), PERMUTED)
def test_rows_stay_side_by_side(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: Any, found: compiled.Loops
) -> None:
    x = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    np.testing.assert_array_equal(turned(x, x.transpose(perm)), x.transpose(perm))


@pytest.mark.parametrize("loops", ["reals", "integers"])
def test_copies_of_rows_have_the_loop(loops: str) -> None:
    asked: list[Array] = []

    def counted(ends: Array, x: Array, *operands: Any) -> None:
        asked.append(x)
        REALS.copy_rows(ends, x, *operands)

    made = {"reals": REALS._replace(copy_rows=counted), "integers": INTEGERS._replace(copy_rows=counted)}
    own = compiled.Loops(made["reals"], None) if loops == "reals" else compiled.Loops(None, made["integers"])
    with compiled.in_use(own):
        for depth, count in ((3, 0), (16, 2)):  # short rows are numpy's
            x = np.ones((1, 9, 9, depth), np.float32)
            joined([x, x], 3, DType.FLOAT32)
            assert len(asked) == count
        x = np.ones((50, 60, 20), np.float32)
        turned(x, x.transpose(1, 0, 2))
        assert len(asked) == 3


@pytest.mark.parametrize("around", [0, 9])
@pytest.mark.parametrize("flip", [0, 128])
@pytest.mark.parametrize("sizes", [(0, 5, 5), (3, 40, 50), (2, 1, 70), (1, 0, 2)])
def test_rows_are_placed_amid_padding(
    sizes: tuple[int, int, int], flip: int, around: int, found: compiled.Loops
) -> None:
    before, width, whole = sizes
    x = np.random.default_rng(0).integers(0, 256, 300).astype(np.uint8)
    places, out = np.array([-1, 7, 0, 200, -1]), np.full(5 * whole + 3, 77, np.uint8)
    for loops in (found.reals, found.integers):
        assert loops is not None
        loops.place_rows(np.array([0, 2, 5]), x, places, sizes, around, flip, out)
        for row, place in zip(out[: 5 * whole].reshape(5, whole), places, strict=True):
            expected = np.full(whole, around, np.uint8)
            if place >= 0:
                expected[before : before + width] = x[place : place + width] ^ flip
            np.testing.assert_array_equal(row, expected)
        assert (out[5 * whole :] == 77).all()


def test_bits_of_bytes_are_turned_round(found: compiled.Loops) -> None:
    x, out = np.arange(200, dtype=np.uint8), np.zeros(203, np.uint8)
    assert found.integers is not None
    found.integers.flipped(np.array([0, 64, 200]), x, 128, out)
    np.testing.assert_array_equal(out[:200], x ^ 128)
    assert not out[200:].any()


@pytest.mark.parametrize("mode", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str)
@pytest.mark.parametrize("channels", [3, 8])
def test_nearest_pixels_are_copied(mode: dict[str, Any], channels: int, found: compiled.Loops) -> None:
    model, x = Model("resize"), np.random.default_rng(0).random((2, 5, 7, channels), np.float32)
    attrs = {"size": (9, 4), **mode}
    model.output(*model.add("resize_nearest", [model.input("x", float32(*x.shape))], attrs))
    compute = model.operations[0].direct()
    assert compute is not None
    np.testing.assert_array_equal(compute(x), OPS["resize_nearest"].reference(x, **attrs))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("sizes", [(0, 5, 5), (3, 40, 50), (1, 0, 2)])
def test_stored_integers_become_numbers_amid_padding(
    sizes: tuple[int, int, int], dtype: Any, found: compiled.Loops
) -> None:
    before, width, whole = sizes
    x = np.random.default_rng(0).integers(0, 256, 300).astype(np.uint8).view(dtype)
    places, out = np.array([-1, 7, 200, -1]), np.zeros(4 * whole, np.float32)
    assert found.integers is not None
    found.integers.place_numbers(np.array([0, 3, 4]), x, places, sizes, np.float32(-3), out)
    for row, place in zip(out.reshape(4, whole), places, strict=True):
        expected = np.full(whole, -3, np.float32)
        if place >= 0:
            expected[before : before + width] = x[place : place + width]
        np.testing.assert_array_equal(row, expected)


SLICES: list[dict[str, Any]] = [
    {"begin": (0, 1, 0, 0), "end": (2, 4, 6, 40), "strides": (1, 2, 1, 1)},
    {"begin": (0, 0, 5, 8), "end": (2, 5, 0, 24), "strides": (1, 1, -2, 1)},
    {"begin": (1, 0, 0, 0), "end": (2, 5, 6, 40), "strides": (1, 1, 1, 1), "shrink_axes": (0,)},
    {"begin": (0, 0, 0, 3), "end": (2, 5, 6, 5), "strides": (1, 1, 1, 1)},  # short rows
    {"begin": (0, 0, 0, 0), "end": (2, 5, 6, 40), "strides": (1, 1, 1, 2)},
    {"begin": (1, 2, 3, 4), "end": (2, 3, 4, 5), "strides": (1, 1, 1, 1), "shrink_axes": (0, 1, 2, 3)},
]


@pytest.mark.parametrize("attrs", SLICES, ids=str)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32])
def test_slices_are_copied(attrs: dict[str, Any], dtype: DType, found: compiled.Loops) -> None:
    model, x = Model("slice"), np.random.default_rng(0).integers(0, 99, (2, 5, 6, 40)).astype(dtype.numpy)
    model.output(*model.add("strided_slice", [model.input("x", TensorType(dtype, x.shape))], attrs))
    compute = model.operations[0].direct()
    assert compute is not None
    got = compute(x)
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, OPS["strided_slice"].reference(x, **attrs))
