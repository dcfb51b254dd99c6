"""A depthwise and a 1 x 1 convolution in one kernel, against loops in float64; who is offered the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import candidates, lower
from gpunn.compilation.base import Compilation
from gpunn.device import BASELINE, DeviceProperties
from gpunn.errors import ModelError
from gpunn.graph.operation import Operation
from gpunn.graph.tolerance import bounds
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.ops.accuracy import ATOL, EPS, GENERAL
from gpunn.ops.contraction import separable_rows
from gpunn.ops.contraction.separable import separable_conv2d
from gpunn.ops.kernels.window import along
from gpunn.ops.kernels.workgroup_tile import LARGE_TILE, SLICED_TILE, WorkgroupTile
from gpunn.types import Array, float32
from tests.ops.harness import limit_device, random, type_of

Values = list[Array | None]
GPU = replace(BASELINE, parallel_invocations=1 << 15)
ACTIVATIONS = {"relu6": lambda x: np.clip(x, 0, 6), "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


def exact(inputs: Values, attrs: dict[str, Any]) -> Array:
    """Compute both convolutions in float64, pixel by pixel."""
    x, taps, weights, taps_bias, bias = (None if v is None else v.astype(np.float64) for v in inputs)
    assert x is not None and taps is not None and weights is not None
    padding, spans = attrs.get("padding", "valid"), []
    strides, dilations = attrs.get("stride", (1, 1)), attrs.get("dilation", (1, 1))
    for axis in range(2):
        rule = padding if isinstance(padding, str) else padding[axis]
        before, _, count = along(
            x.shape[axis + 1], taps.shape[axis + 1], strides[axis], dilations[axis], rule
        )
        spans.append([k * strides[axis] - before for k in range(count)])
    pixels = np.zeros((len(x), *map(len, spans), x.shape[3]))
    for row, top in enumerate(spans[0]):
        for column, left in enumerate(spans[1]):
            for ky, kx in np.ndindex(*taps.shape[1:3]):
                y, z = top + ky * dilations[0], left + kx * dilations[1]
                if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
                    pixels[:, row, column] += x[:, y, z] * taps[0, ky, kx]
    pixels = pixels if taps_bias is None else pixels + taps_bias
    pixels = ACTIVATIONS.get(attrs.get("between") or "", lambda v: v)(pixels)
    result = np.einsum("nyxc,oc->nyxo", pixels, weights[:, 0, 0])
    result = result if bias is None else result + bias
    return np.asarray(ACTIVATIONS.get(attrs.get("activation") or "", lambda v: v)(result))


def model_of(inputs: Values, attrs: dict[str, Any]) -> Model:
    model = Model("separable")
    assert inputs[0] is not None
    operands = [model.input("x", type_of(inputs[0]))]
    constants = [None if v is None else model.constant(f"c{k}", v) for k, v in enumerate(inputs[1:])]
    model.output(*model.add(separable_conv2d, [*operands, *constants], attrs))
    return model


def limit_of(operation: Operation, inputs: Values, result: Array) -> Array:
    wide = [None if v is None else v.astype(np.float64) for v in inputs]
    (bound,) = bounds(operation, wide, (result,))
    return bound.limit


def drawn(seed: int, shape: tuple[int, ...], size: tuple[int, int], channels: int, biases: str) -> Values:
    """Draw operands; biases: which of the two there are, "d" and "p"."""
    depth = shape[3]
    taps_bias = random(seed + 3, depth) if "d" in biases else None
    bias = random(seed + 4, channels) if "p" in biases else None
    filters = random(seed + 1, 1, *size, depth), random(seed + 2, channels, 1, 1, depth)
    return [random(seed, *shape), *filters, taps_bias, bias]


# Tiles of 64 pixels and 64 channels that are whole and parts of such; channels that 16, 4 or 1 divide.
CASES: list[tuple[Values, dict[str, Any]]] = [
    (drawn(1, (1, 8, 8, 16), (3, 3), 64, "dp"), {"padding": "same", "between": "relu6"}),
    (
        drawn(2, (2, 9, 11, 12), (3, 3), 21, "dp"),
        {"stride": (2, 2), "padding": "same", "activation": "relu6"},
    ),
    (drawn(3, (1, 13, 7, 20), (5, 2), 68, "d"), {"between": "relu", "activation": "tanh"}),
    (drawn(4, (3, 7, 6, 5), (3, 3), 7, "dp"), {"padding": "same", "between": "tanh"}),
    (drawn(5, (1, 12, 13, 8), (3, 3), 130, "p"), {"dilation": (2, 3), "padding": "same", "between": "relu6"}),
    (drawn(6, (2, 8, 9, 3), (2, 3), 4, ""), {"padding": ((2, 0), (1, 3)), "stride": (1, 2)}),
    (drawn(7, (1, 5, 9, 1), (1, 1), 1, "dp"), {"between": "relu6"}),
]


# 13 channels are four vec4s, the least that are shared; 1,100 are more than the memory holds of four pixels.
WIDE: list[tuple[Values, dict[str, Any]]] = [
    (drawn(21, (1, 7, 9, 13), (3, 3), 15, "dp"), {"padding": "same", "between": "relu6"}),
    (drawn(22, (1, 3, 3, 1100), (3, 3), 33, "dp"), {"padding": "same", "between": "relu"}),
    (drawn(23, (2, 15, 14, 96), (3, 3), 24, "p"), {"stride": (2, 2), "activation": "relu6"}),
    (drawn(24, (1, 5, 6, 132), (5, 5), 67, "d"), {"padding": "same", "between": "relu6"}),
]


def drawn_cases() -> Iterator[tuple[Values, dict[str, Any]]]:
    for seed in range(10, 16):
        rng = np.random.default_rng(seed)
        size, strides, dilations = (tuple(map(int, rng.integers(1, n, 2))) for n in (4, 3, 4))
        batch, height, width, depth, channels = map(int, rng.integers((2, 10, 10, 1, 1), (4, 16, 16, 50, 80)))
        attrs = {
            "stride": strides,
            "dilation": dilations,
            "padding": ("same", "valid")[seed % 2],
            "between": (None, "relu6", "relu")[seed % 3],
            "activation": ("relu", None)[seed % 2],
        }
        shape = (batch, height, width, depth if seed % 3 else depth // 4 * 4 + 4)
        yield drawn(seed, shape, (size[0], size[1]), channels, ("dp", "d", "p", "")[seed % 4]), attrs


def depth_of(case: tuple[Values, dict[str, Any]]) -> int:
    assert case[0][0] is not None
    return int(case[0][0].shape[3])


def described(case: tuple[Values, dict[str, Any]]) -> str:
    return f"{[None if v is None else v.shape for v in case[0]]} {case[1]}"


@pytest.fixture
def in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no device have whole rows."""
    monkeypatch.setattr(separable_rows, "_division", lambda *_: (4, 0))


@pytest.mark.sample(2)
@pytest.mark.usefixtures("in_tiles")
@pytest.mark.parametrize("case", [*CASES, *drawn_cases()], ids=described)
def test_both_convolutions(case: Any, hardware: str) -> None:
    check_both(*case, hardware)


@pytest.mark.sample(3)
@pytest.mark.usefixtures("in_tiles")
@pytest.mark.parametrize(("case", "tile"), [*zip(CASES, cycle((SLICED_TILE, LARGE_TILE)))], indirect=["tile"])
def test_other_tiles(case: Any, hardware_gpu: str, tile: WorkgroupTile) -> None:
    check_both(*case, hardware_gpu)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("case", "side", "splits"),
    [
        *((case, *division) for case, division in zip(WIDE, cycle(((4, 4), (8, 32))))),
        *((WIDE[1], *division) for division in ((4, 64), (16, 8), (32, 8), (32, 4))),
        *((case, 16, 16) for case in drawn_cases() if depth_of(case) > 12),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else described(value),
)
def test_whole_rows(case: Any, side: int, splits: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer splits are those of more pixels, whose rows take several parts of the memory."""
    limit_device(monkeypatch, software=False)
    monkeypatch.setattr(separable_rows, "_division", lambda *_: (side, splits))
    check_both(*case, gpu, "separable_rows")


def check_both(
    inputs: Values, attrs: dict[str, Any], hardware: str, body: str = "separable_workgroup"
) -> None:
    model, expected = model_of(inputs, attrs), exact(inputs, attrs)
    with model.compile(hardware) as compiled:
        y = compiled(inputs[0])
        assert_body(compiled, body, hardware)
    assert y.shape == expected.shape
    assert (np.abs(y - expected) <= limit_of(model.operations[0], inputs, expected)).all()


def assert_body(compiled: Compilation, body: str, hardware: str) -> None:
    bodies = [row.kernel.body for row in compiled.plan_rows()]
    assert bodies == ([body] if hardware == "webgpu" else [])


def test_numbers_by_hand(hardware: str) -> None:
    """Two equal images; the first channel counts from 1 to 16, the second one by tens."""
    counted = np.arange(1, 17, dtype=np.float32).reshape(1, 4, 4, 1)
    x = np.concatenate([counted, 10 * counted], axis=3).repeat(2, axis=0)
    taps = np.float32([[[[1, 0], [0, 1]], [[0, 0], [2, 0]]]])  # upper left + 2 lower right; upper right
    inputs: Values = [
        x,
        taps,
        np.float32([[[[1, 1]]], [[[2, -1]]]]),
        np.float32([-30, 0]),
        np.float32([0, 5]),
    ]
    with model_of(inputs, {"stride": (2, 2), "between": "relu"}).compile(hardware) as compiled:
        y = compiled(x)
    # Between the two: 0 and 20, 0 and 40; 7 and 100, 13 and 120.
    np.testing.assert_array_equal(y[0], [[[20, -15], [40, -35]], [[107, -81], [133, -89]]])
    np.testing.assert_array_equal(y[1], y[0])


@pytest.mark.parametrize("depth", [5, 17])
def test_infinite_and_undefined_elements_stay_in_their_windows(
    depth: int, hardware: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the end of a pixel's last four channels lies the next pixel. 17 are enough for whole rows."""
    limit_device(monkeypatch, parallel_invocations=1 << 15)
    inputs = drawn(1, (1, 9, 9, depth), (3, 3), 6, "dp")
    x = inputs[0]
    assert x is not None
    x[0, 4, 4, 0] = np.nan
    with model_of(inputs, {"padding": "same"}).compile(hardware) as compiled:
        undefined = np.isnan(compiled(x)[0])
        assert_body(compiled, "separable_rows" if depth == 17 else "separable_workgroup", hardware)
    assert undefined[3:6, 3:6].all()
    assert undefined.sum() == 9 * 6


@pytest.mark.parametrize("depth", [8, 20])
def test_float16_is_stored_and_not_computed_with(
    depth: int, hardware: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_device(monkeypatch, parallel_invocations=1 << 15)
    x, taps, weights, *biases = drawn(1, (1, 9, 9, depth), (3, 3), 12, "dp")
    halves = [v.astype(np.float16) for v in (x, taps, weights) if v is not None]
    inputs: Values = [*halves, *biases]
    attrs = {"padding": "same", "between": "relu6"}
    model, expected = model_of(inputs, attrs), exact(inputs, attrs)
    with model.compile(hardware) as compiled:
        y = compiled(halves[0])
        assert_body(compiled, "separable_rows" if depth == 20 else "separable_workgroup", hardware)
    assert y.dtype == np.float16
    assert (np.abs(y - expected) <= limit_of(model.operations[0], inputs, expected)).all()


def test_bounds_have_the_errors_of_both() -> None:
    """One pixel of 3 channels, windows of one tap: sums of 2 and of 4 terms, with their biases."""
    inputs: Values = [
        np.float32([2, -3, 4]).reshape(1, 1, 1, 3),
        np.float32([1, 2, -1]).reshape(1, 1, 1, 3),
        np.float32([1, -2, 3]).reshape(1, 1, 1, 3),
        np.float32([1, 1, 1]),
        np.float32([10]),
    ]
    sizes, pixels = np.float64([3, 7, 5]), np.float64([3, -5, -3])
    y = np.array([[[[3 + 10 - 9 + 10.0]]]])
    found = limit_of(model_of(inputs, {}).operations[0], inputs, y)
    off = 2 * EPS * sizes + GENERAL * EPS * np.abs(pixels) + ATOL
    wanted = off @ [1, 2, 3] + 4 * EPS * (np.abs(pixels) @ [1, 2, 3] + 10) + ATOL + GENERAL * EPS * y
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def offered(shape: tuple[int, ...], device: DeviceProperties, size: tuple[int, int] = (3, 3)) -> list[str]:
    kernels = lower(model_of(drawn(1, shape, size, 9, "dp"), {"padding": "same"}).operations[0], device)
    return [kernel.body for kernel in kernels if isinstance(kernel, Kernel)]


def test_devices_with_a_memory_of_workgroups_are_offered_the_kernel() -> None:
    assert offered((1, 5, 5, 8), GPU) == ["separable_workgroup"]
    assert offered((1, 5, 5, 8), replace(GPU, software=True)) == []
    assert offered((1, 1, 7, 8), GPU) == []  # a tile would have one row of eight, or less
    assert offered((1, 5, 5, 8), GPU, (7, 7)) == ["separable_workgroup"]
    assert offered((1, 5, 5, 8), GPU, (5, 10)) == []  # too many cells to write out


@pytest.mark.parametrize(
    ("shape", "channels", "division"),
    [
        ((1, 14, 14, 384), 64, (8, 32)),  # 49 x 2 workgroups of 4 pixels
        ((1, 56, 56, 144), 24, (8, 16)),  # 392 of 8
        ((1, 28, 28, 256), 256, (32, 8)),  # 196 x 2 of 4
        ((1, 7, 7, 16), 64, (4, 4)),  # each share has a vec4
        ((1, 112, 112, 32), 64, None),
    ],
)
def test_workgroups_of_whole_rows(
    shape: tuple[int, ...], channels: int, division: tuple[int, int] | None
) -> None:
    """The columns and splits that an NVIDIA H200 takes the least time for; none for a large image."""
    model = model_of(drawn(1, shape, (3, 3), channels, ""), {"padding": "same"})
    kernels = [way.kernels[0] for way in candidates(model.operations[0], GPU)]
    found = [(k.constants["COLUMNS"], k.constants["SPLITS"]) for k in kernels if k.body == "separable_rows"]
    assert found == ([] if division is None else [division])


@pytest.mark.parametrize(
    ("taps", "weights"),
    [((1, 3, 3, 16), (5, 1, 1, 16)), ((1, 3, 3, 8), (5, 3, 3, 8)), ((1, 3, 3, 8), (6, 1, 1, 4))],
)
def test_other_filters_are_refused(taps: tuple[int, ...], weights: tuple[int, ...]) -> None:
    """A multiplier, windows of several pixels, groups."""
    model = Model()
    x = model.input("x", float32(1, 9, 9, 8))
    filters = [model.constant("c", np.zeros(shape, np.float32)) for shape in (taps, weights)]
    with pytest.raises(ModelError, match="of 8 channels, the second of 1 x 1 pixels"):
        model.add(separable_conv2d, [x, *filters])
