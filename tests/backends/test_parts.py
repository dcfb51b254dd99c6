"""Tensors over the limit of a binding: operations in parts, on a device with a small limit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.segments import in_segments
from gpunn.device import BASELINE
from gpunn.kernel import Kernel, Pack, Read, Unsupported
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import EPS, check, limit_device, model_of, random
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored

LIMIT = 4096
WINDOW = {"stride": (1, 1), "padding": "same"}


@pytest.fixture(params=[LIMIT, 3 * LIMIT // 2])
def small(gpu: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a backend whose device binds few bytes at a time."""
    limits = open_device(None, False).properties.limits
    limit_device(monkeypatch, limits={**limits, "max-storage-buffer-binding-size": request.param})
    return gpu


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


# Op, operands, attributes: results need elements of all rows, or rows of no multiple of the offset alignment.
WHOLE: list[tuple[str, list[Array], Mapping[str, Any]]] = [
    ("transpose", [random(0, 40, 8, 16)], {"perm": (1, 2, 0)}),
    ("softmax", [random(0, 4000)], {}),
    ("cumsum", [random(0, 4000)], {"axis": 0}),
    ("cumsum", [random(0, 50, 81), np.array(1, np.int32)], {}),
    ("reverse", [random(0, 40, 100), np.array([0], np.int32)], {}),
    ("reduce_sum", [random(0, 64, 75)], {"axes": (0,)}),
    ("reduce_max", [random(0, 5000).astype(np.float16)], {"axes": (0,)}),
    ("cast", [np.arange(-2500, 2501, dtype=np.int64)], {"dtype": "float32"}),
    ("gather", [random(0, 500, 9), np.array([499, 0, 333], np.int32)], {}),
    ("batch_matmul", [random(0, 33, 60), random(1, 60, 61)], {}),
    ("conv2d", [random(0, 1, 40, 17, 3), random(1, 3, 3, 3, 3)], WINDOW),
    ("max_pool2d", [random(0, 1, 40, 17, 3)], {"size": (3, 2), **WINDOW}),
    ("conv3d", [random(0, 1, 9, 9, 9, 3), random(1, 2, 2, 2, 3, 5)], {"stride": (1, 1, 1)}),
]


@pytest.mark.parametrize(("op", "inputs", "attrs"), WHOLE, ids=[case[0] for case in WHOLE])
def test_operations_on_segments(op: str, inputs: list[Array], attrs: Mapping[str, Any], small: str) -> None:
    """Other tensors take several bindings each, and accessors choose among them."""
    check(op, inputs, attrs, backend=small, atol=1e-3 if op in ("cumsum", "reduce_sum") else 1e-4)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_quantised_operations_on_segments(dtype: DType, small: str) -> None:
    """Single elements of words, words, and four elements at a time."""
    zero = 0 if dtype is DType.INT16 else 3
    a, b = quantized(dtype, (100, 81), 0.1, zero), quantized(dtype, (1, 90, 9, 11), 0.2, zero)
    check_integer("transpose", [stored(1, a)], [a], {"perm": (1, 0)}, a.quantization, backend=small)
    filter = quantized(DType.INT8, (5, 2, 2, 11), 0.2, 0)
    given = [stored(3, b), stored(4, filter)]
    check_integer("conv2d", given, [b, filter], WINDOW, Quantization((9.0,), (zero,)), backend=small)


@pytest.mark.parametrize("rows", [1, 9])
def test_packed_filters_take_segments(rows: int, small: str) -> None:
    x, filter, bias = random(0, rows, 60), random(1, 43, 60), random(2, 43)
    check("fully_connected", [x, filter, bias], backend=small, constants=(1, 2), atol=61 * 60 * EPS)
    given, weights = quantized(DType.INT8, (rows, 260), 0.1, 3), quantized(DType.INT8, (43, 260), 0.2)
    values, scale = [stored(3, given), stored(4, weights)], Quantization((9.0,), (0,))
    check_integer("fully_connected", values, [given, weights], {}, scale, constants=(1,), backend=small)


def test_filters_that_become_int32_take_segments(small: str) -> None:
    image, filter = quantized(DType.INT8, (1, 3, 8, 300), 0.1, 3), quantized(DType.INT8, (1, 3, 3, 300), 0.2)
    values, scale = [stored(3, image), stored(4, filter)], Quantization((1.0,), (0,))
    check_integer("depthwise_conv2d", values, [image, filter], WINDOW, scale, (1,), backend=small)
    x, weights = quantized(DType.INT8, (1, 2, 2, 5), 0.1, 3), quantized(DType.INT8, (8, 9, 11, 5), 0.2)
    values, attrs = [stored(5, x), stored(6, weights)], {"size": (10, 12)}
    check_integer("transpose_conv2d", values, [x, weights], attrs, scale, (1,), backend=small)
    reals = [random(7, 1, 2, 2, 5), random(8, 8, 9, 11, 5)]
    check("transpose_conv2d", reals, attrs, backend=small, constants=(1,), atol=20 * 20 * EPS)


def test_sorted_updates_take_segments(small: str) -> None:
    rows = np.random.default_rng(1).integers(0, 7, (1100, 1)).astype(np.int32)
    given = [rows, random(2, 1100, 1)]
    check("scatter_nd", given, {"shape": (7, 1)}, backend=small, constants=(0,), atol=1100 * 1100 * EPS)


def test_recurrent_weights_take_segments(small: str) -> None:
    given = [random(0, 1, 3, 75), random(1, 75, 25), random(2, 1, 25)]
    check("gru_recurrence", given, backend=small, constants=(1,), atol=3 * 25 * 25 * 16 * EPS)


def test_constants_whose_packed_size_is_not_stated_are_not_packed() -> None:
    device = replace(BASELINE, limits={**BASELINE.limits, "max-storage-buffer-binding-size": LIMIT})
    call = replace(model_of("abs", [random(0, 1100)], {}).operations[0].call(), device=device)
    kernel = Kernel(
        body="unary", threads=(1, 1, 1), workgroup=(1, 1, 1), reads=(Read("x", 0, pack=Pack(np.sort)),)
    )
    with pytest.raises(Unsupported, match="4400 bytes cannot be packed within the device's binding limit"):
        in_segments(call, [kernel])
    stated = replace(kernel, reads=(replace(kernel.reads[0], nbytes=4400),))
    (found,) = in_segments(call, [stated])
    assert found.reads[0].segments is not None


def test_a_tensor_over_the_limit_of_a_buffer_stays_on_the_host(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = open_device(None, False).properties.limits
    small = {"max-storage-buffer-binding-size": LIMIT, "max-buffer-size": 2 * LIMIT}
    limit_device(monkeypatch, limits={**limits, **small})
    check("abs", [random(0, 2 * LIMIT // 4)], backend=gpu)
    over = "over the device's buffer limit of 8192"
    check("abs", [random(0, 2 * LIMIT // 4 + 1)], backend=gpu, host=over)


def test_what_takes_more_bindings_than_a_device_has_runs_on_the_host(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = open_device(None, False).properties.limits
    limit_device(monkeypatch, limits={**limits, "max-storage-buffers-per-shader-stage": 8})
    reason = "over the device's binding limit of .*; .* buffers are over the device's limit of 8"
    model = model_of("reverse", [random(0, 100, 100), np.array([0], np.int32)], {})
    placement = model.compile(small).placement
    assert [p.backend for p in placement] == ["cpu"]
    assert re.search(reason, placement[0].reason)
