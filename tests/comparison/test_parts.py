"""Models whose shapes depend on values: all sections are compared and profiled, against LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import device, shader
from gpunn.comparison.case import load_case
from gpunn.types import Array, DType, TensorType, float32
from tests.cli.conftest import Run, run
from tests.ops.harness import random
from tests.tflite_builder import Graph, litert_run

__all__ = ["run"]

LAYERS = ["exp", "greater", "where", "gather_nd", "tanh", "tile"]


def model_file(limit: float = 1.0, name: str = "tanh") -> bytes:
    """Return a file: tanh of those exp(x) that are over a limit, and as many copies of them as there are."""
    graph = Graph()
    x = graph.input(float32(3, 4), "x")
    (grown,) = graph.add("EXP", [x], [float32(3, 4)], names=["exp"])
    limits = graph.constant(np.float32(limit))
    (large,) = graph.add("GREATER", [grown, limits], [TensorType(DType.BOOL, (3, 4))], names=["large"])
    (places,) = graph.add("WHERE", [large], [TensorType(DType.INT64, (1, 2))], names=["places"])
    (found,) = graph.add("GATHER_ND", [grown, places], [float32(1)], names=["found"])
    (count,) = graph.add("SHAPE", [found], [TensorType(DType.INT32, (1,))], {"out_type": "INT32"})
    (y,) = graph.add("TANH", [found], [float32(1)], names=[name])
    (tiled,) = graph.add("TILE", [y, count], [float32(1)], names=["tiled"])
    return graph.build([y, tiled])


def layers(count: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return operations and shapes for so many numbers over the limit."""
    return list(zip(LAYERS, [(3, 4), (3, 4), (count, 2), (count,), (count,), (count**2,)], strict=True))


SAMPLES: list[Array] = [random(seed, 3, 4) for seed in range(3)]


def test_every_section_is_compared_layer_by_layer(gpu: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed (extra: compare)")
    sides = [gpu, "cpu", "litert", "webgpu-relaxed", "cpu-relaxed"]
    found = gpunn.compare(model_file(), SAMPLES, sides, per_layer=True, layer_samples=3)
    assert found.ok and found.inputs.samples == 3
    count = litert_run(model_file(), SAMPLES[:1])[0].size
    assert [(layer.op, layer.shape) for layer in found.layers] == layers(count)
    for layer in found.layers:
        for side in layer.sides:
            assert side.isolated is not None and side.accumulated is not None, (layer.op, side.backend)
    total = sum(litert_run(model_file(), [x])[0].size for x in SAMPLES)
    assert [p.outputs[0].metrics.count for p in found.pairs] == [total] * len(found.pairs)
    assert all(output.tolerance for pair in found.pairs for output in pair.outputs)


def test_a_wrong_kernel_after_a_stop_is_found(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """TILE, two stops after the first layer, reads the first element for all places."""
    read, wrong = shader.read_body, ("loadv_x(source)", "loadv_x(p.x_start)")
    assert wrong[0] in read("strided_copy")
    monkeypatch.setattr(shader, "read_body", lambda name: read(name).replace(*wrong))
    monkeypatch.setattr(device, "_devices", {})
    found = gpunn.compare(model_file(), SAMPLES[:1], [gpu], per_layer=True)
    first = found.first_wrong(gpu)
    assert first is not None and (first.index, first.op) == (5, "tile")
    assert [f.kind for f in found.findings] == ["wrong kernel", "drift", "output"]


def test_other_shapes_on_one_side_are_an_error() -> None:
    """Two files have different limits: one has numbers that the other does not have."""
    found = gpunn.compare(model_file(), SAMPLES[:1], [], other=model_file(2.0), tolerance=0.5, per_layer=True)
    ours, theirs = (litert_run(model_file(limit), SAMPLES[:1])[0].size for limit in (1.0, 2.0))
    assert ours > theirs
    output = found.pairs[0].outputs[0]
    assert (output.metrics.count, output.metrics.unmatched, output.ok) == (ours, ours, False)
    assert [f.kind for f in found.findings] == ["output", "output"]
    assert "or there at all, on one side only" in found.findings[0].text
    assert [pair.name for pair in found.layer_pairs] == ["exp", "large"]


def test_a_saved_layer_after_a_stop(tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    gpunn.compare(model_file(), SAMPLES[:1], ["cpu"], case=(4, case))
    model, sample = load_case(case)
    assert model.operations[0].op == "tanh"
    expected = np.exp(SAMPLES[0].astype(np.float64))
    np.testing.assert_allclose(sample.arrays[0], expected[expected > 1], rtol=1e-7)
    with pytest.raises(gpunn.UnsupportedError, match=r"where \(.*WHERE\) is custom or"):
        gpunn.compare(model_file(), SAMPLES[:1], ["cpu"], case=(2, case))


@pytest.mark.parametrize("timestamps", [True, False])
def test_a_profile_has_all_operations(
    backend: str, timestamps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not timestamps:
        monkeypatch.setattr("gpunn.backends.webgpu.stopwatch.TIMESTAMPS", "a feature that no device has")
    found = gpunn.profile(gpunn.load(model_file()), SAMPLES[:1], backend=backend, runs=4)
    count = litert_run(model_file(), SAMPLES[:1])[0].size
    expected = layers(count)
    appended = [(each.op, row.shape) for row in found.rows for each in row.appended]
    assert [(row.op, row.shape) for row in found.rows] == [each for each in expected if each not in appended]
    assert appended == ([] if backend == "cpu" else [expected[4]])
    begins = [span.begin for span in found.spans]
    assert begins == sorted(begins)


def test_a_trace_is_a_run(backend: str) -> None:
    with gpunn.load(model_file()).compile(backend) as compiled:
        trace = compiled.trace(SAMPLES[0])
        for y, expected in zip(trace.outputs, litert_run(model_file(), SAMPLES[:1]), strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-5)
        assert [p.operation.op for p in compiled.placement] == LAYERS
        assert compiled.stats.runs == 1


def test_read_backs_are_no_operations(backend: str) -> None:
    graph = Graph()
    x, times = graph.input(float32(2)), graph.input(TensorType(DType.INT32, (1,)), "times")
    (y,) = graph.add("TILE", [x, times], [float32(1)])
    model = gpunn.load(graph.build([y]))
    inputs = [SAMPLES[0][0, :2], np.array([3], np.int32)]
    found = gpunn.profile(model, inputs, backend=backend, runs=2)
    assert [(row.op, row.shape) for row in found.rows] == [("tile", (6,))]


def test_on_the_command_line(run: Run, gpu: str, tmp_path: Path) -> None:
    file, arrays = tmp_path / "chosen.tflite", tmp_path / "x.npy"
    file.write_bytes(model_file())
    np.save(arrays, SAMPLES[0])
    document = run("profile", file, arrays, "--backend", gpu, "--runs", 2, "--json").json
    assert [each["op"] for row in document["rows"] for each in (row, *row["appended"])] == LAYERS
    page = tmp_path / "out.html"
    document = run("compare", file, arrays, "--per-layer", "--report", page, "--json").json
    assert [layer["op"] for layer in document["layers"]] == LAYERS
    assert "gather_nd" in page.read_text(encoding="utf-8")
    document = run("inspect", file, "--backend", gpu, "--plan", "--json").json
    assert [row["op"] for row in document["placement"]] == LAYERS[:2]
    assert document["operators"] == dict.fromkeys([*LAYERS, "shape"], 1)
    assert "WHERE" in document["stops"] and "for each shape" in document["stops"]
    series = ("--backends", "cpu", "--preferences", "fast-single-answer", "--peers", "litert")
    document = run("bench", file, *series, "--rounds", 1, "--turn", 0, "--threads", 1, "--json").json
    errors = {result["label"]: result["error"] for result in document["results"]}
    assert len(errors) == 2 and all(error < 1e-5 for error in errors.values())
