"""Winograd's convolution of tensors of float16, on devices that are no software: results, rule, memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import candidates
from gpunn.comparison.compare import compare
from gpunn.comparison.sides import Arithmetic
from gpunn.device import BASELINE, HALF_PRECISION, DeviceProperties
from gpunn.graph.exact import evaluate, widen
from gpunn.graph.operation import Operation
from gpunn.graph.tolerance import bounds
from gpunn.model import Model
from gpunn.ops.contraction import winograd
from gpunn.ops.contraction.winograd import TRANSFORMS
from gpunn.tuning import measurement
from gpunn.types import Array, DType, Shape, float32
from tests.ops.contraction.test_winograd import (
    BORDERS,
    CASES,
    DIRECT,
    FOUR,
    GPU,
    GROUPED,
    LARGE,
    SAME,
    SHARED,
    SINGLY,
    SOFTWARE,
    TILE,
    TWO,
    WORKGROUP,
    bodies,
    take_way,
)
from tests.ops.harness import check, limit_device, model_of, random

HALVES = replace(GPU, features=frozenset({HALF_PRECISION}))
WIDE: tuple[tuple[Shape, int, dict[str, Any]], ...] = (
    ((3, 11, 9, 72), 88, SAME | {"activation": "relu"}),
    ((1, 7, 10, 136), 67, BORDERS),
)


@pytest.fixture
def crowded(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let few invocations occupy a device, so that the rule takes F(4 x 4) for 64 channels and more."""
    limit_device(monkeypatch, software=False, parallel_invocations=1)
    return hardware_gpu


def exact_and_limit(operation: Operation, x: Array) -> tuple[Array, Array]:
    """Return the exact result of an operation with constants for this x, and the bound of the error."""
    given, *others = operation.inputs
    assert given is not None
    known = [None if o is None or o.value is None else widen(o.value) for o in others]
    results = evaluate(operation, {given: widen(x)})
    (found,) = bounds(operation, [widen(x), *known], results)
    return results[0], found.limit


def stored(seed: int, *shape: int) -> Array:
    return random(seed, *shape).astype(np.float16)


@pytest.mark.parametrize("edge", TRANSFORMS)
@pytest.mark.parametrize("case", (*CASES, *WIDE), ids=str)
def test_results_of_float16(case: Any, edge: int, hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, channels, attrs = case
    take_way(monkeypatch, edge, loops=False)
    inputs = [stored(1, *shape), stored(2, channels, 3, 3, shape[3]), stored(3, channels)]
    inputs = inputs[: 2 + channels % 2]
    (operation,) = model_of("conv2d", inputs, attrs, (1, 2)).operations
    _, limit = exact_and_limit(operation, inputs[0])
    check("conv2d", inputs, attrs, backend=hardware_gpu, constants=(1, 2), atol=limit, rtol=0)


def residual(shape: Shape, pooled: bool) -> Model:
    """Return a model of a convolution of a tensor that is computed, and of the sum of both.

    pooled: the sum is read by a pool, so that it is float16 in a relaxed compilation; else it is a result.
    """
    model, channels = Model("residual"), shape[3]
    (x,) = model.add("neg", [model.input("x", float32(*shape))])
    weights = [
        model.constant("filter", random(2, channels, 3, 3, channels)),
        model.constant("bias", random(3, channels)),
    ]
    (y,) = model.add("conv2d", [x, *weights], {"padding": "same", "activation": "relu"})
    (y,) = model.add("add", [y, x])
    model.output(*(model.add("max_pool2d", [y], {"size": (2, 2), "stride": (2, 2)}) if pooled else [y]))
    return model


@pytest.mark.parametrize("pooled", [True, False], ids=["float16", "float32"])
def test_a_relaxed_residual_sum(pooled: bool, crowded: str) -> None:
    """The sum is a part of the last transform's stores, which round in between."""
    x = random(1, 2, 13, 10, 72)
    with residual(x.shape, pooled).compile(crowded, relaxed=True) as compiled:
        rows = compiled.plan_rows()
        ways = [row.kernel.body for row in rows if row.operation.op == "conv2d"]
        (last,) = (row for row in rows if row.kernel.body == "winograd_output")
        found = np.asarray(compiled(-x))
    assert ways == ["winograd_input", "matmul_workgroup", "winograd_output"]
    assert [o.op for o in last.appended] == ["add"]
    call = last.operation.call()
    assert call.x.dtype is call.y.dtype is DType.FLOAT16
    given = x.astype(np.float16)
    exact, limit = exact_and_limit(last.operation, given)
    total = exact + given
    limit = limit + (2.0**-11 if pooled else 2.0**-24) * (np.abs(total) + limit) + 2.0**-25
    if pooled:
        total, limit = (v[:, :12].reshape(2, 6, 2, 5, 2, 72).max(axis=(2, 4)) for v in (total, limit))
    assert (np.abs(found - total) <= limit).all()


def test_pieces_and_joined_results(crowded: str) -> None:
    """The first transform finds its pixels in a larger tensor, and the last one stores into another one."""
    x, model = random(1, 2, 9, 10, 128), Model("pieces")
    (given,) = model.add("neg", [model.input("x", float32(*x.shape))])
    left, right = model.add("split", [given], {"axis": 3, "sizes": (64, 64)})
    (y,) = model.add("conv2d", [right, model.constant("filter", random(2, 64, 3, 3, 64))], SAME)
    (both,) = model.add("concat", [*model.add("abs", [left]), y], {"axis": 3})
    model.output(*model.add("max_pool2d", [both], {"size": (1, 1)}))
    with model.compile(crowded, relaxed=True) as compiled:
        rows = compiled.plan_rows()
        found = np.asarray(compiled(-x))[..., 64:]
    assert "split" not in [row.operation.op for row in rows]
    (last,) = (row for row in rows if row.kernel.body == "winograd_output")
    assert last.kernel.writes[0].rows is not None
    exact, limit = exact_and_limit(last.operation, x[..., 64:].astype(np.float16))
    assert (np.abs(found - exact) <= limit).all()


def operation_of(dtype: Any) -> tuple[Operation, Array]:
    """Return a relaxed convolution of tensors of this type, and its input, which float16 has exactly."""
    x, filter = stored(1, 1, 9, 10, 64).astype(dtype), stored(2, 64, 3, 3, 64).astype(dtype)
    (operation,) = model_of("conv2d", [x, filter], SAME, (1,)).operations
    return replace(operation, relaxed=True), x


def test_the_bound_is_that_of_float32_and_of_one_rounding() -> None:
    (exact, narrow), (_, wide) = (exact_and_limit(*operation_of(t)) for t in (np.float16, np.float32))
    rounding = np.maximum(2.0**-11 * np.abs(exact), 2.0**-25)
    np.testing.assert_allclose(narrow, wide + rounding, rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "channels", "device", "attrs", "expected"),
    [
        ((32, 14, 14, 256), 256, GPU, {}, [FOUR[1], WORKGROUP, TILE, *LARGE, TWO[1], GROUPED]),
        (
            (32, 14, 14, 256),
            256,
            HALVES,
            {},
            [FOUR[1], WORKGROUP, WORKGROUP, TILE, *LARGE, TWO[1], GROUPED],
        ),
        ((1, 14, 14, 256), 256, GPU, {}, [WORKGROUP, TILE, TILE, WORKGROUP, FOUR[1], TWO[1], GROUPED]),
        ((1, 28, 28, 32), 64, BASELINE, {}, [WORKGROUP, TILE, *LARGE, FOUR[1], TWO[1], GROUPED]),
        ((32, 28, 28, 256), 256, GPU, {"stride": (2, 2)}, [WORKGROUP, TILE, *LARGE, GROUPED]),
        ((1, 28, 28, 128), 128, SOFTWARE, {}, [SHARED, TILE, GROUPED]),
        ((1, 16, 16, 64), 64, SINGLY, {}, [SHARED, TILE, TILE, GROUPED]),
        ((1, 28, 28, 12), 128, SOFTWARE, {}, [DIRECT, TILE, GROUPED]),
    ],
)
def test_the_rule_is_that_of_float32_but_on_software(
    shape: Shape, channels: int, device: DeviceProperties, attrs: dict[str, Any], expected: list[str]
) -> None:
    assert bodies(shape, channels, device, DType.FLOAT16, **attrs) == expected


def test_memory_is_at_most_that_of_float32(crowded: str) -> None:
    shape, stats = (2, 21, 18, 64), []
    for relaxed in (True, False):
        with residual(shape, pooled=True).compile(crowded, relaxed=relaxed) as compiled:
            compiled(random(1, *shape))
            stats.append(compiled.stats)
    narrow, wide = stats
    filter = 36 * 64 * 64 * 4
    between = 2 * filter  # of the input and of the products: 36 cells of 60 tiles, padded to 64
    assert between <= narrow.peak_live_bytes <= narrow.arena_bytes <= wide.arena_bytes
    assert narrow.peak_live_bytes <= between + 2 * 21 * 18 * 64 * 2 * 2
    assert filter <= narrow.resident_bytes <= wide.resident_bytes


def of_one_cell_wrong(filter: Array, edge: int) -> Array:
    """Pack as pack_matrices() does, but the first cell is a hundredth larger."""
    packed = PACK(filter, edge)
    packed[0] *= 1.01
    return packed


PACK = winograd.pack_matrices


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_a_tuner_tells_right_from_wrong(wrong: bool, crowded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks only of a way that wins, here the second one in any case."""
    monkeypatch.setattr(measurement, "MARGIN", 1e9)
    if wrong:
        monkeypatch.setattr(winograd, "pack_matrices", of_one_cell_wrong)
    device, (operation, _) = open_device(None, False), operation_of(np.float16)
    four, *others = candidates(operation, device.properties)
    assert four.kernels[0].body == "winograd_input"
    record = measurement.Bench(device).record(operation, [others[-1], four])
    assert record is not None
    assert (record[0].chosen, bool(record[0].dropped[1])) == ((0, True) if wrong else (1, False))


def test_a_comparison_tells_right_from_wrong(crowded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sample = residual((2, 13, 10, 64), pooled=True), random(1, 2, 13, 10, 64)
    found = compare(model, [sample], backends=["webgpu-relaxed", "cpu-relaxed"])
    assert found.ok
    assert [side.arithmetic for side in found.sides][1:] == [Arithmetic.FLOAT16] * 2
    monkeypatch.setattr(winograd, "pack_matrices", of_one_cell_wrong)
    assert not compare(model, [sample], backends=["webgpu-relaxed"]).ok
