"""Products of computed filters and gradients of filters, whose rows a subgroup shares on software devices."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import lower
from gpunn.device import SUBGROUPS, DeviceProperties
from gpunn.types import Array
from tests.ops.harness import check, limit_device, model_of, random, take_body

# Rows and channels that fill tiles of 16 x 32 or 64, and that do not; whole blocks of 32 channels, and parts.
PRODUCTS: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("conv2d", [(2, 4, 5, 8), (26, 1, 1, 8), (26,)], {"activation": "relu6"}),
    ("conv2d", [(1, 8, 4, 16), (70, 1, 1, 16)], {}),
    ("conv2d", [(1, 3, 3, 24), (129, 1, 1, 24), (129,)], {"activation": "relu"}),
    ("conv2d", [(2, 5, 6, 8), (40, 3, 2, 8), (40,)], {"padding": "same", "stride": (1, 2)}),
    ("batch_matmul", [(37, 8), (8, 64)], {}),
    ("batch_matmul", [(3, 7, 32), (32, 136)], {}),
]
FILTERS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 5, 8), (1, 3, 5, 4), {"size": (1, 1)}),
    ((2, 5, 5, 72), (2, 5, 5, 20), {"size": (1, 1)}),
    ((2, 5, 6, 12), (2, 5, 6, 36), {"size": (3, 3), "padding": "same"}),
    ((1, 9, 8, 4), (1, 4, 3, 16), {"size": (3, 2), "stride": (2, 2), "dilation": (1, 2)}),
]
TERMS = 60  # of a sum, at most


def serves(device: DeviceProperties) -> bool:
    return device.software and device.subgroup_sizes == (8, 8) and SUBGROUPS in device.features


def bodies(op: str, inputs: list[Array], attrs: dict[str, Any]) -> list[str]:
    """Return the shaders of an operation on this machine's device; skip where it has no such subgroups."""
    device = open_device(None, False).properties
    if not serves(device):
        pytest.skip("products of subgroups are for software with subgroups of eight")
    kernels = lower(model_of(op, inputs, attrs).operations[0], device)
    assert not isinstance(kernels, str), kernels
    return [kernel.name for kernel in kernels]


@pytest.mark.parametrize(("op", "shapes", "attrs"), PRODUCTS)
def test_products(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [random(k, *shape) for k, shape in enumerate(shapes)]
    assert bodies(op, inputs, attrs)
    pointwise = op != "conv2d" or shapes[1][1:3] == (1, 1)
    take_body(monkeypatch, "matmul_broadcast" if pointwise else "conv_broadcast")
    terms = math.prod(shapes[1][1:]) if op == "conv2d" else shapes[1][0]
    check(op, inputs, attrs, backend="webgpu", atol=(terms + 1) ** 2 * 16 * 2.0**-24)


@pytest.mark.parametrize(("x", "g", "attrs"), FILTERS)
@pytest.mark.parametrize("parts", [1, 4])
def test_filter_gradients(
    x: tuple[int, ...],
    g: tuple[int, ...],
    attrs: dict[str, Any],
    parts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one part of the pixels, and in several. Each sum rounds TERMS times, of products up to 16."""
    if parts > 1:
        limit_device(monkeypatch, max_loop_iterations=12)
    inputs = [random(1, *x), random(2, *g)]
    names = bodies("conv2d_filter_gradient", inputs, attrs)
    assert names == ["conv2d_filter_subgroup", *["add_parts"] * (parts > 1)]
    check("conv2d_filter_gradient", inputs, attrs, backend="webgpu", atol=TERMS**2 * 16 * 2.0**-24)


def test_depths_that_are_not_packed() -> None:
    """A packed filter has zeros behind its depth up to a multiple of 8, and copies write none."""
    assert bodies("batch_matmul", [random(1, 16, 12), random(2, 12, 64)], {}) == ["matmul_tile"]


def test_other_devices_have_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [random(1, 16, 8), random(2, 8, 64)]
    assert bodies("batch_matmul", inputs, {}) == ["strided_copy", "matmul_broadcast"]
    for limits in ({"subgroup_sizes": (4, 4)}, {"software": False}, {"features": frozenset()}):
        with monkeypatch.context() as patch:
            limit_device(patch, **limits)
            device = open_device(None, False).properties
            kernels = lower(model_of("batch_matmul", inputs, {}).operations[0], device)
            assert [k.name for k in kernels if not isinstance(k, str)] == ["matmul_tile"]
