"""Float activations with quantised or float16 constants, and integers without quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gpunn.errors import UnsupportedError
from gpunn.model import load
from gpunn.passes import optimise
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.quantized import quantized, stored
from tests.resources import shared
from tests.tflite_builder import Graph, litert_run, single_op

RNG = np.random.default_rng(5)
WINDOW = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
PIXELS = float32(1, 6, 5, 4)


def filter_type(shape: tuple[int, ...], axis: int | None = None) -> TensorType:
    """Return the type of an int8 filter, with a scale for each index along an axis if one is given."""
    if axis is None:
        return quantized(DType.INT8, shape, 0.02)
    scales = tuple(float(s) for s in np.linspace(0.01, 0.04, shape[axis], dtype=np.float32))
    return TensorType(DType.INT8, shape, Quantization(scales, (0,) * shape[axis], axis))


Case = tuple[str, TensorType, TensorType, TensorType, Mapping[str, Any], int]
CASES: dict[str, Case] = {
    "conv": ("CONV_2D", PIXELS, filter_type((6, 3, 3, 4)), float32(1, 4, 3, 6), WINDOW, 2),
    "conv per channel": ("CONV_2D", PIXELS, filter_type((6, 3, 3, 4), 0), float32(1, 4, 3, 6), WINDOW, 5),
    "depthwise": (
        "DEPTHWISE_CONV_2D",
        PIXELS,
        filter_type((1, 3, 3, 4), 3),
        float32(1, 4, 3, 4),
        {**WINDOW, "depth_multiplier": 1},
        6,
    ),
    "dense": ("FULLY_CONNECTED", float32(3, 16), filter_type((5, 16)), float32(3, 5), {}, 3),
}


def weights(filter: TensorType) -> Array:
    """Return stored weights with the largest value, which LiteRT's symmetric quantisation expects."""
    return stored(4, filter, -127, 127)


def reals(filter: TensorType, values: Array) -> Array:
    """Return the real numbers of stored weights."""
    assert filter.quantization is not None
    shape = [1] * filter.rank
    shape[filter.quantization.axis] = -1
    scales = np.array(filter.quantization.scale, np.float32).reshape(shape)
    return np.asarray(values * scales, np.float32)


def hybrid_file(case: Case, values: Array, bias: Array) -> bytes:
    operator, x, filter, y, options, version = case
    graph = Graph()
    inputs = [graph.input(x), graph.tensor(filter, data=values.tobytes()), graph.constant(bias)]
    return graph.build(graph.add(operator, inputs, [y], options, version=version))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_hybrid_filter_is_computed_in_float32(case: Case, backend: str) -> None:
    """The result is that of a float filter up to the last bits; LiteRT rounds activations to 127 steps.

    Each of LiteRT's products is off by up to half a step of max|x| / 127 times the weight; sums likewise.
    """
    operator, x_type, filter, y, options, _ = case
    values, bias = weights(filter), RNG.standard_normal(y.shape[-1]).astype(np.float32)
    file = hybrid_file(case, values, bias)
    x = RNG.standard_normal(x_type.shape).astype(np.float32)
    model = load(file)
    assert model.operations[0].op == "dequantize"
    with model.compile(backend=backend) as compiled:
        got = compiled(x)
        assert [(p.operation.op != "dequantize", p.backend) for p in compiled.placement] == [(True, backend)]
    real = reals(filter, values)
    with load(single_op(operator, [x_type, real, bias], [y], options)).compile(backend=backend) as compiled:
        np.testing.assert_allclose(got, compiled(x), rtol=1e-5, atol=1e-5)
    taps = np.abs(real).reshape(-1, real.shape[-1]).sum(0) if operator.startswith("DEPTH") else None
    sums = np.abs(real).reshape(real.shape[0], -1).sum(1) if taps is None else taps
    bound = sums * np.abs(x).max() / 127 / 2
    assert (np.abs(got - litert_run(file, [x])[0]) <= bound * 1.01 + 1e-5).all()


def test_a_hybrid_filter_of_two_operators_is_converted_once() -> None:
    filter = filter_type((4, 4))
    graph = Graph()
    number = graph.tensor(filter, data=weights(filter).tobytes())
    (y,) = graph.add("FULLY_CONNECTED", [graph.input(float32(1, 4)), number], [float32(1, 4)], version=3)
    (z,) = graph.add("FULLY_CONNECTED", [y, number], [float32(1, 4)], version=3)
    model = load(graph.build([z]))
    assert [o.op for o in model.operations] == ["dequantize", "fully_connected", "fully_connected"]


def test_filters_that_the_file_dequantises_are_not_hybrid() -> None:
    """LiteRT quantises the input of the hybrid operator in the run, and computes the other in reals."""
    filter = filter_type((4, 4))
    values = weights(filter).tobytes()
    graph = Graph()
    x = graph.input(float32(1, 4))
    (y,) = graph.add("FULLY_CONNECTED", [x, graph.tensor(filter, data=values)], [float32(1, 4)], version=3)
    (reals,) = graph.add("DEQUANTIZE", [graph.tensor(filter, data=values)], [float32(4, 4)])
    (z,) = graph.add("FULLY_CONNECTED", [y, reals], [float32(1, 4)])
    model = load(graph.build([z]))
    for found in (model, model.reshaped({model.inputs[0].name: (3, 4)}), optimise(model)):
        marks = [o.inputs[1].hybrid for o in found.operations if o.op == "fully_connected" and o.inputs[1]]
        assert marks == [True, False]


def test_a_uint8_filter_without_zero_point_holds_int8(backend: str) -> None:
    """Converters of 2018 wrote such files. Misread, negative weights would be off by 256 steps of 0.02."""
    case = CASES["dense"]
    values, bias = weights(case[2]), RNG.standard_normal(5).astype(np.float32)
    assert case[2].quantization is not None
    labelled = TensorType(DType.UINT8, case[2].shape, case[2].quantization)
    file = hybrid_file((*case[:2], labelled, *case[3:]), values, bias)
    x = RNG.standard_normal(case[1].shape).astype(np.float32)
    with load(file).compile(backend=backend) as a:
        np.testing.assert_allclose(a(x), x @ reals(case[2], values).T + bias, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(a(x), litert_run(file, [x])[0], rtol=0, atol=0.5)


def test_other_mixtures_of_reals_and_integers_are_refused() -> None:
    file = single_op("FULLY_CONNECTED", [float32(1, 4), filter_type((4, 4))], [float32(1, 4)])
    with pytest.raises(UnsupportedError, match="is FLOAT32 among quantised inputs"):
        load(file)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("scales", [(0.03,), (0.03, 0.5, 0.001, 1.0, 0.25, 0.1, 2.0)])
def test_rows_of_a_quantised_table_become_reals(
    scales: tuple[float, ...], dtype: DType, backend: str
) -> None:
    """A uint8 table contains int8, too."""
    rounded = tuple(float(np.float32(s)) for s in scales)
    table = TensorType(dtype, (7, 8), Quantization(rounded, (0,) * len(scales)))
    graph = Graph()
    rows = graph.input(TensorType(DType.INT32, (3,)))
    values = graph.tensor(table, data=stored(1, table).tobytes())
    file = graph.build(graph.add("EMBEDDING_LOOKUP", [rows, values], [float32(3, 8)], version=3))
    chosen = np.array([6, 0, 6], np.int32)
    with load(file).compile(backend=backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        np.testing.assert_allclose(compiled(chosen), litert_run(file, [chosen])[0], rtol=1e-6)


def test_float16_weights_of_a_published_file(backend: str) -> None:
    """conv-quant-fp16: constants go through DEQUANTIZE, which is folded."""
    name = "tflite2onnx/conv-quant-fp16.float32.tflite"
    expected = np.load(shared(f"models/expected/ops/{name}.npz"))
    with load(shared(f"models/tflite_ops/{name}")).compile(backend=backend) as compiled:
        result = compiled(*(expected[k] for k in sorted(expected) if k.startswith("in")))
        assert {p.operation.op for p in compiled.placement}.isdisjoint({"dequantize"})
    np.testing.assert_allclose(result, expected["out0"], rtol=1e-5, atol=1e-5 * np.ptp(expected["out0"]))


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("operator", ["EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"])
def test_integers_without_quantisation_are_compared(operator: str, dtype: DType, backend: str) -> None:
    type = TensorType(dtype, (3, 13))
    info = np.iinfo(dtype.numpy)
    a, b = (RNG.integers(info.min, info.max, type.shape, endpoint=True).astype(dtype.numpy) for _ in "ab")
    b[:, ::3] = a[:, ::3]
    file = single_op(operator, [type, type], [TensorType(DType.BOOL, type.shape)])
    meaning = getattr(np, operator.lower())
    with load(file).compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(a, b), meaning(a, b))
        assert {p.backend for p in compiled.placement} == {backend}


@pytest.mark.parametrize("hits", [None, Quantization((1.0,), (0,))])
def test_hits_need_no_quantisation(hits: Quantization | None) -> None:
    keys, values = np.array([1, 4, 9], np.int32), RNG.standard_normal((3, 2)).astype(np.float32)
    outputs = [float32(2, 2), TensorType(DType.UINT8, (2,), hits)]
    model = load(single_op("HASHTABLE_LOOKUP", [TensorType(DType.INT32, (2,)), keys, values], outputs))
    assert [o.type for o in model.outputs] == outputs
    with model.compile(backend="cpu") as compiled:
        found, hit = compiled(np.array([4, 5], np.int32))
    np.testing.assert_array_equal(found, [values[1], [0, 0]])
    assert hit.tolist() == [1, 0]


def test_batch_matmul_takes_a_quantised_constant(backend: str) -> None:
    filter, x = filter_type((16, 5)), RNG.standard_normal((3, 16)).astype(np.float32)
    graph = Graph()
    number = graph.tensor(filter, data=weights(filter).tobytes())
    (y,) = graph.add("BATCH_MATMUL", [graph.input(float32(3, 16)), number], [float32(3, 5)], version=4)
    with load(graph.build([y])).compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(x), x @ reals(filter, weights(filter)), rtol=1e-5, atol=1e-5)


def test_transpose_conv_takes_a_quantised_filter(backend: str) -> None:
    filter, x = filter_type((3, 2, 2, 4)), RNG.standard_normal(PIXELS.shape).astype(np.float32)
    shape, y = np.array([1, 12, 10, 3], np.int32), float32(1, 12, 10, 3)
    options = {"stride_w": 2, "stride_h": 2, "padding": "VALID"}
    graph = Graph()
    inputs = [
        graph.constant(shape),
        graph.tensor(filter, data=weights(filter).tobytes()),
        graph.input(PIXELS),
    ]
    file = graph.build(graph.add("TRANSPOSE_CONV", inputs, [y], options))
    same = single_op("TRANSPOSE_CONV", [shape, reals(filter, weights(filter)), PIXELS], [y], options)
    with load(file).compile(backend=backend) as a, load(same).compile(backend=backend) as b:
        np.testing.assert_allclose(a(x), b(x), rtol=1e-5, atol=1e-5)
