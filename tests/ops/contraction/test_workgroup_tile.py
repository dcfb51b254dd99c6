"""Products whose operands a workgroup shares, in f32 and f16, against float64; when they come first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu import lower as lowering
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import candidates, lower
from gpunn.comparison.compare import compare
from gpunn.comparison.sides import Arithmetic
from gpunn.device import BASELINE, HALF_PRECISION, SUBGROUPS, DeviceProperties
from gpunn.graph.operation import Operation
from gpunn.graph.tolerance import bounds, half_products
from gpunn.kernel import Kernel, Kernels
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.call import Call
from gpunn.ops.contraction.half_products import pack_scaled, pack_scales
from gpunn.tuning import measurement
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.contraction.test_broadcast_tile import described, windows
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import EPS, check, limit_device, random, take_body, type_of

GPU = replace(BASELINE, features=frozenset({SUBGROUPS, HALF_PRECISION}), parallel_invocations=1 << 15)
WORKGROUP, TILE = "matmul_workgroup", "matmul_tile"


@pytest.fixture
def hardware_gpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let kernels be made for a device that is no software."""
    limit_device(monkeypatch, software=False)
    return gpu


# Rows, depths and channels: whole tiles, parts of tiles, several of either; steps of 16 that are full or not.
PRODUCTS = ((64, 16, 64), (8, 1, 1), (65, 12, 3), (130, 37, 70), (9, 50, 128), (200, 96, 61))


@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
def test_products(shape: tuple[int, int, int], hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_body(monkeypatch, WORKGROUP)
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)][: 2 + rows % 2]
    attrs = {"activation": "relu6"} if depth % 2 else {}
    check(
        "fully_connected", inputs, attrs, backend=hardware_gpu, constants=(1, 2), atol=tolerance(*inputs[:2])
    )


def test_products_with_a_computed_matrix(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_body(monkeypatch, WORKGROUP)
    inputs = [random(1, 2, 35, 20), random(2, 20, 72)]
    check("batch_matmul", inputs, {}, backend=hardware_gpu, atol=tolerance(inputs[0], inputs[1].T))


def convolutions() -> list[Any]:
    """Draw convolutions of as many channels as an input may have: multiples of four, and others."""
    return [*windows((1, 4, 3, 12, 17))]


@pytest.mark.parametrize("case", convolutions(), ids=described)
def test_convolutions(case: Any, hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, attrs = case
    take_body(monkeypatch, "conv_direct_workgroup" if inputs[0].shape[3] % 4 else "conv_workgroup")
    check("conv2d", inputs, attrs, backend=hardware_gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))


def take_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make lowering take the first candidate with products in f16 if a kernel function yields several."""
    by_rule = lowering.choose

    def chosen(kernels: Kernels, device: DeviceProperties, *_: object) -> Any:
        if not isinstance(kernels, Iterator):
            return by_rule(kernels, device)
        return next(c.kernels for c in kernels if any(k.halves for k in c.kernels))

    monkeypatch.setattr(lowering, "choose", chosen)


@pytest.fixture
def halves(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let products be computed in f16."""
    if HALF_PRECISION not in open_device(None, False).properties.features:
        pytest.skip("the adapter has no shader-f16")
    take_halves(monkeypatch)
    return hardware_gpu


def run_relaxed(op: str, inputs: list[Array], attrs: dict[str, Any], backend: str) -> tuple[Array, Operation]:
    """Run an operation whose x is computed, with products in f16; return the result and the operation.

    Of this, x and the filter are float16, and the result is float32.
    """
    model = Model()
    (x,) = model.add("neg", [model.input("x", type_of(inputs[0]))])
    constants = [model.constant(f"constant_{k}", value) for k, value in enumerate(inputs[1:])]
    model.output(*model.add(op, [x, *constants], attrs))
    with model.compile(backend, relaxed=True) as compiled:
        row = compiled.plan_rows()[-1]
        assert row.kernel.halves
        return np.asarray(compiled(-inputs[0])), row.operation


def rounded(inputs: list[Array]) -> list[Array]:
    """Return exact values of what is stored: x and the filter as float16, a bias as it is."""
    with np.errstate(over="ignore"):
        return [
            v.astype(np.float16 if k < 2 else np.float32).astype(np.float64) for k, v in enumerate(inputs)
        ]


def assert_within_bound(y: Array, inputs: list[Array]) -> None:
    """Assert that results of fully_connected have the errors of products in f16, and of sums in f32."""
    x, filter, *bias = rounded(inputs)
    sizes, depth = np.abs(x) @ np.abs(filter).T, x.shape[-1] + 1
    largest = np.abs(filter).max(axis=1)
    roundings = (1 + 2.0**-11) ** 8 - 1
    lost = (2.0**-14 + 2.0**-16 + 2.0**-17 * np.abs(x)).sum(axis=-1, keepdims=True) * largest
    exact = x @ filter.T + sum(bias)
    limit = (roundings + depth * EPS) * sizes + lost + 2 * EPS * np.abs(exact)
    assert (np.abs(y - exact) <= limit).all()


@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
def test_products_in_f16(shape: tuple[int, int, int], halves: str) -> None:
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)][: 2 + rows % 2]
    inputs[1] *= np.float32(2.0) ** random(4, channels, 1, low=-20, high=12).round()
    y, _ = run_relaxed("fully_connected", inputs, {"keep_dims": True}, halves)
    assert_within_bound(y, inputs)


@pytest.mark.parametrize("case", convolutions(), ids=described)
def test_convolutions_in_f16(case: Any, halves: str) -> None:
    inputs, attrs = case
    y, operation = run_relaxed("conv2d", inputs, attrs, halves)
    given = rounded(inputs)
    (exact,) = operation.evaluate(given)
    wide = [*given, *[None] * (len(operation.inputs) - len(given))]
    (bound,) = bounds(operation, wide, (exact,), partial(half_products, operation))
    assert (np.abs(y - exact) <= bound.limit).all()
    (strict,) = bounds(operation, wide, (exact,))
    assert (bound.limit >= strict.limit).all()
    assert (bound.limit > 9 * strict.limit).any()


SPREAD = random(5, 70, 40) * np.float32(10.0) ** random(6, 70, 40, low=-7, high=0)
EXTREMES = {
    "all large": (random(1, 70, 40, low=3e4, high=65504), random(2, 66, 40, low=-65504, high=65504)),
    "some large": (np.where(random(1, 70, 40) > 3, np.float32(65504), random(2, 70, 40)), random(3, 66, 40)),
    "just too large": (random(1, 70, 40, low=250, high=260), random(2, 66, 40, low=0.9, high=0.999)),
    "as large as may be": (np.full((70, 40), 256, np.float32), np.full((66, 40), 15.99, np.float32)),
    "subnormal": (random(1, 70, 40, low=-6e-5, high=6e-5), random(2, 66, 40, low=-7e-5, high=7e-5)),
    "of all sizes": (SPREAD, SPREAD[:66, ::-1] * 100),
    "zeros": (random(1, 70, 40), np.zeros((66, 40), np.float32)),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_no_product_overflows_or_is_lost(name: str, halves: str) -> None:
    inputs = [*EXTREMES[name]]
    y, _ = run_relaxed("fully_connected", inputs, {"keep_dims": True}, halves)
    assert np.isfinite(y).all()
    assert_within_bound(y, inputs)


def test_what_is_too_large_is_computed_in_f32(halves: str) -> None:
    x, filter = EXTREMES["all large"]
    y, _ = run_relaxed("fully_connected", [x, filter], {"keep_dims": True}, halves)
    wide, weights = rounded([x, filter])
    assert (np.abs(y - wide @ weights.T) <= 40 * EPS * (wide @ np.abs(weights).T)).all()


def test_infinite_and_undefined_elements_stay_in_their_rows(halves: str) -> None:
    inputs = [random(1, 70, 40), random(2, 66, 40)]
    inputs[0][3, 20], inputs[0][50, 39] = np.inf, np.nan
    y, _ = run_relaxed("fully_connected", inputs, {"keep_dims": True}, halves)
    assert (y[3] == np.sign(inputs[1][:, 20]) * np.inf).all()
    assert np.isnan(y[50]).all()
    others = np.delete(np.arange(70), (3, 50))
    assert_within_bound(y[others], [inputs[0][others], inputs[1]])


def test_the_largest_weight_of_a_channel_is_between_8_and_16() -> None:
    filter = np.float16([[0.25, -7, 0], [2.0**-24, 0, 0], [65504, 1, 1], [0, 0, 0], [np.inf, 1, 0]])
    packed, scales = pack_scaled(filter), pack_scales(filter)
    assert (packed.dtype, scales.dtype) == (np.float16, np.float32)
    np.testing.assert_array_equal(packed[:3, :5].T * scales[:5, None], filter)
    largest = np.abs(np.where(np.isfinite(packed), packed, 0)).max(axis=0)[:5]
    np.testing.assert_array_equal(largest, [14, 8, 15.9921875, 0, 8])


def kinds(rows: int, channels: int, device: DeviceProperties, relaxed: bool = True) -> list[str]:
    """Return the bodies of the candidates for a product of halves, in their order; "f16" where these are."""
    types = TensorType(DType.FLOAT16, (rows, 64)), TensorType(DType.FLOAT16, (channels, 64)), None
    y, given = float32(rows, channels), {"keep_dims": False}
    call = Call("fully_connected", "", types, given, (y,), (False, True, False), device, relaxed)
    kernels = OPS["fully_connected"].kernel
    assert kernels is not None
    found = [candidate.kernels[0] for candidate in kernels(call)]  # type: ignore[union-attr]
    return ["f16" if kernel.halves else kernel.body for kernel in found]


PLAIN, SHARED = "matmul_any", "matmul_broadcast"


@pytest.mark.parametrize(
    ("rows", "channels", "device", "relaxed", "expected"),
    [
        (4096, 128, GPU, True, ["f16", WORKGROUP, TILE, PLAIN]),
        (4096, 128, GPU, False, [WORKGROUP, TILE, PLAIN]),
        (4032, 128, GPU, True, [TILE, "f16", WORKGROUP, PLAIN]),
        (8192, 31, GPU, True, [TILE, "f16", WORKGROUP, PLAIN]),
        (7, 8192, GPU, True, ["matmul_row", PLAIN]),
        (4096, 128, replace(GPU, software=True), True, [TILE, PLAIN]),
    ],
)
def test_they_come_first_where_tiles_occupy_a_gpu(
    rows: int, channels: int, device: DeviceProperties, relaxed: bool, expected: list[str]
) -> None:
    assert kinds(rows, channels, device, relaxed) == expected


def test_devices_without_f16_take_the_next_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    halves = TensorType(DType.FLOAT16, (4096, 64))
    filter = model.constant("filter", np.ones((128, 64), np.float16))
    model.add("fully_connected", [model.input("x", halves), filter], {"keep_dims": True})
    operation = replace(model.operations[0], relaxed=True)
    (without,) = lower(operation, replace(GPU, features=frozenset({SUBGROUPS})))
    (with_f16,) = lower(operation, GPU)
    assert isinstance(without, Kernel) and isinstance(with_f16, Kernel)
    assert (without.body, without.halves, with_f16.halves) == (WORKGROUP, False, True)


def test_a_tuner_allows_for_products_in_f16(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tuner asks whether results are right only of a way that wins, here the second one in any case."""
    monkeypatch.setattr(measurement, "MARGIN", 1e9)
    device, model = open_device(None, False), Model()
    if HALF_PRECISION not in device.properties.features:
        pytest.skip("the adapter has no shader-f16")
    x = model.input("x", TensorType(DType.FLOAT16, (70, 90)))
    filter = model.constant("filter", random(1, 40, 90).astype(np.float16))
    model.output(*model.add("fully_connected", [x, filter]))
    operation = replace(model.operations[0], relaxed=True)
    halves, reals = (c for c in candidates(operation, device.properties) if c.kernels[0].body == WORKGROUP)
    assert (halves.kernels[0].halves, reals.kernels[0].halves) == (True, False)
    record = measurement.Bench(device).record(operation, [reals, halves])
    assert record is not None
    assert (record[0].chosen, record[0].dropped) == (1, ("", ""))


def test_a_comparison_allows_for_products_in_f16(halves: str) -> None:
    model = Model()
    (x,) = model.add("neg", [model.input("x", float32(70, 90))])
    model.output(*model.add("fully_connected", [x, model.constant("filter", random(1, 40, 90))]))
    found = compare(model, [random(2, 70, 90)], backends=["webgpu-relaxed", "cpu-relaxed"])
    assert found.ok
    assert [side.arithmetic for side in found.sides][1:] == [Arithmetic.HALF_PRODUCTS, Arithmetic.FLOAT16]
