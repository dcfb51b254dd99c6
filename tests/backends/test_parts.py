"""Tensors over the limit of a binding: operations in parts, on a device with a small limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.model import Model
from gpunn.types import DType, Quantization, TensorType
from tests.ops.harness import EPS, check, limit_device, random
from tests.ops.quantized import check_integer, quantized, stored

LIMIT = 4096
WINDOW = {"stride": (1, 1), "padding": "same"}


@pytest.fixture(params=[LIMIT, 3 * LIMIT // 2])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a backend whose device binds few bytes at a time."""
    limits = open_device(None, False).properties.limits
    limit_device(monkeypatch, limits={**limits, "max-storage-buffer-binding-size": request.param})
    return "webgpu"


# Op, shapes of its operands, attributes; the tolerance is that of sums of up to 135 terms of up to 16.
CASES: list[tuple[str, Sequence[tuple[int, ...]], Mapping[str, Any]]] = [
    ("add", [(100, 32), (100, 32)], {"activation": "relu"}),
    ("add", [(100, 32), (32,)], {}),
    ("mul", [(1, 100, 32), (100, 1)], {}),
    ("sub", [(1, 1), (1, 1, 2000)], {}),
    ("abs", [(5003,)], {}),
    ("clamp", [(2001,), (), (1,)], {}),
    ("concat", [(1, 64, 16, 3), (1, 64, 16, 5)], {"axis": 3}),
    ("concat", [(64, 16), (64, 16), (64, 8)], {"axis": -1}),
    ("select", [(50, 32), (50, 32), (50, 32)], {}),
    ("conv2d", [(1, 64, 16, 4), (3, 3, 3, 4), (3,)], WINDOW),
    ("conv2d", [(1, 63, 16, 4), (3, 5, 3, 4), (3,)], {**WINDOW, "dilation": (2, 1), "activation": "relu6"}),
    ("conv2d", [(1, 64, 16, 4), (3, 5, 3, 4)], {"stride": (2, 1), "padding": ((1, 4), (0, 2))}),
    ("conv2d", [(6, 16, 16, 4), (3, 3, 3, 4), (3,)], WINDOW),
    ("depthwise_conv2d", [(1, 64, 16, 4), (1, 3, 3, 4), (4,)], {"stride": (3, 2), "padding": "valid"}),
    ("max_pool2d", [(1, 64, 16, 4)], {"size": (3, 3), "stride": (2, 2), "padding": "same"}),
    ("average_pool2d", [(1, 65, 16, 4)], {"size": (5, 3), "stride": (2, 1), "padding": "same"}),
    ("conv3d", [(4, 5, 8, 8, 2), (2, 2, 2, 2, 3)], {"stride": (1, 1, 1), "padding": "same"}),
    ("fully_connected", [(70, 32), (8, 32), (8,)], {}),
    ("softmax", [(64, 64)], {"axis": -1, "beta": 0.5}),
    ("reduce_sum", [(64, 64)], {"axes": (1,), "keep_dims": True}),
    ("reduce_max", [(5, 10, 64)], {"axes": (1,)}),
    ("resize_bilinear", [(4, 8, 8, 4)], {"size": (9, 7)}),
]


@pytest.mark.parametrize(("op", "shapes", "attrs"), CASES)
def test_operations_in_parts(
    op: str, shapes: Sequence[tuple[int, ...]], attrs: Mapping[str, Any], small: str
) -> None:
    inputs = [random(k, *shape) for k, shape in enumerate(shapes)]
    if op == "select":
        inputs[0] = inputs[0] > 0
    weights = (1, 2) if op.startswith(("conv", "depthwise", "fully")) else ()
    check(op, inputs, attrs, backend=small, constants=weights, atol=136 * 16 * EPS)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_quantised_operations_in_parts(dtype: DType, small: str) -> None:
    """Elements that share a word of memory belong to one part."""
    zero = 0 if dtype is DType.INT16 else 3
    a, b = quantized(dtype, (100, 96), 0.1, zero), quantized(dtype, (100, 96), 0.2, zero)
    values = [stored(1, a), stored(2, b)]
    check_integer("add", values, [a, b], {}, Quantization((0.25,), (zero,)), backend=small)
    image = quantized(dtype, (1, 80, 16, 8), 0.1, zero)
    check_integer("max_pool2d", [stored(3, image)], [image], {"size": (3, 3), **WINDOW}, backend=small)


def test_the_kernels_of_parts_bind_what_they_use(small: str) -> None:
    """A chain of operations, with dispatches for each part, and nothing on the host."""
    model = Model()
    x = model.input("x", TensorType(DType.FLOAT32, (1, 64, 16, 4)))
    y, z = random(1, 1, 64, 16, 4), random(2, 3, 3, 3, 4)
    for op, other, attrs in (("mul", y, {}), ("conv2d", z, WINDOW)):
        (x,) = model.add(op, [x, model.constant(op, other)], attrs)
    model.output(x)
    value = random(3, 1, 64, 16, 4)
    with model.compile(small) as compiled:
        assert all(p.backend == "webgpu" and len(p.kernels) > 1 for p in compiled.placement)
        assert all("rows from" in k.reason for p in compiled.placement for k in p.kernels)
        np.testing.assert_allclose(compiled(value), model.evaluate([value])[0], atol=36 * 64 * EPS)


@pytest.mark.parametrize(
    ("op", "shape", "attrs"),
    [
        ("transpose", (64, 8, 16), {"perm": (0, 2, 1)}),
        ("softmax", (4000,), {}),
        ("cumsum", (4000,), {"axis": 0}),
        ("reverse", (40, 100), None),
    ],
)
def test_what_cannot_be_divided_runs_on_the_host(
    op: str, shape: tuple[int, ...], attrs: Mapping[str, Any] | None, small: str
) -> None:
    inputs = [random(0, *shape)] if attrs is not None else [random(0, *shape), np.array([0], np.int32)]
    check(op, inputs, attrs or {}, backend=small, host="over the device's binding limit", atol=1e-3)
