"""Files that contradict themselves, and yet say what they compute: they run as in LiteRT, with a warning."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model, load
from gpunn.types import Array, DType, Quantization, TensorType
from tests.importers.tflite.cases_quantized import I8, U8
from tests.ops.quantized import quantized, stored
from tests.tflite_builder import Graph, litert_run, single_op

I16, I32, I64 = DType.INT16, DType.INT32, DType.INT64
STRIDES = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
FILTER_SCALES = (0.02, 0.03, 0.01, 0.02)


def run_as_litert(file: bytes, inputs: Sequence[Array], backend: str) -> Model:
    """The model, whose only output is LiteRT's to the bit."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    model = load(file)
    (answer,) = litert_run(file, inputs)
    with model.compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(*inputs), answer)
    return model


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator with a filter: shapes of input, filter and result, and the filter's axis of channels."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    options: Mapping[str, Any]
    axis: int = 0

    @property
    def channels(self) -> int:
        return self.w[self.axis]


LAYERS = {
    "CONV_2D": Layer((1, 3, 3, 2), (3, 2, 2, 2), (1, 2, 2, 3), STRIDES),
    "DEPTHWISE_CONV_2D": Layer(
        (1, 3, 3, 3), (1, 2, 2, 3), (1, 2, 2, 3), {**STRIDES, "depth_multiplier": 1}, axis=3
    ),
    "FULLY_CONNECTED": Layer((2, 5), (3, 5), (2, 3), {}),
    "TRANSPOSE_CONV": Layer((1, 2, 2, 2), (3, 2, 2, 2), (1, 3, 3, 3), STRIDES),
}


def layer_file(
    operator: str,
    x: DType,
    bias: Quantization,
    filter_scales: tuple[float, ...] = (0.02,),
    scale_y: float = 0.1,
    zeros: tuple[int, ...] = (),
) -> bytes:
    """A layer with inputs of scale 0.05 and a bias of any quantisation; `zeros` of the filter."""
    layer, graph = LAYERS[operator], Graph()
    zero = 0 if x is I16 else 3
    w = U8 if x is U8 else I8
    scales = Quantization(filter_scales, zeros or (0,) * len(filter_scales), layer.axis)
    filter = TensorType(w, layer.w, scales)
    values = np.arange(-700, 700, 1400 // layer.channels, np.int32)[: layer.channels]
    given = graph.input(quantized(x, layer.x, 0.05, zero))
    weights = graph.tensor(filter, data=stored(1, filter).tobytes())
    biases = graph.tensor(TensorType(I32, values.shape, bias), data=values.tobytes())
    inputs = [given, weights, biases]
    if operator == "TRANSPOSE_CONV":
        inputs = [graph.constant(np.array(layer.y, np.int32)), weights, given, biases]
    result = quantized(x, layer.y, scale_y, zero)
    return graph.build(graph.add(operator, inputs, [result], layer.options, version=3))


def one(scale: float, zero: int = 0) -> Quantization:
    return Quantization((scale,), (zero,))


@pytest.mark.parametrize("operator", LAYERS)
@pytest.mark.parametrize(
    ("dtype", "bias", "filter_scales"),
    [
        (U8, one(0.0029), (0.02,)),
        (I8, one(0.0029), (0.02,)),
        (I8, one(5.0), FILTER_SCALES[:3]),
        (I8, Quantization((0.001, 0.0015, 0.0009), (0, 0, 0)), FILTER_SCALES[:3]),
        (I8, Quantization((0.001, 0.001, 0.001), (0, 0, 0)), (0.02,)),
    ],
)
def test_a_bias_of_another_scale_is_added_as_stored(
    operator: str, dtype: DType, bias: Quantization, filter_scales: tuple[float, ...], backend: str
) -> None:
    file = layer_file(operator, dtype, bias, filter_scales)
    x = stored(0, quantized(dtype, LAYERS[operator].x, 0.05, 3))
    (warning,) = run_as_litert(file, [x], backend).warnings
    assert warning.startswith(f"operation 0, {operator}: the bias")


@pytest.mark.parametrize(("operator", "dtype"), [("CONV_2D", I8), ("TRANSPOSE_CONV", I8)])
def test_some_layers_take_any_scale_of_a_bias(operator: str, dtype: DType, backend: str) -> None:
    x = stored(0, quantized(dtype, LAYERS[operator].x, 0.05, 3))
    assert run_as_litert(layer_file(operator, dtype, one(5.0)), [x], backend).warnings


@pytest.mark.parametrize(
    ("operator", "dtype"), [("CONV_2D", U8), ("FULLY_CONNECTED", U8), ("FULLY_CONNECTED", I8)]
)
def test_what_litert_refuses_of_a_bias_is_refused(operator: str, dtype: DType) -> None:
    file = layer_file(operator, dtype, one(0.0031))  # |0.001 - 0.0031| / 0.1 is above 0.02
    with pytest.raises(ModelError, match=r"the bias's scale must be that of input \* filter, 0.00099"):
        load(file)
    load(layer_file(operator, dtype, one(0.0031), scale_y=0.11))
    with pytest.raises(ModelError, match="the bias must have the zero point 0"):
        load(layer_file(operator, dtype, one(0.0029, zero=5)))


@pytest.mark.parametrize("operator", LAYERS)
@pytest.mark.parametrize("scales", [(0.02, 0.0, 0.01), (0.02, 1e-42, 0.01), (0.0, 0.0, 0.0), (1e-42,)])
def test_channels_of_no_scale_are_dead(operator: str, scales: tuple[float, ...], backend: str) -> None:
    x = quantized(I8, LAYERS[operator].x, 0.05, 3)
    bias = Quantization(tuple(float(np.float32(0.05) * np.float32(s)) for s in scales), (0,) * len(scales))
    model = run_as_litert(layer_file(operator, I8, bias, scales), [stored(0, x)], backend)
    assert model.warnings == ()


def test_a_filter_of_the_only_scale_0_is_0(backend: str) -> None:
    for operator, layer in LAYERS.items():
        x = quantized(I8, layer.x, 0.05, 3)
        model = run_as_litert(layer_file(operator, I8, one(0.0), (0.0,)), [stored(0, x)], backend)
        assert model.warnings == ()


@pytest.mark.parametrize("operator", sorted(LAYERS.keys() - {"CONV_2D"}))
def test_zero_points_beside_several_scales_count_as_0(operator: str, backend: str) -> None:
    scales, layer = FILTER_SCALES[:3], LAYERS[operator]
    bias = Quantization(tuple(float(np.float32(0.05) * np.float32(s)) for s in scales), (0, 0, 0))
    file = layer_file(operator, I8, bias, scales, zeros=(5, -7, 9))
    (warning,) = run_as_litert(file, [stored(0, quantized(I8, layer.x, 0.05, 3))], backend).warnings
    assert warning.startswith(f"operation 0, {operator}: the filter has zero points beside several scales")


def test_litert_refuses_such_zero_points_of_a_convolution() -> None:
    bias = Quantization((0.001, 0.0015, 0.0005), (0, 0, 0))
    with pytest.raises(ModelError, match="must have zero points of 0"):
        load(layer_file("CONV_2D", I8, bias, FILTER_SCALES[:3], zeros=(5, -7, 9)))


def test_a_bias_has_its_scales_along_its_only_dimension(backend: str) -> None:
    bias = Quantization((0.001, 0.0015, 0.0005), (0, 0, 0))
    right, wrong = (layer_file("CONV_2D", I8, replace(bias, axis=k), FILTER_SCALES[:3]) for k in (0, 3))
    x = stored(0, quantized(I8, LAYERS["CONV_2D"].x, 0.05, 3))
    with load(wrong).compile(backend=backend) as compiled:  # a later LiteRT refuses it
        np.testing.assert_array_equal(compiled(x), litert_run(right, [x])[0])
    warning = "tensor 2 (t2) has 3 scales along dimension 3, though it has only dimension 0"
    assert load(wrong).warnings == (warning,)


def test_a_bias_that_fits_gives_no_warning() -> None:
    for scale in (0.001, 0.0010005):
        assert load(layer_file("CONV_2D", I8, one(scale))).warnings == ()


def test_a_bias_shared_among_layers_gives_a_warning_where_it_does_not_fit(backend: str) -> None:
    graph, shape = Graph(), (1, 2, 2, 2)
    bias = graph.tensor(quantized(I32, (2,), 0.001), data=np.array([40, -900], np.int32).tobytes())
    y = graph.input(quantized(I8, shape, 0.05, 3))
    weights = np.array([9, -70, 100, 3], np.int8).tobytes()
    for scale in (0.02, 0.5):
        w = graph.tensor(quantized(I8, (2, 1, 1, 2), scale), data=weights)
        (y,) = graph.add("CONV_2D", [y, w, bias], [quantized(I8, shape, 0.05, 3)], STRIDES, version=3)
    x = stored(0, quantized(I8, shape, 0.05, 3))
    model = run_as_litert(graph.build([y]), [x], backend)
    (warning,) = model.warnings
    assert warning.startswith("operation 1, CONV_2D: the bias's scale must be that of input * filter, 0.02")


def test_warnings_stay_with_the_model() -> None:
    model = load(layer_file("CONV_2D", I8, one(5.0)))
    assert len(model.warnings) == 1
    (name,) = (operand.name for operand in model.inputs)
    for other in (
        model.reshaped({name: (2, 3, 3, 2)}),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
    ):
        assert other.warnings == model.warnings


@pytest.mark.parametrize(("rows", "depth", "channels"), [(2, 8, 3), (5, 33, 8), (1, 700, 4)])
def test_dense_layers_of_16_bits_with_weights_of_16_bits(
    rows: int, depth: int, channels: int, backend: str
) -> None:
    x, w = quantized(I16, (rows, depth), 0.002, 0), quantized(I16, (channels, depth), 0.001, 0)
    graph = Graph()
    weights = graph.tensor(w, data=stored(1, w, -3000, 3000).tobytes())
    y = quantized(I16, (rows, channels), 0.2, 0)
    file = graph.build(graph.add("FULLY_CONNECTED", [graph.input(x), weights], [y], version=7))
    values = stored(0, x)
    with load(file).compile(backend=backend) as compiled:
        found = compiled(values)
        assert {p.backend for p in compiled.placement} == {backend}
    answer = litert_run(file, [values])[0]
    # LiteRT multiplies with the real factor and rounds once, gpunn takes 15 bits of it (docs/quantized.md).
    reach = np.abs(answer.astype(np.int64)).max() * 2.0**-15
    assert np.abs(found.astype(np.int64) - answer).max() <= 1 + reach
    assert len(np.unique(answer[np.abs(answer) < 2**15 - 1])) > 1


@pytest.mark.parametrize(
    ("a", "b", "adjoint"),
    [((4, 5), (5, 3), False), ((2, 3, 33), (2, 7, 33), True), ((2, 1, 3, 8), (5, 8, 4), False)],
)
def test_products_of_16_and_8_bits(
    a: tuple[int, ...], b: tuple[int, ...], adjoint: bool, backend: str
) -> None:
    left, right = quantized(I16, a, 0.002, 0), quantized(I8, b, 0.03, 0)
    rows = np.broadcast_shapes(a[:-2], b[:-2])
    result = quantized(I16, (*rows, a[-2], b[-2 if adjoint else -1]), 0.02, 0)
    file = single_op("BATCH_MATMUL", [left, right], [result], {"adj_y": adjoint}, version=4)
    run_as_litert(file, [stored(0, left), stored(1, right)], backend)


@pytest.mark.parametrize(
    ("operator", "inputs", "stated", "options", "results"),
    [
        ("UNIQUE", [[2, 3, 2, 5]], [I64, I32], {"idx_out_type": "INT32"}, [[2, 3, 5], [0, 1, 0, 2]]),
        ("UNIQUE", [[2, 2, 2]], [DType.FLOAT32, I32], {"idx_out_type": "INT32"}, [[2], [0, 0, 0]]),
        ("UNIQUE", [[7, 9]], [I32, I64], {"idx_out_type": "INT32"}, [[7, 9], [0, 1]]),
        ("BROADCAST_ARGS", [[2, 3], [4, 1, 3]], [I64], {}, [[4, 2, 3]]),
    ],
)
@pytest.mark.parametrize("constant", [False, True])
def test_another_type_than_follows_from_the_inputs_is_a_warning(
    operator: str,
    inputs: Sequence[Sequence[int]],
    stated: Sequence[DType],
    options: Mapping[str, Any],
    results: Sequence[Sequence[int]],
    constant: bool,
    backend: str,
) -> None:
    """The results are int32, as the inputs are and the option says; LiteRT refuses such files."""
    graph, values = Graph(), [np.array(v, np.int32) for v in inputs]
    operands = [graph.constant(v) if constant else graph.input(TensorType(I32, v.shape)) for v in values]
    types = [TensorType(dtype, (len(y),)) for dtype, y in zip(stated, results, strict=True)]
    model = load(graph.build(graph.add(operator, operands, types, options)))
    (warning,) = model.warnings
    assert f"operation 0, {operator}: output" in warning and "make it INT32" in warning
    with model.compile(backend=backend) as compiled:
        found = compiled(*([] if constant else values))
    for y, wanted in zip(found if isinstance(found, tuple) else (found,), results, strict=True):
        assert y.dtype == np.int32
        np.testing.assert_array_equal(y, wanted)


def test_the_types_that_follow_from_the_inputs_give_no_warning() -> None:
    types = [TensorType(I32, (2,)), TensorType(I64, (2,))]
    assert load(single_op("UNIQUE", types[:1], types, {"idx_out_type": "INT64"})).warnings == ()


@pytest.mark.parametrize("operator", ["REDUCE_WINDOW", "STABLEHLO_REDUCE"])
def test_windows_of_float16(operator: str, backend: str) -> None:
    """LiteRT has none; sums of small whole numbers are exact."""
    half, graph, inner = DType.FLOAT16, Graph(), Graph()
    x = np.arange(12, dtype=np.float16).reshape(3, 4)
    given = [graph.input(TensorType(half, x.shape)), graph.constant(np.float16(0.5))]
    scalars = [inner.input(TensorType(half, ())) for _ in range(2)]
    called = [(inner, inner.add("STABLEHLO_ADD", scalars, [TensorType(half, ())]))]
    if operator == "REDUCE_WINDOW":
        given += [graph.constant(np.array(v, np.int64)) for v in ((1, 4), (1, 1), (1, 1))]
        made = graph.add(operator, given, [TensorType(half, (3, 1))], {"reduce_function": 1})
    else:
        options = {"dimensions": np.array([1]), "body_subgraph_index": 1}
        made = graph.add(operator, given, [TensorType(half, (3,))], options)
    with load(graph.build(made, called=called)).compile(backend=backend) as compiled:
        np.testing.assert_array_equal(np.ravel(compiled(x)), [6.5, 22.5, 38.5])


@pytest.mark.parametrize(("zeros", "count"), [((0, 0), 0), ((3, -5), 2)])
def test_sums_of_products_of_8_bits(zeros: tuple[int, int], count: int, backend: str) -> None:
    """LiteRT adds up stored integers, whatever their zero points."""
    shapes = (2, 3, 40), (40, 5)
    types = [quantized(I8, shape, 0.1, zero) for shape, zero in zip(shapes, zeros, strict=True)]
    file = single_op("BATCH_MATMUL", types, [TensorType(I32, (2, 3, 5))], {}, version=3)
    model = run_as_litert(file, [stored(k, t) for k, t in enumerate(types)], backend)
    assert len(model.warnings) == count
    assert all("computes stored integers as plain numbers" in w for w in model.warnings)


@pytest.mark.parametrize("scale", [2.0**-8, 0.01])
@pytest.mark.parametrize("zero", [0, 17])
def test_softmax_of_uint8_has_a_zero_point_of_0(scale: float, zero: int, backend: str) -> None:
    x = quantized(U8, (6, 5), 0.07, 30)
    file = single_op("SOFTMAX", [x], [quantized(U8, (6, 5), scale, zero)], {"beta": 1.0})
    model = run_as_litert(file, [stored(1, x)], backend)
    stated = model.outputs[0].type.quantization
    assert stated is not None
    assert stated.zero_point == (zero,)
    warning = f"operation 0, SOFTMAX: the output has {stated}; it is stored with zero point 0, as in LiteRT"
    assert model.warnings == ((warning,) if zero else ())
