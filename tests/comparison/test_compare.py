"""gpunn.compare: it finds wrong layers at their place, and reports nothing if all is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn import vision
from gpunn.backends.webgpu import device, resources, shader
from gpunn.comparison.sides import CompiledSide
from gpunn.graph.operation import Operand
from gpunn.kernel import Scratch
from gpunn.model import Model
from gpunn.planning.liveness import Interval, device_intervals
from gpunn.planning.plan import Plan
from gpunn.types import Array, float32
from tests.ops.harness import as_software
from tests.planning.appending import swapped_off
from tests.resources import shared
from tests.schemas import validate

# A change of depthwise_strip: the second of each four columns is the bias alone.
COLUMN = (
    ("put_by((row", "var kept = sum; if (column % 4u == 1u) { kept = begin(0u, n); } put_by((row"),
    ("+ n, sum, by)", "+ n, kept, by)"),
)


def test_a_device_that_makes_subnormal_numbers_zero_is_within_the_tolerance(gpu: str) -> None:
    """Then 1 / (1 / x) is infinite for large x, as on lavapipe, or has lost some digits."""
    model = Model("reciprocals")
    power = model.constant("power", np.array(-1, np.float32))
    (y,) = model.add("pow", [model.input("x", float32(3)), power])
    model.output(*model.add("pow", [y, power]))
    for largest in (2e38, 3e38):
        (pair,) = gpunn.compare(model, [np.array([2, 4, largest], np.float32)], [gpu], reference="cpu").pairs
        assert pair.outputs[0].ok


def break_depthwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put wrong columns into the body of depthwise_strip, on a device of its own."""
    read = shader.read_body

    def broken(name: str) -> str:
        body = read(name)
        if name == "depthwise_strip":
            for right, wrong in COLUMN:
                assert right in body
                body = body.replace(right, wrong)
        return body

    monkeypatch.setattr(shader, "read_body", broken)
    monkeypatch.setattr(device, "_devices", {})
    as_software(monkeypatch)  # which has strips of all these layers


def test_wrong_kernel_is_found_by_name(monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
    break_depthwise(monkeypatch)
    model = gpunn.load(shared("models/tflite/mobilenet_v1_0.25_128.tflite"))
    found = gpunn.compare(model, 1, [gpu, "cpu"], per_layer=True)
    assert not found.ok
    first = found.first_wrong(gpu)
    assert first is not None
    assert (first.index, first.op) == (1, "depthwise_conv2d")
    assert first.origin == "mobilenet_v1_0.25_128.tflite: operation 1, DEPTHWISE_CONV_2D"
    assert found.findings[0].kind == "wrong kernel"
    (side,) = (side for side in first.sides if side.backend == gpu)
    assert side.isolated is not None and side.isolated.worst is not None
    assert side.shaders == ("shaders/depthwise_strip.wgsl",)
    _, height, width, channels = first.shape
    assert side.isolated.metrics.count == height * width * channels
    assert 0.1 < side.isolated.over / side.isolated.metrics.count <= 0.25
    assert side.isolated.worst[2] % 4 == 1
    place = f"the worst element is [{', '.join(map(str, side.isolated.worst))}], with "
    count = f" {side.isolated.over} of "
    for words in ("depthwise_conv2d", first.name, first.origin, gpu, "isolated", place, count, *side.shaders):
        assert words in found.findings[0].text
    for layer in found.layers:
        on_gpu, on_cpu = layer.sides
        assert on_gpu.isolated is not None and on_cpu.isolated is not None
        assert on_gpu.isolated.ok == (layer.op != "depthwise_conv2d"), layer
        assert on_cpu.isolated.ok
    assert found.first_wrong("cpu") is None
    assert {f.backend for f in found.findings if f.fault} == {gpu}


def test_right_kernels_are_all_within_their_tolerance(gpu: str) -> None:
    model = gpunn.load(vision.default_model())
    found = gpunn.compare(model, 2, [gpu, "cpu"], per_layer=True, layer_samples=2)
    assert found.ok and not found.findings
    assert [layer.index for layer in found.layers] == list(range(len(found.layers)))
    assert {side.place for layer in found.layers for side in layer.sides} == {gpu, "cpu"}
    for pair in found.pairs:
        (output,) = pair.outputs
        assert output.metrics.count == 2 * 10
        assert output.tolerance is not None
        assert 0 < output.metrics.max_abs_error <= output.tolerance < 1e-2
        assert pair.agreement is not None and pair.agreement.top1 == 1
    validate("compare", json.loads(json.dumps(found.to_json(), allow_nan=False)))


def test_quantised_backends_are_equal_to_the_bit(gpu: str) -> None:
    model = gpunn.load(shared("models/tflite/cifar10_resnet8_int8.tflite"))
    found = gpunn.compare(model, 2, [gpu, "cpu"], per_layer=True)
    assert found.ok
    for pair in found.pairs:
        assert pair.outputs[0].metrics.identical
        assert (pair.outputs[0].metrics.max_steps, pair.outputs[0].tolerance) == (0, 0)
    for layer in found.layers:
        for side in layer.sides:
            assert side.isolated is not None and side.accumulated is not None
            assert side.isolated.metrics.identical and side.accumulated.metrics.identical


def overflowing() -> gpunn.Model:
    """Return a model in which a layer overflows float16, but the result does not."""
    model = gpunn.Model("overflow")
    x = model.input("x", float32(1, 8))
    large = model.constant("large", np.float32([1e5]))
    small = model.constant("small", np.float32([1e-5]))
    (between,) = model.add("mul", [x, large], origin="overflow: operation 0", names=["between"])
    (rectified,) = model.add("relu", [between], origin="overflow: operation 1", names=["rectified"])
    model.output(*model.add("mul", [rectified, small], origin="overflow: operation 2", names=["result"]))
    return model


def test_overflow_of_float16_is_named_although_the_result_is_finite(backend: str) -> None:
    x = np.float32([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]])
    found = gpunn.compare(overflowing(), x, [backend], per_layer=True)
    assert found.ok  # float32 has no error
    assert [f.kind for f in found.findings] == ["float16"]
    assert "layer 0, mul + relu, 'rectified' (overflow: operation 0) reaches 80000" in found.findings[0].text
    assert "2 of 8 values are beyond float16's 65504" in found.findings[0].text
    assert [layer.values.beyond_f16 for layer in found.layers] == [2, 0]


def inverted() -> gpunn.Model:
    """Return a model that divides by numbers beyond float16: the result is finite even if these are inf."""
    model = gpunn.Model("inverted")
    x = model.input("x", float32(1, 8))
    large = model.constant("large", np.float32([1e5]))
    one = model.constant("one", np.float32([1]))
    (between,) = model.add("mul", [x, large], origin="inverted: operation 0", names=["between"])
    model.output(*model.add("div", [one, between], origin="inverted: operation 1", names=["result"]))
    return model


def test_overflow_in_relaxed_arithmetic_is_a_fault(backend: str) -> None:
    x = np.float32([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]])
    found = gpunn.compare(inverted(), x, [f"{backend}-relaxed"], per_layer=True)
    (output,) = found.pairs[0].outputs
    assert (output.candidate.inf, output.candidate.nan) == (0, 0)
    assert not found.ok
    assert [f.kind for f in found.findings] == ["drift", "output", "float16"]
    text = "'between' (inverted: operation 0), accumulated: 0 NaN and 2 infinite values"
    assert text in found.findings[0].text
    side = found.layers[0].sides[0]
    assert side.isolated is not None and side.isolated.ok  # the kernel computes float16 correctly


def test_relaxed_layers_are_within_the_bounds_of_float16(gpu: str) -> None:
    model = gpunn.load(vision.default_model())
    found = gpunn.compare(model, 1, [f"{gpu}-relaxed", "cpu-relaxed"], per_layer=True)
    assert found.ok
    assert [side.arithmetic.value for side in found.sides] == ["float64", "float16", "float16"]
    worst = [side.isolated.ratio for layer in found.layers for side in layer.sides if side.isolated]
    assert 0.5 < max(worst) <= 1  # rounding to float16 nearly reaches its bound
    assert found.pairs[0].outputs[0].metrics.max_abs_error > 1e-6


def test_error_between_kernels(monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
    """The memory of a tensor is reused before its last reader: each layer is right, the model is not."""
    model = gpunn.Model("sum")
    x = model.input("x", float32(4, 4))
    (early,) = model.add("exp", [x])
    late = early
    for _ in range(3):
        (late,) = model.add("sin", [late])
    model.output(*model.add("add", [early, late]))
    swapped_off(monkeypatch)

    def short(plan: Plan, nbytes: Callable[[Operand | Scratch], int]) -> dict[Operand | Scratch, Interval]:
        found = device_intervals(plan, nbytes)
        return {o: i._replace(last=min(i.last, i.first + 1)) for o, i in found.items()}

    monkeypatch.setattr(resources, "device_intervals", short)
    found = gpunn.compare(model, 1, [gpu], per_layer=True)
    assert found.first_wrong(gpu) is None
    assert [f.kind for f in found.findings] == ["plan", "output"]


def test_other_references_and_tolerances() -> None:
    model = overflowing()
    found = gpunn.compare(model, 3, ["cpu64"], reference="cpu")
    assert found.sides[0].name == found.pairs[0].reference == "cpu"
    assert found.pair("cpu64") is found.pairs[0]
    assert found.ok and found.inputs.samples == 3
    strict = gpunn.compare(model, 3, ["cpu"], tolerance=0.0)
    assert not strict.ok
    assert [f.kind for f in strict.findings] == ["output"]


@pytest.mark.parametrize("tolerance", [-1.0, float("nan")])
def test_impossible_tolerances_are_refused(tolerance: float) -> None:
    with pytest.raises(gpunn.ModelError, match="tolerance must be a number from 0"):
        gpunn.compare(overflowing(), 1, ["cpu"], tolerance=tolerance)


@pytest.mark.parametrize("scale", [{"mean": float("nan")}, {"std": 0}, {"std": [1, float("inf")]}], ids=str)
def test_impossible_scales_are_refused_without_photos(scale: dict[str, Any]) -> None:
    with pytest.raises(gpunn.ModelError, match=r"(mean|std) must be finite"):
        gpunn.compare(overflowing(), 1, ["cpu"], **scale)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backends": "cpu"}, "backends must be a list of names, got 'cpu'"),
        ({"backends": [1]}, "a backend must be a name, got 1"),
        ({"reference": None}, "a backend must be a name, got None"),
        ({"labels": 5}, "labels must be a list of names, got 5"),
        ({"truth": 5}, "truth must be a path, got 5"),
        ({"tolerance": "0.1"}, "tolerance must be a number from 0, got '0.1'"),
        ({"case": 5}, "case must be the index of a layer and a file, got 5"),
        ({"case": ("0", "layer.npz")}, "the index of a layer must be an integer, got '0'"),
        ({"case": (0, 5)}, "the file of a layer must be a path, got 5"),
    ],
)
def test_arguments_of_other_kinds_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(gpunn.ModelError, match=message):
        gpunn.compare(overflowing(), 1, **{"backends": ["cpu"], **given})


@pytest.mark.parametrize("scale", [{"mean": 3}, {"std": 2.5}, {"mean": 127.5, "std": 127.5}], ids=str)
def test_a_scale_of_no_photos_is_refused(scale: dict[str, Any]) -> None:
    for inputs in (1, np.zeros((1, 8), np.float32)):
        with pytest.raises(gpunn.ModelError, match="for the pixels of photos, and there are no photos"):
            gpunn.compare(overflowing(), inputs, ["cpu"], **scale)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(gpunn.ModelError, match="layer_samples must be an integer of 1 or more, got 0"):
        gpunn.compare(overflowing(), 1, ["cpu"], per_layer=True, layer_samples=0)
    with pytest.raises(gpunn.ModelError, match="inputs must be a list of samples or files, or their number"):
        gpunn.compare(overflowing(), 1.5, ["cpu"])
    assert gpunn.compare(overflowing(), np.int64(1), ["cpu"]).ok
    for seed in (-1, 1.5, "x"):
        with pytest.raises(gpunn.ModelError, match=f"seed must be an integer of 0 or more, got {seed!r}"):
            gpunn.compare(overflowing(), 1, ["cpu"], seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("inputs", [0, []])
def test_a_comparison_without_inputs_is_refused(inputs: Any) -> None:
    with pytest.raises(gpunn.ModelError, match="nothing to run the model on"):
        gpunn.compare(overflowing(), inputs, ["cpu"])


def test_adapter_by_part_of_its_name(gpu: str) -> None:
    name = next(d.name for d in gpunn.devices() if d.backend == gpu)
    part = name[1:6].upper()
    found = gpunn.compare(overflowing(), 1, [part])
    assert found.sides[1].name == part
    assert name in found.sides[1].device


def test_several_inputs_and_outputs() -> None:
    model = gpunn.Model("two")
    a, b = model.input("a", float32(2, 3)), model.input("b", float32(2, 3))
    model.output(*model.add("add", [a, b], names=["sum"]), *model.add("sub", [a, b], names=["difference"]))
    pair: list[Array] = [np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)]
    found = gpunn.compare(model, [tuple(pair), tuple(pair[::-1])], ["cpu"])
    assert [o.name for o in found.pairs[0].outputs] == ["sum", "difference"]
    assert found.ok and found.pairs[0].agreement is None
    named = {"b": pair[1], "a": pair[0]}
    for samples in (named, [named, tuple(pair)]):
        by_name = gpunn.compare(model, samples, ["cpu"]).pairs[0].outputs[1]
        assert by_name.reference.max_abs == 1 and by_name.metrics.identical
    with pytest.raises(gpunn.ModelError, match="inputs are \\['a', 'b'\\], got \\['a'\\]"):
        gpunn.compare(model, {"a": pair[0]}, ["cpu"])


def test_state_and_strings(backend: str) -> None:
    """Every sample starts from the initial state, and strings are equal or not."""
    model = gpunn.Model("counter")
    words = model.input("words", gpunn.TensorType(gpunn.DType.STRING, (2,)))
    total = model.variable("total", float32(2), np.float32([10, 20]))
    step = model.input("step", float32(2))
    (after,) = model.add("add", [total, step], names=["after"])
    model.update(total, after)
    model.output(after, *model.add("reshape", [words], {"shape": (1, 2)}, names=["same words"]))
    sample = np.array([b"a", b"b"], object), np.float32([1, 2])
    found = gpunn.compare(model, [sample, sample], [backend], per_layer=True, layer_samples=2)
    assert found.ok
    first, second = found.pairs[0].outputs
    assert first.reference.max_abs == first.candidate.max_abs == 22
    assert second.metrics.identical and second.dtype == "string"
    with pytest.raises(gpunn.ModelError, match="takes strings, which are not drawn at random"):
        gpunn.compare(model, 1, [backend])


@pytest.mark.parametrize(
    ("backends", "reference", "message"),
    [
        (["gpu of nobody"], "cpu64", "there is no backend 'gpu of nobody'; known are cpu64, cpu, webgpu"),
        (["cpu64"], "cpu64", "nothing to compare with the reference 'cpu64'"),
        ([], "cpu64", "nothing to compare"),
        ([""], "cpu64", "there is no backend ''"),
    ],
)
def test_refused_backends(backends: list[str], reference: str, message: str) -> None:
    with pytest.raises(gpunn.ModelError, match=message):
        gpunn.compare(overflowing(), 1, backends, reference=reference)


def test_what_was_opened_is_closed_where_a_backend_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[str]()
    monkeypatch.setattr(CompiledSide, "close", lambda side: closed.append(side.info.name))
    with pytest.raises(gpunn.ModelError, match="there is no backend 'nobody'"):
        gpunn.compare(overflowing(), 1, ["cpu", "nobody"])
    assert closed == ["cpu"]


def test_refused_inputs(tmp_path: Path) -> None:
    with pytest.raises(gpunn.ModelError, match="sample 0: the model has 1 input, got 2 arrays"):
        gpunn.compare(overflowing(), [(np.zeros(1), np.zeros(1))], ["cpu"])
    with pytest.raises(gpunn.ModelError, match=r"must have shape \[1, 8\], got \[2\]"):
        gpunn.compare(overflowing(), [np.zeros(2, np.float32)], ["cpu"])
    with pytest.raises(gpunn.ModelError, match="does not take photos"):
        gpunn.compare(overflowing(), [tmp_path / "photo.png"], ["cpu"])


def test_labels_turn_a_model_without_photos_into_a_classifier() -> None:
    model = Model("rows")
    model.output(*model.add("softmax", [model.input("x", float32(1, 3))]))
    x = [np.float32([[0, 2, 1]]), np.float32([[4, 2, 1]])]
    (pair,) = gpunn.compare(model, x, ["cpu"], labels=["a", "b", "c"]).pairs
    assert pair.agreement is not None
    assert (pair.agreement.count, pair.agreement.top1) == (2, 1.0)
    for labels in ([], ["a", "b"]):
        (pair,) = gpunn.compare(model, x, ["cpu"], labels=labels).pairs
        assert pair.agreement is None
