"""Sums that several invocations share, as on adapters with many cores (gpunn/ops/kernels/tiling.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.device import BASELINE
from gpunn.ops import OPS
from gpunn.ops.call import Call
from gpunn.ops.kernels.tiling import row_tiles, tiles
from gpunn.types import Shape, float32
from tests.ops.contraction.quantized_product import Case
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import check, model_of, random

MANY = replace(BASELINE, parallel_invocations=1 << 15)


@pytest.fixture
def gpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the adapter of the GPU backend pass for a GPU with many cores."""
    device = open_device(None, False)
    many = replace(device.properties, parallel_invocations=MANY.parallel_invocations, software=MANY.software)
    monkeypatch.setattr(device, "properties", many)
    return gpu


def splits_of(op: str, inputs: list[Any], attrs: dict[str, Any], gpu: str) -> dict[str, int]:
    """Return the body of the only dispatch, and its number of splits."""
    with model_of(op, inputs, attrs, (1, 2)).compile(gpu) as compiled:
        (row,) = compiled.plan_rows()
        return {row.kernel.body: row.kernel.constants["SPLITS"]}


@pytest.mark.parametrize(
    ("shape", "filter", "expected"),
    [
        ((1, 256), (10, 256), {"matmul_row": 32}),
        ((3, 36), (130, 36), {"matmul_row": 4}),
        ((3, 4), (7, 4), {"matmul_row": 1}),
        ((3, 37), (130, 37), {"matmul_row": 4}),
        ((9, 63), (20, 63), {"matmul_tile": 8}),
        ((9, 64), (20, 64), {"matmul_tile": 8}),
        ((50, 512), (33, 512), {"matmul_tile": 16}),
    ],
)
def test_fully_connected(gpu: str, shape: Shape, filter: Shape, expected: dict[str, int]) -> None:
    x, weights, bias = random(1, *shape), random(2, *filter), random(3, filter[0])
    attrs = {"activation": "relu6"}
    check(
        "fully_connected",
        [x, weights, bias],
        attrs,
        backend=gpu,
        constants=(1, 2),
        atol=tolerance(x, weights),
    )
    assert splits_of("fully_connected", [x, weights, bias], attrs, gpu) == expected


@pytest.mark.parametrize(
    ("shape", "filter", "expected"),
    [
        ((2, 9, 5, 64), (12, 3, 3, 64), {"conv_tile": 8}),
        ((1, 7, 8, 24), (5, 2, 3, 24), {"conv_tile": 2}),
        ((1, 5, 9, 13), (20, 3, 3, 13), {"conv_direct": 4}),
        ((1, 5, 9, 3), (20, 3, 3, 3), {"conv_direct": 1}),
    ],
)
@pytest.mark.parametrize("attrs", [{}, {"padding": "same", "stride": (2, 1), "dilation": (1, 2)}], ids=str)
def test_conv2d(
    gpu: str, shape: Shape, filter: Shape, expected: dict[str, int], attrs: dict[str, Any]
) -> None:
    x, weights, bias = random(1, *shape), random(2, *filter), random(3, filter[0])
    check("conv2d", [x, weights, bias], attrs, backend=gpu, constants=(1, 2), atol=tolerance(x, weights))
    assert splits_of("conv2d", [x, weights, bias], attrs, gpu) == expected


@pytest.mark.parametrize(
    ("size", "expected"), [((33, 17), "32 shares"), ((5, 4), "4 shares"), ((1, 6), "channels")], ids=str
)
@pytest.mark.parametrize("op", ["average_pool2d", "max_pool2d", "l2_pool2d"])
def test_pools(gpu: str, op: str, size: tuple[int, int], expected: str) -> None:
    attrs = {"size": size, "padding": "same", "stride": (2, 3), "activation": "relu6"}
    for shape in ((1, 33, 17, 8), (2, 33, 17, 5)):
        x = random(1, *shape)
        check(op, [x], attrs, backend=gpu)
        with model_of(op, [x], attrs).compile(gpu) as compiled:
            (row,) = compiled.plan_rows()
            assert row.kernel.reason.endswith(expected)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "shape", "filter", "splits", "steps"),
    [
        ("fully_connected", (1, 256), (10, 256), 32, ""),
        ("fully_connected", (9, 67), (13, 67), 8, "single_words"),
        ("fully_connected", (9, 256), (13, 256), 8, "four_words"),
        ("fully_connected", (17, 16), (30, 16), 1, "four_words"),
        ("conv2d", (2, 9, 5, 64), (12, 3, 3, 64), 2, "four_words"),
        ("conv2d", (2, 5, 6, 16), (9, 3, 3, 16), 1, "four_words"),
        ("conv2d", (1, 6, 7, 128), (16, 3, 2, 64), 2, "four_words"),
        ("conv2d", (1, 7, 8, 30), (16, 2, 3, 15), 2, "single_words"),
    ],
)
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_integers_stay_exact(
    gpu: str, op: str, shape: Shape, filter: Shape, splits: int, steps: str, kind: str, padding: str
) -> None:
    attrs: dict[str, Any] = {"activation": "relu"}
    if op == "conv2d":
        attrs["padding"] = padding
    case = Case(op, kind, shape, filter)
    case.check(gpu, attrs)
    (kernel,) = case.kernels(attrs)
    assert kernel.constants["SPLITS"] == splits
    assert not steps or steps in kernel.libraries


def test_no_sums_are_split_on_a_device_with_few_invocations() -> None:
    assert tiles(196, 512, 128, BASELINE).splits == row_tiles(1, 1000, 256, BASELINE).splits == 1


def test_the_kernel_depends_on_the_device_only_through_the_call() -> None:
    types = (float32(9, 64), float32(20, 64))
    kernel = OPS["fully_connected"].kernel
    assert kernel is not None
    call = Call("fully_connected", "", types, {"activation": None}, (float32(9, 20),), (True, True), MANY)
    assert "split-K by 8" in next(kernel(call)).kernels[0].reason  # type: ignore[arg-type,union-attr]
