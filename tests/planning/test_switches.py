"""One pipeline for kernels with and without appended operations."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.shader import key_of
from gpunn.compilation import on_gpu
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.ops.contraction.broadcast_tile import subgroup
from gpunn.ops.contraction.filter_packing import STEP
from gpunn.types import DType, Quantization, TensorType, float32
from tests.ops.harness import as_software
from tests.planning.appending import add, agree, as_on_a_gpu, constant, conv, pooled, whole


def pipelines(model: Model) -> int:
    """Count the pipelines of the kernels that have loops."""
    with model.compile("webgpu") as compiled:
        rows = [row for row in compiled.plan_rows() if row.kernel.loop_iterations]
        return len({key_of(row.kernel, row.operation) for row in rows})


def behind(model: Model, y: Operand, x: Operand, kind: str) -> Operand:
    """A result of what was computed before, of a constant, or of nothing else."""
    if kind == "none":
        return add(model, "neg", y)
    return add(model, "maximum", y, x if kind == "computed" else constant(model, 8, seed=5))


@pytest.mark.parametrize("kind", ["computed", "constant", "none"])
def test_a_parameter_says_whether_operations_are_appended(
    kind: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model("switch")
    x = model.input("x", float32(1, 5, 4, 8))
    y = conv(model, x, 8)
    y = behind(model, conv(model, y, 8), y, kind)
    y = add(model, "square", behind(model, conv(model, y, 8), y, kind))
    model.output(y)
    expected = "neg" if kind == "none" else "maximum"
    names = agree(model, [whole(1, 5, 4, 8)], monkeypatch)
    assert names == ["conv2d", f"conv2d+{expected}", f"conv2d+{expected}+square"]
    assert pipelines(model) == 2, "the last has more behind it"
    monkeypatch.setattr(on_gpu, "switched", lambda placements, *_: tuple(placements))
    assert pipelines(model) == 3


@pytest.mark.parametrize("op", ["tanh", "maximum"])
def test_tables_and_libraries_have_a_pipeline_of_their_own(
    op: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model("switch")
    x = model.input("x", TensorType(DType.INT8, (1, 4, 5, 8), Quantization((0.05,), (0,))))
    y = pooled(model, x, 8)
    y = add(model, "tanh", y) if op == "tanh" else add(model, "maximum", y, x)
    z = pooled(model, add(model, "transpose", y, perm=(0, 2, 1, 3)), 8)
    model.output(y, add(model, "transpose", z, perm=(0, 2, 1, 3)))
    values = np.random.default_rng(0).integers(-120, 120, (1, 4, 5, 8)).astype(np.int8)
    as_software(monkeypatch)  # elsewhere, the first pool would store what the second one reads
    as_on_a_gpu(monkeypatch)
    assert agree(model, [values], monkeypatch)[0] == f"max_pool2d+{op}"
    assert pipelines(model) == (2 if op == "tanh" else 1), "a maximum of stored integers calls nothing"


def test_results_of_another_type_have_a_pipeline_of_their_own(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model("switch")
    x = model.input("x", float32(1, 5, 4, 8))
    y = conv(model, x, 8)
    model.output(add(model, "cast", conv(model, y, 8), dtype="int32"))
    assert agree(model, [whole(1, 5, 4, 8)], monkeypatch) == ["conv2d", "conv2d+cast"]
    assert pipelines(model) == 2


@pytest.mark.parametrize(("depth", "units", "count"), [(8, 30, 2), (256, 30, 1), (8, 32, 1), (8, 96, 1)])
def test_short_loops_keep_their_pipeline_on_software(
    depth: int, units: int, count: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Software would compute the sum of the second product for the first one, too.

    But where sums are computed in a loop of their own, as of multiples of 4 units.
    """
    if not _shares_rows():
        pytest.skip("other tiles come first")
    original = on_gpu.switched
    monkeypatch.setattr(on_gpu, "switched", lambda *given: original(*given[:-1], True))
    model = Model("switch")
    x, other = model.input("x", float32(33, depth)), model.input("other", float32(33, units))
    weights = [constant(model, units, depth, seed=seed) for seed in (1, 2)]
    plain = add(model, "fully_connected", x, weights[0], activation="relu")
    summed = add(model, "fully_connected", x, weights[1])
    model.output(plain, add(model, "maximum", summed, other))
    inputs = [whole(33, depth), whole(33, units, seed=3)]
    assert agree(model, inputs, monkeypatch) == ["fully_connected", "fully_connected+maximum"]
    assert pipelines(model) == count


def _shares_rows() -> bool:
    """Tell whether tiles of the adapter's subgroups come first."""
    device = open_device(None, False).properties
    return device.software and subgroup(device) == STEP


@pytest.mark.parametrize("units", [4, 20, 96])
def test_a_sum_behind_a_clamp_is_not_clamped(units: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that do not fill tiles, columns that do not fill blocks."""
    original = on_gpu.switched
    monkeypatch.setattr(on_gpu, "switched", lambda *given: original(*given[:-1], True))
    model = Model("switch")
    x, other = model.input("x", float32(37, 12)), model.input("other", float32(37, units))
    weights = [constant(model, units, 12, seed=seed) for seed in (1, 2)]
    plain, summed = (add(model, "fully_connected", x, w, activation="relu6") for w in weights)
    model.output(plain, add(model, "add", summed, other))
    inputs = [whole(37, 12), whole(37, units, seed=3) * np.float32(100)]
    assert agree(model, inputs, monkeypatch) == ["fully_connected", "fully_connected+add"]
    assert pipelines(model) == 1


@pytest.mark.parametrize("scale", [0.01, 2.0])
@pytest.mark.parametrize("channels", [32, 20])
def test_quantised_sums_behind_shared_rows(
    channels: int, scale: float, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that do not fill tiles; a clamp before the sum; factors above 1/2, which nothing estimates."""
    model, rng = Model("switch"), np.random.default_rng(0)

    def stored(name: str, scale: float, zero: int, units: int) -> Operand:
        return model.input(name, TensorType(DType.INT8, (69, units), Quantization((scale,), (zero,))))

    def product(x: Operand) -> Operand:
        type = TensorType(DType.INT8, (channels, 24), Quantization((scale,), (0,)))
        w = model.constant("w", rng.integers(-127, 128, type.shape).astype(np.int8), type)
        how = [Quantization((0.1,), (7,))]
        return model.add("fully_connected", [x, w], {"activation": "relu6"}, quantization=how)[0]

    x, other = stored("x", 0.05, -3, 24), stored("other", 0.08, 5, channels)
    plain, summed = product(x), product(x)
    model.output(plain, model.add("add", [summed, other], quantization=[Quantization((0.13,), (-9,))])[0])
    names = agree(
        model, [rng.integers(-128, 128, (69, n)).astype(np.int8) for n in (24, channels)], monkeypatch
    )
    together = _shares_rows() or not open_device(None, False).properties.software
    last = ["fully_connected+add"] if together else ["fully_connected", "add"]
    assert names == ["fully_connected", *last]
    assert pipelines(model) == 1


def test_what_loads_compute_is_in_both(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of rows with a gate, with and without a sum behind them."""
    original = on_gpu.switched
    monkeypatch.setattr(on_gpu, "switched", lambda *given: original(*given[:-1], False))
    model = Model("switch")
    y = pooled(model, model.input("x", float32(1, 4, 4, 8)), 8)
    gate = add(model, "mean", y, axes=(1, 2), keep_dims=True)
    weights = [constant(model, 8, 1, 1, 8, seed=seed) for seed in (1, 2)]
    plain, summed = (add(model, "conv2d", add(model, "mul", y, gate), w) for w in weights)
    model.output(plain, add(model, "maximum", summed, y))
    names = agree(model, [whole(1, 4, 4, 8)], monkeypatch, exact=False)
    assert names == ["max_pool2d", "mean", "mul+conv2d", "mul+conv2d+maximum"]
    with model.compile("webgpu") as compiled:
        first, second = compiled.plan_rows()[2:]
    assert key_of(first.kernel, first.operation) == key_of(second.kernel, second.operation)
    assert (first.kernel.params["then_on"], second.kernel.params["then_on"]) == (0, 1)
