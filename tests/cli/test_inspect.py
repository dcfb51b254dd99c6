"""gpunn inspect and gpunn devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn import vision
from gpunn.types import DType, Quantization, TensorType, float32
from tests.cli.conftest import Run
from tests.importers.coreml.builder import layer, model
from tests.importers.tflite.test_contradictions import layer_file
from tests.metadata import metadata
from tests.tflite_builder import Graph

MODEL = vision.default_model()


def test_inspect_on_the_cpu(run: Run) -> None:
    document = run("inspect", MODEL, "--backend", "cpu", "--json").json
    model = gpunn.load(MODEL)
    assert document["backend"] == "cpu"
    assert document["labels"] == 10
    assert document["scoring"] == {"calibrated": True, "threshold": 0.9}
    (source,) = model.inputs
    assert document["inputs"] == [
        {
            "name": source.name,
            "dtype": "float32",
            "shape": [1, 32, 32, 3],
            "declared": source.declared,
            "bytes": 12288,
        }
    ]
    assert sum(document["operators"].values()) == len(model.operations)
    assert "plan" not in document
    for row in document["placement"]:
        assert row.keys() == {"op", "origin", "activation", "inputs", "outputs", "backend", "reason", "depth"}
        assert row["backend"] in ("cpu", "alias")
        assert row["op"] in document["operators"]


def test_inspect_prints_every_operation(run: Run) -> None:
    document = run("inspect", MODEL, "--backend", "cpu", "--json").json
    outcome = run("inspect", MODEL, "--backend", "cpu")
    assert (outcome.code, outcome.err) == (0, "")
    assert "scores   calibrated, nothing is known for sure below 0.9\n" in outcome.out
    for row in document["placement"]:
        assert row["origin"].removeprefix(f"{MODEL.name}: operation ") in outcome.out


def test_inputs_with_a_default(run: Run, tmp_path: Path) -> None:
    made = model((3,), exact=True)
    extra = made.description.input.add(name="state").type
    extra.isOptional = True
    extra.multiArrayType.shape.append(3)
    extra.multiArrayType.floatDefaultValue = 0.5
    layer(made, "addBroadcastable", ["x", "state"])
    path = tmp_path / "net.mlmodel"
    path.write_bytes(made.SerializeToString())
    found = run("inspect", path, "--backend", "cpu", "--json").json["inputs"]
    assert [(row["name"], row.get("default")) for row in found] == [("x", None), ("state", 0.5)]
    assert "input    state float32[3], default 0.5\n" in run("inspect", path, "--backend", "cpu").out


def test_warnings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(layer_file("CONV_2D", DType.INT8, Quantization((5.0,), (0,))))
    (warning,) = gpunn.load(path).warnings
    assert run("inspect", path, "--backend", "cpu", "--json").json["warnings"] == [warning]
    assert f"warning  {warning}\n" in run("inspect", path, "--backend", "cpu").out


def test_the_scale_of_pixels(run: Run, tmp_path: Path) -> None:
    graph = Graph()
    (y,) = graph.add("RELU", [graph.input(float32(1, 4, 4, 3))], [float32(1, 4, 4, 3)])
    for number, (scale, expected) in enumerate(
        [(None, None), (([0], [255]), "0..1"), (([1, 2, 3], [4]), "(byte - [1, 2, 3]) / 4")]
    ):
        path = tmp_path / f"net{number}.tflite"
        path.write_bytes(graph.build([y], metadata={"TFLITE_METADATA": metadata(scale)}))
        found = run("inspect", path, "--backend", "cpu", "--json").json["pixel_scale"]
        text = run("inspect", path, "--backend", "cpu").out
        if scale is None:
            assert found is None
            assert "pixels" not in text
        else:
            assert [found["mean"], found["std"]] == [v[0] if len(v) == 1 else v for v in scale]
            assert f"pixels   {expected}\n" in text


def test_shapes_of_inputs(run: Run) -> None:
    (source,) = gpunn.load(MODEL).inputs
    options = ("--backend", "cpu", "--shape", f"{source.name}=5,32,32,3")
    document = run("inspect", MODEL, *options, "--json").json
    assert document["inputs"][0]["shape"] == [5, 32, 32, 3]
    assert document["outputs"][0]["shape"] == [5, 10]
    assert all("[5, " in text for row in document["placement"] for text in row["outputs"])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("5,32,32,3", "--shape should be NAME=N,N,..."),
        ("input=5x32", "--shape should be NAME=N,N,..."),
        ("picture=5,32,32,3", "'picture' is not one of them"),
    ],
)
def test_wrong_shapes_of_inputs(run: Run, shape: str, message: str) -> None:
    run("inspect", MODEL, "--shape", shape).must_fail_with(message)


def test_an_input_has_one_shape(run: Run) -> None:
    options = ("--shape", "input=1,32,32,3", "--shape", "input=2,32,32,3")
    run("inspect", MODEL, *options).must_fail_with("--shape names input twice")


def test_shapes_that_depend_on_values(run: Run, tmp_path: Path) -> None:
    graph = Graph()
    x, shape = graph.input(float32(2, 3)), graph.input(TensorType(gpunn.DType.INT32, (2,)))
    path = tmp_path / "turned.tflite"
    path.write_bytes(graph.build(graph.add("RESHAPE", [x, shape], [float32(1, 1)], names=["turned"])))
    document = run("inspect", path, "--backend", "cpu", "--json").json
    assert document["outputs"][0]["declared"] == "float32[...]"
    assert (document["placement"], document["operators"]) == ([], {"reshape": 1})
    reason = (
        "the extents are computed at run time: what follows is planned for each shape that values lead to"
    )
    assert document["stops"] == f"turned.tflite: operation 0, RESHAPE: {reason}"
    assert "turned float32[...]" in run("inspect", path, "--backend", "cpu").out


def test_plan(run: Run, gpu: str) -> None:
    document = run("inspect", MODEL, "--plan", "--json").json
    assert document["backend"] == "webgpu"
    assert document["memory"]["resident_bytes"] > 0
    assert document["plan"]
    for row in document["plan"]:
        assert row["kernel"]
        assert row["reason"], f"{row['kernel']} says not why it was chosen"
        assert all(count >= 1 for count in row["groups"])
    outcome = run("inspect", MODEL, "--plan")
    assert (outcome.code, outcome.err) == (0, "")
    for row in document["plan"]:
        assert row["kernel"] in outcome.out
        assert row["reason"] in outcome.out


def test_wgsl_of_a_dispatch(run: Run, gpu: str) -> None:
    """Lines have the numbers of the compiled source; those of a library also have numbers of its file."""
    document = run("inspect", MODEL, "--plan", "--wgsl", "1", "--json").json
    shown, row = document["wgsl"], document["plan"][1]
    assert {shown[key] == row[key] for key in ("op", "origin", "kernel")} == {True}
    source = shown["source"].split("\n")
    body, library, *_, generated = shown["parts"]
    assert (body["file"], body["first_line"]) == (f"shaders/{row['kernel']}.wgsl", 1)
    assert generated["file"] is None
    assert "@compute" in shown["source"] and "alias T = f32;" in source
    outcome = run("inspect", MODEL, "--wgsl", "1")
    assert (outcome.code, outcome.err) == (0, "")
    head, *lines = outcome.out.splitlines()
    assert f"dispatch 1: {row['op']}" in head and row["origin"] in head and body["file"] in head
    assert [line.partition(" | ")[2] or "" for line in lines] == [line.rstrip() for line in source]
    assert [int(line.split()[0]) for line in lines] == [*range(1, len(source) + 1)]
    first = lines[library["first_line"] - 1].split()
    assert first[:2] == [str(library["first_line"]), f"{library['file'].removeprefix('shaders/')}:1"]
    assert lines[generated["first_line"]].split()[1] == "generated"


@pytest.mark.parametrize("number", [-1, 10_000])
def test_wgsl_of_a_dispatch_out_of_range(run: Run, gpu: str, number: int) -> None:
    count = len(run("inspect", MODEL, "--plan", "--json").json["plan"])
    outcome = run("inspect", MODEL, "--wgsl", number)
    outcome.must_fail_with(f"there is no dispatch {number}: the dispatches are 0 to {count - 1}")


def test_wgsl_needs_a_gpu(run: Run) -> None:
    outcome = run("inspect", MODEL, "--backend", "cpu", "--wgsl", 0)
    outcome.must_fail_with("--wgsl needs backend webgpu: cpu compiles no shaders")


def test_relaxed_halves_the_memory(run: Run, gpu: str) -> None:
    exact, relaxed = (
        run("inspect", MODEL, "--backend", gpu, *flag, "--json").json for flag in ((), ("--relaxed",))
    )
    assert relaxed["memory"]["resident_bytes"] < 0.6 * exact["memory"]["resident_bytes"]
    assert any("float16" in row["outputs"][0] for row in relaxed["placement"])
    assert not any("float16" in row["outputs"][0] for row in exact["placement"])


def test_devices(run: Run) -> None:
    listed = run("devices", "--json").json["devices"]
    assert len(listed) == len(gpunn.devices())
    assert listed[-1]["backend"] == "cpu"
    for device in listed:
        assert device.keys() == {"name", "backend", "kind", "driver", "api", "pci", "features", "limits"}
    outcome = run("devices")
    assert (outcome.code, outcome.err) == (0, "")
    for device in listed:
        assert device["name"] in outcome.out


def test_devices_measures_elementary_functions(run: Run) -> None:
    for device in run("devices", "--accuracy", "--json").json["devices"]:
        assert {"tanh", "pow"} <= {error["op"] for error in device["accuracy"]}
    outcome = run("devices", "--accuracy")
    assert outcome.out.count("max ulp") == len(gpunn.devices())


def test_devices_lists_limits_and_features(run: Run, gpu: str) -> None:
    gpu = run("devices", "--json").json["devices"][0]
    assert gpu["backend"] == "webgpu"
    assert gpu["driver"]
    assert all(isinstance(limit, int) for limit in gpu["limits"].values())
    assert gpu["limits"]


def test_help_without_arguments(run: Run) -> None:
    outcome = run()
    assert (outcome.code, outcome.err) == (0, "")
    for command in ("classify", "compare", "inspect", "devices"):
        assert command in outcome.out


def test_version(run: Run) -> None:
    assert run("--version").out == f"gpunn {gpunn.__version__}\n"


def test_the_plan_shows_what_runs_in_bundles(run: Run, tmp_path: Path, gpu: str) -> None:
    """A chain of small operations runs as one dispatch; what is before it is large, and runs by itself."""
    graph = Graph()
    x, axes = graph.input(float32(1 << 12, 9)), graph.constant(np.array([0], np.int32))
    (x,) = graph.add("SUM", [x, axes], [float32(9)])
    for _ in range(24):
        (x,) = graph.add("REVERSE_V2", [x, axes], [float32(9)])
    path = tmp_path / "chain.tflite"
    path.write_bytes(graph.build([x]))
    plan = run("inspect", path, "--plan", "--json").json["plan"]
    with gpunn.load(path).compile("webgpu") as compiled:
        compiled(np.zeros((1 << 12, 9), np.float32))
        dispatches = compiled.stats.dispatches
    bundles = [row["bundle"] for row in plan]
    alone, together = bundles.count(None), len(set(bundles) - {None})
    assert bundles[0] is None and bundles[-1] == 0
    assert alone + together == dispatches < len(plan)
    said = f"{len(plan) - alone} of {len(plan)} are parts of bundles: one workgroup runs those of a bundle"
    assert said in run("inspect", path, "--plan").out
    assert "it runs inside bundle 0" in run("inspect", path, "--wgsl", len(plan) - 1).out
    assert "bundle" not in run("inspect", MODEL, "--plan").out
