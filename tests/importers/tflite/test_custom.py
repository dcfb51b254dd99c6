"""Custom operators of .tflite files: the user's own, their options, TFLite_Detection_PostProcess."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from hypothesis import given, settings
from hypothesis import strategies as st

import gpunn
from gpunn import CustomOperator
from gpunn.custom import Call, Expansion, Kernel, Op, Tensor, flexbuffer_map, like, op
from gpunn.errors import FormatError, GpunnError, ModelError, UnsupportedError
from gpunn.ops.elementwise.unary_kernel import elementwise
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.quantized import quantized, stored
from tests.resources import ROOT, shared
from tests.tflite_builder import Graph, litert_run

ROW = float32(1, 8)
X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(1, 8)


@op(like)
def scaled_sinh(x: Array, *, gain: float = 1.0) -> Array:
    """gain * sinh(x)."""
    return np.asarray(np.sinh(x) * x.dtype.type(gain))


@op(like)
def overwriting(x: Array) -> Array:
    """Zeros, written to the operand."""
    x[...] = 0
    return x


def _double_kernel(call: Call) -> Kernel:
    return elementwise(call, "p.factor * x", {"factor": float(call["factor"])})


@op(like, _double_kernel)
def multiply_by(x: Array, *, factor: float) -> Array:
    """factor * x."""
    return np.asarray(x.dtype.type(factor) * x)


def custom_file(options: bytes | None, type: TensorType = ROW, name: str = "Mine") -> bytes:
    """Return a file with one custom operator between two RELUs."""
    graph = Graph()
    (x,) = graph.add("RELU", [graph.input(type)], [type])
    (y,) = graph.add(name, [x], [type], custom_options=options)
    return graph.build(graph.add("RELU", [y], [type]))


def load(file: bytes, custom: Op | CustomOperator, name: str = "Mine") -> gpunn.Model:
    """Load the file with a meaning for its custom operator."""
    return gpunn.load(
        file, custom={name: custom if isinstance(custom, CustomOperator) else CustomOperator(custom)}
    )


def test_a_custom_operator_in_numpy_runs_inside_the_plan(backend: str) -> None:
    options = bytes(flexbuffers.Dumps({"gain": 0.5}))
    with load(custom_file(options), scaled_sinh).compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(X), np.sinh(np.maximum(X, 0)) * 0.5, rtol=1e-6)
        places = {p.operation.op: p.backend for p in compiled.placement}
    assert places == {"relu": backend, "scaled_sinh": "cpu"}


def _write_swish(call: Call, to: Expansion, x: Tensor) -> Tensor:
    slope = to.constant(np.array(call["slope"], np.float32))
    return to.add("mul", x, to.add("logistic", to.add("mul", x, slope)))


@op(like, expand=_write_swish)
def swish(x: Array, *, slope: float = 1.0) -> Array:
    """Compute x * logistic(slope * x)."""
    return np.asarray(x / (1 + np.exp(-x.dtype.type(slope) * x)))


def test_a_custom_operator_with_an_expansion_runs_on_the_gpu(backend: str) -> None:
    """The activations inside and after it become part of the products of its expansion."""
    options = bytes(flexbuffers.Dumps({"slope": 2.0}))
    model = load(custom_file(options), swish)
    assert [o.op for o in model.operations] == ["relu", "swish", "relu"]
    with model.compile(backend=backend) as compiled:
        expected = swish.reference(np.maximum(X, 0).astype(np.float64), slope=2.0)
        np.testing.assert_allclose(compiled(X), expected, atol=1e-5, rtol=1e-6)
        placed = [(p.operation.op, p.backend, p.operation.origin) for p in compiled.placement[1:]]
    assert placed == [("mul", backend, model.operations[1].origin)] * 2


def test_custom_options_after_the_flatbuffer() -> None:
    graph = Graph()
    options = bytes(flexbuffers.Dumps({"gain": 0.25}))
    file = graph.build(graph.add("Mine", [graph.input(ROW)], [ROW], custom_options=options), outside=True)
    assert file.endswith(options)
    model = load(file, scaled_sinh)
    assert model.operations[0].attrs["gain"] == 0.25
    with pytest.raises(FormatError, match="a block of custom options ends at byte"):
        load(file[:-1], scaled_sinh)


def test_blocks_of_custom_options_that_many_operators_share_are_refused() -> None:
    graph = Graph()
    for _ in range(20):
        graph.add("Mine", [graph.input(ROW)], [ROW], custom_options=b"1234")
    file = bytearray(graph.build([0], outside=True) + bytes(1 << 16))
    sizes = [i for i in range(len(file) - 8) if file[i : i + 8] == struct.pack("<Q", 4)]
    assert len(sizes) == 20
    for position in sizes:
        struct.pack_into("<Q", file, position, 1 << 16)
    with pytest.raises(FormatError, match="more entries than the file has room for"):
        load(bytes(file), scaled_sinh)


def test_a_custom_operator_may_have_a_kernel(gpu: str) -> None:
    options = bytes(flexbuffers.Dumps({"factor": 3}))
    with load(custom_file(options), multiply_by).compile(backend=gpu) as compiled:
        np.testing.assert_allclose(compiled(X), np.maximum(X, 0) * 3, rtol=1e-6)
        assert {p.backend for p in compiled.placement} == {"webgpu"}


def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "custom_operators.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "model.tflite").write_bytes(custom_file(None, name="Sinh"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    with names["model"].compile(backend="cpu") as compiled:
        np.testing.assert_allclose(compiled(X), np.sinh(np.maximum(X, 0)), rtol=1e-6)


def test_options_may_have_a_parser() -> None:
    custom = CustomOperator(multiply_by, lambda options: {"factor": struct.unpack("<f", options)[0]})
    with load(custom_file(struct.pack("<f", 2.5)), custom).compile(backend="cpu") as compiled:
        np.testing.assert_allclose(compiled(X), np.maximum(X, 0) * 2.5, rtol=1e-6)
    with pytest.raises(FormatError, match="operation 1, CUSTOM Mine: the custom options cannot be read"):
        load(custom_file(b"\0"), custom)


def test_quantised_operands_are_dequantised(backend: str) -> None:
    type = quantized(DType.INT8, (1, 8), 0.05, -3)
    x = stored(0, type)
    with load(custom_file(None, type), scaled_sinh).compile(backend=backend) as compiled:
        real = np.sinh(np.maximum((x.astype(np.float32) + 3) * 0.05, 0))
        assert np.abs(compiled(x) - np.clip(np.round(real / 0.05) - 3, -128, 127)).max() <= 1


def test_a_custom_operator_of_a_published_file() -> None:
    """The file custom_sinh.bin of TFLite's own tests; this test supplies the meaning."""
    path = shared("models/tflite_ops/tflite_testdata/custom_sinh.bin")
    with pytest.raises(UnsupportedError, match="CUSTOM Sinh v1: this operator has no meaning"):
        gpunn.load(path)
    model = gpunn.load(path, custom={"Sinh": CustomOperator(scaled_sinh, lambda options: {})})
    x = np.linspace(-1, 1, model.inputs[0].type.size, dtype=np.float32).reshape(model.inputs[0].type.shape)
    with model.compile(backend="cpu") as compiled:
        assert compiled(x).shape == model.outputs[0].type.shape
    assert [o.op for o in model.operations].count("scaled_sinh") == 1


def test_operands_of_a_custom_operator_cannot_be_written(backend: str) -> None:
    model = gpunn.Model("overwriting")
    model.output(*model.add(overwriting, [model.input("x", ROW)]))
    x = X.copy()
    with model.compile(backend) as compiled, pytest.raises(ValueError, match="read-only"):
        compiled(x)
    np.testing.assert_array_equal(x, X)


def test_mistakes_in_a_custom_operator_are_named() -> None:
    with pytest.raises(ModelError, match="'relu' is an op of gpunn, a custom one must have another name"):
        load(custom_file(None), op(like, name="relu")(scaled_sinh.reference))
    with pytest.raises(ModelError, match=r"multiply_by \(model: operation 1.*needs attribute factor"):
        load(custom_file(None), multiply_by)
    with pytest.raises(ModelError, match="has no attribute size"):
        load(custom_file(bytes(flexbuffers.Dumps({"size": 1}))), scaled_sinh)
    for rule in (lambda call: None, lambda call: [call.x], lambda call: "float32"):
        with pytest.raises(ModelError, match="its rule must return TensorTypes, got"):
            load(custom_file(None), op(rule, name="wrong")(lambda x: x))
    wrong = op(like, name="wrong")(lambda x: x[:, :2])
    with (
        load(custom_file(None), wrong).compile(backend="cpu") as compiled,
        pytest.raises(ModelError, match=r"wrong \(.*the reference gave shapes \[\(1, 2\)\]"),
    ):
        compiled(X)


FLAT = {"a": 1, "b": -2.5, "c": True, "d": "text", "e": None, "f": 1 << 40, "g": [1, 2, 300]}


def test_flexbuffer_maps_are_read() -> None:
    assert flexbuffer_map(b"") == {}
    expected = {**FLAT, "g": (1, 2, 300)}
    builder = flexbuffers.Builder()
    with builder.Map():
        for key, value in FLAT.items():
            builder.Key(key)
            builder.TypedVectorFromElements(value) if isinstance(value, list) else builder.Add(value)
    assert flexbuffer_map(bytes(builder.Finish())) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "no flexbuffer with a map"),
        ({"a": {"b": 1}}, "something else than numbers"),
        ({"a": [1, "b"]}, "something else than numbers"),
        ({f"k{n}": n for n in range(300)}, "have 300 entries"),
        ({"a": "b" * 70_000}, "bytes of custom options"),
        ({"a\nb": 1}, r"an option's name is 'a\\nb'"),
        ({"a" * 129: 1}, "an option's name is 'aaa"),
    ],
)
def test_other_flexbuffers_are_refused(value: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        flexbuffer_map(bytes(flexbuffers.Dumps(value)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_flexbuffers_only_raise_format_errors(data: st.DataObject) -> None:
    options = bytearray(flexbuffers.Dumps({**FLAT, "g": 2.0**70}))
    for _ in range(data.draw(st.integers(1, 4))):
        options[data.draw(st.integers(0, len(options) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        flexbuffer_map(bytes(options[data.draw(st.integers(0, 2)) :]))


SSD: Mapping[str, Any] = {
    "max_detections": 6,
    "max_classes_per_detection": 1,
    "num_classes": 3,
    "nms_score_threshold": 0.2,
    "nms_iou_threshold": 0.4,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def ssd_file(options: Mapping[str, Any], types: tuple[TensorType, TensorType], anchors: Array) -> bytes:
    graph = Graph()
    inputs = [*(graph.input(t) for t in types), graph.constant(anchors)]
    total = options["max_detections"] * options["max_classes_per_detection"]
    results = [float32(1, total, 4), float32(1, total), float32(1, total), float32(1)]
    custom = bytes(flexbuffers.Dumps({**options, "_output_quantized": True}))
    return graph.build(graph.add("TFLite_Detection_PostProcess", inputs, results, custom_options=custom))


def ssd_inputs(count: int, classes: int, seed: int) -> tuple[Array, Array, Array]:
    """Return boxes, scores without ties, and anchors."""
    rng = np.random.default_rng(seed)
    scores = rng.permutation(count * classes).reshape(1, count, classes) / (count * classes)
    anchors = np.concatenate([rng.uniform(0, 1, (count, 2)), rng.uniform(0.1, 0.5, (count, 2))], axis=1)
    boxes = rng.standard_normal((1, count, 4))
    return boxes.astype(np.float32), scores.astype(np.float32), anchors.astype(np.float32)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_classes_per_detection": 2},
        {"num_classes": 4},
        {"nms_score_threshold": 0.9},
        {"nms_iou_threshold": 1.0},
        {"max_detections": 1},
        {"max_detections": 60},
        {"use_regular_nms": True},
        {"use_regular_nms": True, "detections_per_class": 1},
        {"use_regular_nms": True, "max_detections": 40},
        {"use_regular_nms": 0},
        {"use_regular_nms": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_detections_agree_with_litert(options: Mapping[str, Any], seed: int) -> None:
    boxes, scores, anchors = ssd_inputs(50, 4, seed)
    attributes = {**SSD, **options}
    file = ssd_file(attributes, (float32(*boxes.shape), float32(*scores.shape)), anchors)
    with gpunn.load(file).compile(backend="cpu") as compiled:
        got = compiled(boxes, scores)
    expected = litert_run(file, [boxes, scores])
    assert got[3] == expected[3]
    filled = int(got[3][0]) * attributes["max_classes_per_detection"]  # LiteRT writes only these
    for a, b in zip(got[:3], expected[:3], strict=True):
        np.testing.assert_allclose(a[:, :filled], b[:, :filled], rtol=1e-6, atol=1e-6)
        assert not a[:, filled:].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_detections": 0}, "max_detections must be 1 or more"),
        ({"max_detections": 2**30}, "too many"),
        ({"num_classes": 2}, "scores of 4 classes are not those of 2"),
        ({"y_scale": 0.0}, "y_scale must be a number other than 0"),
        ({"nms_iou_threshold": 0.0}, "nms_iou_threshold must be over 0"),
        ({"nms_score_threshold": "high"}, "nms_score_threshold must be a number"),
        ({"use_regular_nms": 1.0}, "use_regular_nms must be True or False"),
        ({"num_classes": None}, "needs attribute num_classes"),
    ],
)
def test_wrong_detection_options_are_refused(options: Mapping[str, Any], message: str) -> None:
    boxes, scores, anchors = ssd_inputs(5, 4, 0)
    types = float32(*boxes.shape), float32(*scores.shape)
    attributes = {**SSD, **options}
    graph = Graph()
    inputs = [*(graph.input(t) for t in types), graph.constant(anchors)]
    custom = bytes(flexbuffers.Dumps(attributes))
    outputs = graph.add("TFLite_Detection_PostProcess", inputs, [ROW] * 4, custom_options=custom)
    with pytest.raises(GpunnError, match=message):
        gpunn.load(graph.build(outputs))


def test_boxes_of_negative_size_are_an_error() -> None:
    boxes, scores, anchors = ssd_inputs(5, 4, 0)
    file = ssd_file(SSD, (float32(*boxes.shape), float32(*scores.shape)), -anchors)
    with gpunn.load(file).compile(backend="cpu") as compiled, pytest.raises(ModelError, match="negative"):
        compiled(boxes, scores)


def test_quantised_predictions_are_dequantised() -> None:
    boxes, scores, anchors = ssd_inputs(20, 4, 2)
    kinds = quantized(DType.UINT8, boxes.shape, 0.04, 120), quantized(DType.UINT8, scores.shape, 1 / 256)
    fed = stored(0, kinds[0]), np.round(scores * 255).astype(np.uint8)
    with gpunn.load(ssd_file(SSD, kinds, anchors)).compile(backend="cpu") as compiled:
        got = compiled(*fed)
    real = ((fed[0] - np.float32(120)) * np.float32(0.04)).astype(np.float32), fed[1] / np.float32(256)
    file = ssd_file(SSD, (float32(*boxes.shape), float32(*scores.shape)), anchors)
    with gpunn.load(file).compile(backend="cpu") as compiled:
        for a, b in zip(got, compiled(*real), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
