"""from_model: gpunn's models as NNAPI operations, and back, with equal results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gpunn
from gpunn.graph.operation import Operand, Operation
from gpunn.model import Model
from gpunn.nnapi import Compilation, Execution, OperationCode, from_model
from gpunn.nnapi.description import Binding
from gpunn.nnapi.translation import translate
from gpunn.passes.expand import expand
from gpunn.types import DType, Quantization, TensorType, float32
from tests.nnapi import conformance
from tests.nnapi.builder import compiled
from tests.resources import shared

Array = npt.NDArray[Any]


def execute(compilation: Compilation, inputs: list[Array], model: Model) -> list[Array]:
    """Return the outputs of one execution, in the shapes of the model's."""
    execution = Execution(compilation)
    for k, value in enumerate(inputs):
        execution.set_input(k, value)
    outputs = [np.empty(o.type.shape, o.type.dtype.numpy) for o in model.outputs]
    for k, output in enumerate(outputs):
        execution.set_output(k, output)
    execution.start_compute().wait()
    return outputs


MODELS = ("cifar10_resnet8", "mnistnet_uint8_quant", "mobilenet_v1_0.25_128_quant", "mobilenet_v1_1.0_224")
# Models that a later feature level can express, with the message of the level before.
LATER_MODELS = {
    "cifar10_resnet8_int8": (30, r"int8\[1, 32, 32, 3\] tensors with a scale are not in NNAPI 1.2"),
    "kws_ref_float": (29, r"int8\[64, 10, 4, 1\] tensors with a scale are not in NNAPI 1.1"),
    "deeplabv3_257_mv_gpu": (30, "align_corners, NNAPI 1.1 does not have it"),
}


@pytest.mark.parametrize("name", [*MODELS, *LATER_MODELS])
def test_a_file_computes_the_same_either_way(name: str, backend: str) -> None:
    model = gpunn.load(shared(f"models/tflite/{name}.tflite"))
    level, reason = LATER_MODELS.get(name, (27, ""))
    if reason:
        with pytest.raises(gpunn.UnsupportedError, match=reason):
            from_model(model, feature_level=level - 1)
    listed = from_model(model, feature_level=level)
    assert len(listed.operations) == len(expand(model).operations)
    (source,) = model.inputs
    x = np.random.default_rng(0).uniform(-1, 1, source.type.shape)
    whole = {DType.UINT8: 128 + 100 * x, DType.INT8: 100 * x}
    x = whole.get(source.type.dtype, x).astype(source.type.dtype.numpy)
    with model.compile(backend) as direct, compiled(listed, backend) as other:
        expected = direct(x)
        (found,) = execute(other, [x], model)
    np.testing.assert_array_equal(found, expected)


def test_mobilenet_as_nnapi_operations() -> None:
    listed = from_model(gpunn.load(shared("models/tflite/mobilenet_v1_1.0_224.tflite")))
    kinds = Counter(operation.type.name for operation in listed.operations)
    assert kinds["CONV_2D"] == 15 and kinds["DEPTHWISE_CONV_2D"] == 13 and kinds.total() == 31


def test_weights_are_not_copied() -> None:
    model = gpunn.load(shared("models/tflite/mobilenet_v1_1.0_224.tflite"))
    filter = model.operations[0].inputs[1]
    assert filter is not None and filter.value is not None
    shared_with = [o.value for o in from_model(model).operands if o.value is not None]
    assert any(np.shares_memory(filter.value, value) for value in shared_with)


@pytest.mark.parametrize("operation", [operation.name for operation in OperationCode])
def test_conformance_cases_survive_the_round_trip(operation: str) -> None:
    """NNAPI -> gpunn -> NNAPI -> gpunn gives the same graph, with every third case."""
    for case in [*conformance.cases()[operation], *conformance.later_cases().get(operation, ())][::3]:
        compilation = compiled(conformance.build(case))
        if not compilation.specialisations:
            conformance.execute(compilation, case)
        (found,) = compilation.specialisations
        graph = found.compiled.model
        if any(operation.outputs[0].type.rank == 0 for operation in graph.operations):
            continue  # a reshape, which is an operation, made the result of shape [1]
        if any(operation.op == "dynamic_slice" for operation in graph.operations):
            continue  # its begins are inputs; NNAPI has no slice of a fixed size
        if any(operation.op == "cast" for operation in graph.operations):
            continue  # follows a dequantize to float16; NNAPI 1.1 has no CAST
        if any(operand.type.size == 0 for operand in graph.operands()):
            continue  # only an execution gives a dimension the size 0
        if any(len(operand.channel_scales or ()) == 1 for operand in case.operands):
            continue  # one channel: its scale is that of the tensor
        listed = from_model(graph, feature_level=conformance.LEVELS[case.level])
        types = tuple(listed.operands[k].type for k in listed.inputs)
        binding = Binding(types, tuple(np.zeros(t.dimensions) for t in types))
        again = translate(listed.description, binding).graph
        assert [o.op for o in again.operations] == [o.op for o in graph.operations], case.id
        assert [o.type for o in again.outputs] == [o.type for o in graph.outputs], case.id
        for one, other in zip(graph.operations, again.operations, strict=True):
            assert one.op == "reshape" or attributes(one) == attributes(other), case.id


def attributes(operation: Operation) -> dict[str, Any]:
    """Return the attributes of an operation, with axes counted from the start."""
    attrs = dict(operation.attrs)
    if "axis" in attrs:
        attrs["axis"] %= operation.outputs[0].type.rank
    return attrs


def graph(op: str, inputs: list[TensorType], attrs: dict[str, Any] | None = None) -> Model:
    """Return a model of one operation on inputs."""
    model = Model("graph")
    operands: list[Operand] = [model.input(f"x{k}", type) for k, type in enumerate(inputs)]
    model.output(*model.add(op, operands, attrs, origin="somewhere"))
    return model


IMAGE = float32(1, 4, 4, 2)
KEEP = {"keep_dims": True}
CONV = [IMAGE, float32(3, 2, 2, 2)]
REFUSED = {
    "no such operation": (graph("hard_swish", [IMAGE]), "hard_swish .somewhere.: NNAPI 1.1 has no"),
    "activation": (graph("add", [IMAGE, IMAGE], {"activation": "tanh"}), "tanh is no FuseCode"),
    "dilation": (graph("conv2d", CONV, {"dilation": (2, 2)}), "dilation"),
    "groups": (graph("conv2d", [IMAGE, float32(2, 2, 2, 1)]), "2 groups"),
    "axis": (graph("softmax", [IMAGE], {"axis": 1}), "last dimension"),
    "rank of a softmax": (graph("softmax", [float32(2, 2, 2)]), "rank 2 or 4"),
    "rank": (graph("relu", [float32(1, 1, 1, 1, 1)]), "rank 1 to 4"),
    "element type": (graph("relu", [TensorType(DType.FLOAT16, (2,))]), "float16"),
    "padding value": (graph("pad", [float32(2)], {"paddings": ((1, 1),), "value": 1.0}), "pads with zeros"),
    "corners": (graph("resize_bilinear", [IMAGE], {"size": (2, 2), "align_corners": True}), "align_corners"),
    "keep_dims": (graph("fully_connected", [float32(2, 3, 4), float32(5, 4)], KEEP), "keep_dims"),
    "rank 0": (graph("mean", [float32(3)], {"axes": (0,)}), "rank 1 to 4"),
    "layout": (graph("space_to_depth", [IMAGE], {"block_size": 2, "data_format": "NCHW"}), "NHWC"),
}  # fmt: skip


@pytest.mark.parametrize("level", [27, 28])
@pytest.mark.parametrize(("model", "words"), REFUSED.values(), ids=REFUSED)
def test_models_that_nnapi_cannot_express_are_refused(model: Model, words: str, level: int) -> None:
    with pytest.raises(gpunn.UnsupportedError, match=words):
        from_model(model, feature_level=level)


NEVER = (
    "no such operation",
    "activation",
    "groups",
    "rank",
    "padding value",
    "keep_dims",
    "rank 0",
    "layout",
)


@pytest.mark.parametrize("name", REFUSED)
def test_later_levels_express_more(name: str) -> None:
    model, _ = REFUSED[name]
    if name in NEVER:
        with pytest.raises(gpunn.UnsupportedError):
            from_model(model, feature_level=30)
    else:
        assert from_model(model, feature_level=30).valid


def test_later_levels_have_only_the_operations_of_1_1() -> None:
    with pytest.raises(gpunn.UnsupportedError, match=r"gpunn.nnapi has only the operations of NNAPI 1\.1"):
        from_model(REFUSED["no such operation"][0], feature_level=29)


def test_zero_points_per_channel_are_not_in_nnapi() -> None:
    per_channel = TensorType(DType.INT8, (2, 3), Quantization((0.5, 1.0), (0, 1), 0))
    with pytest.raises(gpunn.UnsupportedError, match="zero points per channel are not in"):
        from_model(graph("dequantize", [per_channel]), feature_level=29)


def test_the_lists_of_an_lstm_with_layer_normalisation() -> None:
    """Level 27 refuses it and does not silently leave out the coefficients."""
    inputs = [float32(1, 2), *[float32(3, 2)] * 4, *[float32(3, 3)] * 4, *[None] * 3, *[float32(3)] * 4]
    inputs += [None, None, float32(1, 3), float32(1, 3), *[float32(3)] * 4]
    model = Model("lstm")
    operands = [None if t is None else model.input(f"x{k}", t) for k, t in enumerate(inputs)]
    model.output(*model.add("lstm", operands, {"activation": "tanh"}))
    with pytest.raises(gpunn.UnsupportedError, match="layer normalisation, NNAPI"):
        from_model(model)
    (operation,) = from_model(model, feature_level=29).operations
    assert operation.type is OperationCode.LSTM and len(operation.inputs) == 27


def test_all_reasons_are_given_at_once() -> None:
    model = Model("two")
    x = model.input("x", IMAGE)
    (y,) = model.add("hard_swish", [x], origin="first")
    (z,) = model.add("softmax", [y], {"axis": 1}, origin="second")
    model.output(z)
    with pytest.raises(gpunn.UnsupportedError, match=r"(?s)hard_swish \(first\).*softmax \(second\)"):
        from_model(model)


def test_a_missing_bias_becomes_zeros(backend: str) -> None:
    model = graph("conv2d", CONV)
    listed = from_model(model)
    x, w = (np.random.default_rng(k).standard_normal(t.shape).astype(np.float32) for k, t in enumerate(CONV))
    (found,) = execute(compiled(listed, backend), [x, w], model)
    np.testing.assert_array_equal(found, model.compile(backend)(x, w))


@pytest.mark.parametrize("scales", [(0.5,), (0.5, 0.25, 1.0)], ids=["one scale", "scales per channel"])
@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias without scale"])
def test_a_bias_gets_the_scale_of_the_products(scales: tuple[float, ...], biased: bool, backend: str) -> None:
    rng = np.random.default_rng(0)
    model = Model("quantised")
    x = model.input("x", TensorType(DType.INT8, IMAGE.shape, Quantization((0.5,), (3,))))
    weights = rng.integers(-9, 9, (3, 2, 2, 2)).astype(np.int8)
    filter = TensorType(DType.INT8, weights.shape, Quantization(scales, (0,) * len(scales), 0))
    inputs = [x, model.constant("w", weights, filter)]
    inputs += [model.constant("b", np.array([100, -100, 7], np.int32))] if biased else []
    model.output(*model.add("conv2d", inputs, quantization=[Quantization((4.0,), (-5,))]))
    listed = from_model(model, feature_level=30)
    given = rng.integers(-128, 128, IMAGE.shape).astype(np.int8)
    (found,) = execute(compiled(listed, backend), [given], model)
    np.testing.assert_array_equal(found, model.compile(backend)(given))
    assert len(np.unique(np.asarray(found))) > 9


def test_outputs_must_be_computed() -> None:
    model = Model("identity")
    x = model.input("x", IMAGE)
    model.output(x)
    with pytest.raises(gpunn.UnsupportedError):
        from_model(model)


def test_an_op_with_an_expansion(backend: str) -> None:
    model = Model("dilate")
    x = model.input("x", float32(2, 3))
    model.output(*model.add("dilate", [x], {"steps": (2, 1), "paddings": ((0, 0), (1, 0))}))
    listed = from_model(model)
    assert OperationCode.PAD in [operation.type for operation in listed.operations]
    (found,) = execute(compiled(listed, backend), [np.ones((2, 3), np.float32)], model)
    assert found.tolist() == [[0, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]]
