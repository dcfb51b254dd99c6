"""Bilinear and nearest-neighbour resizing in three conventions of positions."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.vision import blending
from tests.ops.harness import EPS, check, check_litert, limit_device, model_of, random

MODES: tuple[dict[str, bool], ...] = (
    {},
    {"align_corners": True},
    {"half_pixel_centers": True},
)
SIZES = ((1, 1), (1, 7), (3, 5), (4, 4), (5, 10), (13, 2), (17, 23))
modes = pytest.mark.parametrize("mode", MODES, ids=lambda mode: next(iter(mode), "plain"))


@modes
def test_resize_bilinear(mode: dict[str, bool], backend: str) -> None:
    for channels in (1, 3, 8):
        for seed, size in enumerate(SIZES):
            check(
                "resize_bilinear", [random(seed, 2, 5, 7, channels)], {"size": size, **mode}, backend=backend
            )
    check("resize_bilinear", [random(0, 1, 1, 1, 4)], {"size": (3, 4), **mode}, backend=backend)
    check("resize_bilinear", [random(0, 0, 3, 3, 4)], {"size": (3, 4), **mode}, backend=backend)


@pytest.mark.parametrize("parallel", [1, 1 << 20])
@pytest.mark.parametrize("channels", [2, 5, 6, 20, 21, 40])
def test_channels_that_an_invocation_computes(
    channels: int, parallel: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to four numbers of a pixel, or four vectors; one where a device has room for more invocations."""
    limit_device(monkeypatch, parallel_invocations=parallel)
    x = random(1, 2, 3, 5, channels)
    for op, tolerance in (("resize_bilinear", {}), ("resize_nearest", {"atol": 0, "rtol": 0})):
        with model_of(op, [x], {"size": (4, 9)}).compile(gpu) as compiled:
            (row,) = compiled.plan_rows()
        vectors = channels if channels % 4 else channels // 4
        assert row.kernel.params["apart"] == (vectors if parallel > 1 else -(-vectors // 4))
        check(op, [x], {"size": (4, 9)}, backend=gpu, **tolerance)


@modes
def test_positions_stay_exact_in_large_images(mode: dict[str, bool], backend: str) -> None:
    x = np.tile(np.array([-100, 100], np.float32), 6001).reshape(1, 1, -1, 1)
    check("resize_bilinear", [x], {"size": (1, 30_011), **mode}, backend=backend)


def test_positions_beyond_32_bits_run_on_the_host(backend: str) -> None:
    attrs = {"size": (1, 50_000), "half_pixel_centers": True}
    check("resize_bilinear", [random(0, 1, 1, 50_000, 1)], attrs, backend=backend, host="32 bits")


def test_enlarging_twice_with_half_pixels() -> None:
    x = np.array([0, 4], np.float64).reshape(1, 1, 2, 1)
    operation = model_of("resize_bilinear", [random(0, 1, 1, 2, 1)], {"size": (1, 4)}).operations[0]
    resized = operation.definition.reference
    assert resized(x, size=(1, 4), half_pixel_centers=True).ravel().tolist() == [0, 1, 3, 4]
    assert resized(x, size=(1, 4)).ravel().tolist() == [0, 2, 4, 4]
    assert resized(x, size=(1, 5), align_corners=True).ravel().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("at_once", [1, 60, 100])
def test_rows_at_a_time_give_what_all_of_them_give(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random(3, 2, 5, 4, 3)
    operation = model_of("resize_bilinear", [x], {"size": (7, 6)}).operations[0]
    (expected,) = operation.evaluate([x])
    monkeypatch.setattr(blending, "AT_ONCE", at_once)
    np.testing.assert_array_equal(operation.evaluate([x])[0], expected)


@modes
@pytest.mark.parametrize("size", [(9, 23), (41, 300), (5, 2000)])
def test_rows_between_the_same_two_rows(
    mode: dict[str, bool], size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random(5, 2, 4, 7, 5)
    attrs = {"size": size, **mode}
    check("resize_bilinear", [x], attrs, backend="cpu")
    (expected,) = model_of("resize_bilinear", [x], attrs).operations[0].evaluate([x])
    for alike in (1, 1 << 30):
        monkeypatch.setattr(blending, "ALIKE", alike)
        (found,) = model_of("resize_bilinear", [x], attrs).operations[0].evaluate([x])
        np.testing.assert_array_equal(found, expected)


@modes
def test_agrees_with_litert(mode: dict[str, bool]) -> None:
    options = {"alignCorners": False, "halfPixelCenters": False}
    options |= {
        "align_corners": {"alignCorners": True},
        "half_pixel_centers": {"halfPixelCenters": True},
    }.get(next(iter(mode), ""), {})
    x = random(0, 2, 5, 7, 3)
    for size in SIZES:
        check_litert(
            "resize_bilinear",
            [x],
            {"size": size, **mode},
            "RESIZE_BILINEAR",
            options,
            operands=[np.array(size, np.int32)],
            version=3,
            atol=32
            * EPS
            * 8,  # LiteRT rounds positions up to 7 to float32, where neighbours differ by up to 8
        )


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((2, 3, 4), {"size": (1, 1)}, r"resize_bilinear: input 0 must have rank 4, got shape \[2, 3, 4\]"),
        ((1, 2, 2, 1), {"size": (0, 1)}, r"size must be positive \(height, width\), got \[0, 1\]"),
        ((1, 2, 2, 1), {"size": (4,)}, r"size must have 2 entries, got 1: \[4\]"),
        ((1, 0, 2, 1), {"size": (4, 4)}, r"input image must not be empty, got shape \[1, 0, 2, 1\]"),
        (
            (1, 2, 2, 1),
            {"size": (4, 4), "align_corners": True, "half_pixel_centers": True},
            "align_corners and half_pixel_centers exclude each other",
        ),
    ],
)
def test_errors(shape: tuple[int, ...], attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("resize_bilinear", [random(0, *shape)], attrs)


NEAREST_MODES = (*MODES, {"align_corners": True, "half_pixel_centers": True})


@pytest.mark.parametrize("mode", NEAREST_MODES, ids=str)
def test_resize_nearest(mode: dict[str, bool], backend: str) -> None:
    for channels in (1, 3, 8):
        for seed, size in enumerate(SIZES):
            x = random(seed, 2, 5, 7, channels)
            check("resize_nearest", [x], {"size": size, **mode}, backend=backend, atol=0, rtol=0)
    for dtype in (np.int32, np.uint8, np.int8, np.bool_):
        x = np.random.default_rng(0).integers(0, 100, (1, 4, 5, 3)).astype(dtype)
        check("resize_nearest", [x], {"size": (9, 4), **mode}, backend=backend)
    attrs = {"size": (2**31 - 1, 4), **mode}
    check("resize_nearest", [random(0, 0, 3, 3, 4)], attrs, backend=backend, host="no elements")


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_nearest_rows_agree_with_litert(mode: dict[str, bool]) -> None:
    """Every pair of extents up to 24; some of their positions lie just beside a rounding border."""
    options = {"alignCorners": False, "halfPixelCenters": False}
    options |= {k.replace("_c", "C").replace("_p", "P"): v for k, v in mode.items()}
    for n in range(1, 25):
        x = np.arange(n * n, dtype=np.float32).reshape(1, n, n, 1)
        for out in range(1, 25):
            size = (out, 25 - out)
            check_litert(
                "resize_nearest",
                [x],
                {"size": size, **mode},
                "RESIZE_NEAREST_NEIGHBOR",
                options,
                operands=[np.array(size, np.int32)],
                atol=0,
                rtol=0,
            )


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((1, 2, 2, 1), {"size": (0, 2)}, "size must be positive"),
        ((1, 2, 0, 1), {"size": (2, 2)}, "input image must not be empty"),
        ((2, 2, 1), {"size": (2, 2)}, "input 0 must have rank 4"),
        ((1, 2, 2, 1), {"size": (2, 2), "align_corners": 1}, "align_corners must be True or False"),
    ],
)
def test_nearest_errors(shape: tuple[int, ...], attrs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=f"resize_nearest: {message}"):
        model_of("resize_nearest", [random(0, *shape)], attrs)
