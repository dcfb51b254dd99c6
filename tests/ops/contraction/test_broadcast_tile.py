"""Products whose rows a subgroup shares: every body against float64, and when lowering prefers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.device import BASELINE, SUBGROUPS, DeviceProperties
from gpunn.ops import OPS
from gpunn.ops.call import Call
from gpunn.types import Array, Shape, float32
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import as_software, check, limit_device, random, require_shared_rows, take_body

ACTIVATIONS = ({}, {"activation": "relu6"})
SOFTWARE = replace(BASELINE, software=True, subgroup_sizes=(8, 8), features=frozenset({SUBGROUPS}))


def numbers(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def products() -> Iterator[tuple[int, int, int]]:
    """Draw rows, depths and output channels: whole tiles and parts of tiles, depths that 8, 4 or 1 divide."""
    yield from ((16, 8, 32), (8, 1, 1), (21, 12, 40), (35, 4, 9))
    for seed in range(5):
        rows, depth, channels = (int(n) for n in numbers(seed).integers((8, 1, 1), (70, 50, 90)))
        yield rows, depth // 8 * 8 + 8 if seed % 2 else depth, channels


WIDE = "8, weights in textures"  # tiles of twice as many channels


def limit_subgroups(monkeypatch: pytest.MonkeyPatch, tile: int | str) -> str:
    """Let kernels be made for subgroups of up to so many invocations, which smaller ones run, too.

    Tiles of four need no more than four of a larger one.
    """
    most = 8 if isinstance(tile, str) else tile
    sizes, least = open_device(None, False).properties.subgroup_sizes, min(most, 8)
    if sizes is None or sizes[0] < least or (most > 4 and sizes[1] > most):
        pytest.skip(f"the adapter has subgroups of {sizes}")
    limit_device(monkeypatch, subgroup_sizes=(least, most), texels=tile == WIDE)
    return "webgpu"


@pytest.fixture(params=[4, 8, WIDE, 32])
def subgroup(request: pytest.FixtureRequest, gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return limit_subgroups(monkeypatch, request.param)


@pytest.fixture(params=[4, 8, WIDE])
def small_subgroup(request: pytest.FixtureRequest, gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return limit_subgroups(monkeypatch, request.param)


def run(op: str, inputs: list[Array], attrs: dict[str, Any], backend: str) -> None:
    check(op, inputs, attrs, backend=backend, constants=(1, 2), atol=tolerance(*inputs[:2]))


@pytest.mark.parametrize("shape", [*products()], ids=str)
def test_products(shape: tuple[int, int, int], subgroup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_body(monkeypatch, "matmul_broadcast")
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)]
    run("fully_connected", inputs[: 2 + rows % 2], ACTIVATIONS[channels % 2], subgroup)


@pytest.mark.parametrize("depth", [12, 5])
def test_what_lies_behind_a_row_is_not_in_its_sums(
    depth: int, subgroup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of the depth goes beyond the end of a row, where the next one begins: here with infinities."""
    take_body(monkeypatch, "matmul_broadcast")
    x, filter = random(1, 17, depth), random(2, 4, depth, low=1)
    atol = tolerance(x, filter)
    x[1::2] = np.inf
    check("fully_connected", [x, filter], backend=subgroup, constants=(1,), atol=atol)


def windows(depths: tuple[int, ...]) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    """Draw convolutions with inputs of some depths: sizes, strides, dilations and borders."""
    for seed, depth in enumerate(depths):
        rng = numbers(seed)
        (kh, kw), (sh, sw), (dh, dw) = ([int(n) for n in rng.integers(1, 4, 2)] for _ in range(3))
        height, width = (int(n) for n in rng.integers(9, 15, 2))
        channels = int(rng.integers(1, 70)) // 4 * 4 + 4 * (seed % 2) + 1 - seed % 2
        padding = ("same", "valid", ((2, 0), (1, 3)))[seed % 3]
        attrs = {"stride": (sh, sw), "dilation": (dh, dw), "padding": padding, **ACTIVATIONS[seed % 2]}
        shapes = (2 + seed % 2, height, width, depth), (channels, kh, kw, depth), (channels,)
        yield [random(k + 1, *s) for k, s in enumerate(shapes[: 2 + seed % 2])], attrs


def described(case: tuple[list[Array], dict[str, Any]]) -> str:
    return f"{[value.shape for value in case[0]]} {case[1]}"


@pytest.mark.parametrize("case", [*windows((8, 16, 40, 24))], ids=described)
def test_convolutions(case: Any, small_subgroup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_body(monkeypatch, "conv_broadcast")
    run("conv2d", *case, small_subgroup)


@pytest.mark.parametrize("case", [*windows((1, 3, 4, 5, 9))], ids=described)
def test_convolutions_of_few_channels(
    case: Any, small_subgroup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_body(monkeypatch, "conv_direct_broadcast")
    run("conv2d", *case, small_subgroup)


UNFOLDED: tuple[tuple[Shape, tuple[int, int], int, dict[str, Any]], ...] = (
    ((1, 11, 12, 3), (3, 3), 32, {"stride": (2, 2), "padding": "same", "activation": "relu6"}),
    ((2, 9, 7, 5), (2, 3), 61, {"padding": ((2, 0), (1, 3)), "dilation": (2, 1)}),
    ((3, 5, 6, 1), (5, 1), 32, {"stride": (1, 2), "activation": "tanh"}),
    ((1, 4, 9, 12), (1, 2), 29, {"padding": "same", "stride": (2, 1), "dilation": (1, 3)}),
    ((2, 9, 7, 16), (3, 3), 32, {"stride": (2, 2), "padding": ((0, 1), (1, 1)), "activation": "relu1"}),
)


@pytest.mark.parametrize("case", UNFOLDED, ids=str)
def test_products_of_what_windows_see(case: Any, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_software(monkeypatch)
    require_shared_rows(8)
    shape, size, channels, attrs = case
    take_body(monkeypatch, "unfold")
    inputs = [random(1, *shape), random(2, channels, *size, shape[3]), random(3, channels)]
    run("conv2d", inputs[: 2 + channels % 2], {"stride": (1, 1), **attrs}, gpu)


SHARED, TILE, PLAIN = "matmul_broadcast", "matmul_tile", "matmul_any"
WORKGROUP = "matmul_workgroup"
LARGE = TILE, TILE  # with one and with four elements of a row in a load


def bodies(rows: int, channels: int, device: DeviceProperties) -> list[str]:
    """Return the bodies of the candidates for a product, in their order."""
    types = float32(rows, 16), float32(channels, 16), None
    y = float32(rows, channels)
    call = Call("fully_connected", "", types, {"keep_dims": False}, (y,), (False, True, False), device)
    kernels = OPS["fully_connected"].kernel
    assert kernels is not None
    return [candidate.kernels[0].body for candidate in kernels(call)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("device", "rows", "channels", "expected"),
    [
        (SOFTWARE, 64, 32, [SHARED, TILE, PLAIN]),
        (SOFTWARE, 64, 24, [SHARED, TILE, PLAIN]),
        (SOFTWARE, 64, 40, [SHARED, TILE, PLAIN]),
        (SOFTWARE, 64, 16, [SHARED, TILE, PLAIN]),
        (SOFTWARE, 1, 512, ["matmul_row", PLAIN]),
        (SOFTWARE, 49, 8, [TILE, SHARED, PLAIN]),
        (SOFTWARE, 4, 100, [TILE, PLAIN]),
        (SOFTWARE, 7, 100, [TILE, SHARED, PLAIN]),
        (replace(SOFTWARE, subgroup_sizes=(4, 4)), 49, 64, [SHARED, TILE, PLAIN]),
        (replace(SOFTWARE, subgroup_sizes=(4, 4)), 49, 40, [TILE, SHARED, PLAIN]),
        (replace(SOFTWARE, texels=True), 49, 64, [SHARED, TILE, PLAIN]),
        (replace(SOFTWARE, texels=True), 49, 32, [SHARED, TILE, PLAIN]),
        (replace(SOFTWARE, texels=True), 49, 8, [TILE, SHARED, PLAIN]),
        (replace(SOFTWARE, subgroup_sizes=(4, 8)), 49, 64, [TILE, PLAIN]),
        (replace(SOFTWARE, subgroup_sizes=None), 49, 64, [TILE, PLAIN]),
        (replace(SOFTWARE, subgroup_sizes=(32, 128)), 49, 64, [TILE, PLAIN]),
        (replace(SOFTWARE, software=False), 49, 64, [WORKGROUP, TILE, *LARGE, SHARED, PLAIN]),
        (
            replace(SOFTWARE, parallel_invocations=99),
            49,
            64,
            [TILE, SHARED, PLAIN],
        ),
    ],
)
def test_full_tiles_on_software_devices_come_first(
    device: DeviceProperties, rows: int, channels: int, expected: list[str]
) -> None:
    assert bodies(rows, channels, device) == expected
