"""Products of computed filters and gradients of filters, whose rows a subgroup shares on software devices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import lower
from gpunn.device import SUBGROUPS, DeviceProperties
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.ops.harness import check, limit_device, model_of, random, take_body

pytestmark = pytest.mark.usefixtures("gpu")

# Rows and channels that fill tiles of 16 x 32 or 64, and that do not; whole blocks of 32 channels, and parts.
PRODUCTS: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("conv2d", [(2, 4, 5, 8), (26, 1, 1, 8), (26,)], {"activation": "relu6"}),
    ("conv2d", [(1, 8, 4, 16), (70, 1, 1, 16)], {}),
    ("conv2d", [(1, 3, 3, 24), (129, 1, 1, 24), (129,)], {"activation": "relu"}),
    ("conv2d", [(2, 5, 6, 8), (40, 3, 2, 8), (40,)], {"padding": "same", "stride": (1, 2)}),
    ("batch_matmul", [(37, 8), (8, 64)], {}),
    ("batch_matmul", [(3, 7, 32), (32, 136)], {}),
]
# Stacks of matrices: whole tiles of 16 rows and parts, depths that 8, 4 or 1 divide, batches of several
# dimensions, and one matrix for all rows.
STACKS: list[tuple[list[tuple[int, ...]], dict[str, Any]]] = [
    ([(3, 17, 60), (3, 60, 40)], {}),
    ([(2, 2, 9, 33), (2, 2, 33, 70)], {}),
    ([(5, 32, 16), (5, 26, 16)], {"adj_b": True}),
    ([(2, 1, 23, 45), (2, 1, 64, 45)], {"adj_b": True}),
    ([(3, 11, 20), (1, 100, 20)], {"adj_b": True}),
    ([(2, 16, 40), (40, 57)], {}),
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


@pytest.mark.parametrize(("shapes", "attrs"), STACKS, ids=str)
def test_stacks(shapes: list[tuple[int, ...]], attrs: dict[str, Any]) -> None:
    a, b = inputs = [random(k, *shape) for k, shape in enumerate(shapes)]
    *copies, product = bodies("batch_matmul", inputs, attrs)
    assert product == "matmul_broadcast" and all("copy" in name for name in copies)
    whole, rest = divmod(b.shape[-2 if "adj_b" in attrs else -1], 32)
    zeros = a.shape[-1] % 8 > 0
    assert len(copies) == (whole > 0) + (rest > 0) + zeros, "whole blocks, what is left, what is behind"
    check("batch_matmul", inputs, attrs, backend="webgpu", atol=(a.shape[-1] + 1) ** 2 * 16 * 2.0**-24)


def test_zeros_lie_behind_the_depth_of_a_stack() -> None:
    """What lay in the memory of packed matrices before is not in their products: here infinities."""
    model = Model()
    x, a, b = (
        model.input(n, float32(*s)) for n, s in (("x", (90_000,)), ("a", (4, 32, 20)), ("b", (4, 20, 64)))
    )
    (infinite,) = model.add("cumsum", [x], {"axis": 0})
    (least,) = model.add("reduce_min", [infinite], {"axes": (0,), "keep_dims": True})
    (started,) = model.add("mul", [a, *model.add("minimum", [least, model.constant("c", np.float32([1]))])])
    model.output(*model.add("batch_matmul", [started, b]))
    values = [np.full(90_000, np.inf, np.float32), random(1, 4, 32, 20), random(2, 4, 20, 64)]
    assert bodies("batch_matmul", values[1:], {})[-1] == "matmul_broadcast"
    with model.compile("webgpu") as compiled:
        found = compiled(*values)
    exact = values[1].astype(np.float64) @ values[2]
    np.testing.assert_allclose(found, exact, rtol=0, atol=21**2 * 16 * 2.0**-24)


@pytest.mark.parametrize(
    ("shapes", "attrs", "body"),
    [
        ([(4, 32, 8), (4, 8, 32)], {}, "batch_matmul_tile"),  # little work
        ([(8, 512, 64), (8, 64, 2)], {}, "batch_matmul"),  # of 32 columns of a tile, 30 are idle, or of 4 two
        ([(40, 7, 32), (40, 32, 64)], {}, "batch_matmul_tile"),  # few rows
        ([(8, 32, 64), (8, 32, 64)], {"adj_a": True}, "batch_matmul_tile"),
        ([(1, 64, 64), (8, 64, 64)], {}, "batch_matmul_tile"),
    ],
)
def test_stacks_whose_rows_are_not_shared(
    shapes: list[tuple[int, ...]], attrs: dict[str, Any], body: str
) -> None:
    assert bodies("batch_matmul", [random(k, *s) for k, s in enumerate(shapes)], attrs) == [body]


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


def test_zeros_behind_a_packed_depth() -> None:
    """A packed filter has zeros behind its depth up to a multiple of 8: one dispatch more, if it pays off."""
    assert bodies("batch_matmul", [random(1, 16, 12), random(2, 12, 64)], {}) == ["matmul_tile"]
    inputs = [random(1, 1024, 20), random(2, 20, 64)]
    inputs[0][3, 7] = inputs[1][5, 9] = np.inf  # times a zero it would be NaN
    assert bodies("batch_matmul", inputs, {}) == ["strided_copy", "strided_copy", "matmul_broadcast"]
    (y,) = check("batch_matmul", inputs, {}, backend="webgpu", atol=20**2 * 16 * 2.0**-24)
    assert not np.isnan(y).any()


def test_other_devices_have_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [random(1, 16, 8), random(2, 8, 64)]
    assert bodies("batch_matmul", inputs, {}) == ["strided_copy", "matmul_broadcast"]
    for limits in ({"subgroup_sizes": (4, 8)}, {"software": False}, {"features": frozenset()}):
        with monkeypatch.context() as patch:
            limit_device(patch, **limits)
            device = open_device(None, False).properties
            kernels = lower(model_of("batch_matmul", inputs, {}).operations[0], device)
            assert [k.name for k in kernels if not isinstance(k, str)] == ["matmul_tile"]
