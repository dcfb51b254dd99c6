"""Quantised .tflite files: parameters are read and checked, operators give the bits of LiteRT's reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import tflite

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.case import ints
from tests.importers.tflite.cases_quantized import I8, U8, channels, i8, u8
from tests.ops.quantized import quantized, stored
from tests.tflite_builder import Graph, litert_run, single_op


def typed(type: TensorType) -> TensorType:
    """Return the type of an input as the reader reads it."""
    graph = Graph()
    x = graph.input(type)
    return load(graph.build([x])).inputs[0].type


def test_parameters_are_read() -> None:
    for type in (u8(2, 3), i8(2, 3), channels(i8(2, 3), 1), quantized(DType.INT16, (3,), 0.1)):
        assert typed(type) == type


@pytest.mark.parametrize(
    ("stated", "understood"),
    [
        (Quantization((), ()), None),
        (Quantization((0.0,), (0,)), None),
        (Quantization((0.5,), ()), Quantization((0.5,), (0,))),
        (Quantization((0.5,), (3,), 1), Quantization((0.5,), (3,))),
        (Quantization((0.5, 0.25), (3,), 1), Quantization((0.5, 0.25), (3,), 1)),
        (Quantization((0.5, 0.0), (0,), 1), Quantization((0.5, 0.0), (0,), 1)),
    ],
)
def test_incomplete_parameters(stated: Quantization, understood: Quantization | None) -> None:
    assert typed(TensorType(I8, (3, 2), stated)).quantization == understood


def test_reals_and_indices_have_no_quantisation() -> None:
    stated = Quantization((0.5,), (0,))
    assert typed(TensorType(DType.FLOAT32, (2,), stated)).quantization is None
    assert typed(TensorType(DType.INT64, (2,), stated)).quantization is None


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (Quantization((float("nan"),), (0,)), "scale that is not a positive number"),
        (Quantization((float("inf"),), (0,)), "scale that is not a positive number"),
        (Quantization((-0.5,), (0,)), "scale that is not a positive number"),
        (Quantization((0.5, -0.25), (0,), 1), "scale that is not a positive number"),
        (Quantization((0.5,), (128,)), "zero point outside of int8"),
        (Quantization((0.5, 0.5, 0.5), (0,), 1), r"3 scales along dimension 1 of shape \[3, 2\]"),
        (Quantization((0.5, 0.5), (0,), 2), "2 scales along dimension 2"),
        (Quantization((0.5, 0.5), (0,), -1), "2 scales along dimension -1"),
        (Quantization((0.5, 0.5), (0, 0, 0), 1), "3 zero points for 2 scales"),
    ],
)
def test_wrong_parameters_are_refused(stated: Quantization, message: str) -> None:
    with pytest.raises(FormatError, match=rf"tensor 0 \(t0\) has .*{message}"):
        typed(TensorType(I8, (3, 2), stated))


REFUSED: Mapping[str, tuple[str, Sequence[TensorType], TensorType, str]] = {
    "plain bytes": ("RELU", [TensorType(U8, (4,))], TensorType(U8, (4,)), r"input 0 \(t0\) is UINT8, only"),
    "plain 16 bits": (
        "SUB",
        [TensorType(DType.INT16, (4,))] * 2,
        TensorType(DType.INT16, (4,)),
        "is INT16, only FLOAT32 or quantised UINT8, INT8 and INT16",
    ),
    "plain product": ("MUL", [TensorType(I8, (4,))] * 2, TensorType(I8, (4,)), "is INT8, only FLOAT32 or"),
    "mixed with reals": ("ADD", [float32(4), i8(4)], float32(4), "is FLOAT32 among quantised inputs"),
    "moved and rescaled": (
        "UNPACK",  # LiteRT refuses this, too
        [u8(1, 4)],
        u8(4, scale=0.1),
        "scale 0.1 and zero point 120, expected scale 0.04 and zero point 120 from the inputs",
    ),
    "made of numbers": (
        "FLOOR_DIV",
        [TensorType(I8, (4,))] * 2,
        i8(4),
        "the result has scale 0.04 and zero point -7, expected no quantisation",
    ),
    "result without": ("RELU", [u8(4)], TensorType(U8, (4,)), "has no quantisation, expected scale 0.04"),
    "quantised words": (
        "DEQUANTIZE",
        [quantized(DType.INT32, (4,), 0.5)],
        float32(4),
        "is quantised INT32, only FLOAT32 or quantised UINT8",
    ),
    "quantised to nothing": ("QUANTIZE", [float32(4)], TensorType(U8, (4,)), "no scale and zero point"),
}


@pytest.mark.parametrize(("operator", "inputs", "output", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals_have_reasons(
    operator: str, inputs: Sequence[TensorType], output: TensorType, message: str
) -> None:
    graph = Graph()
    numbers = [graph.input(t) for t in inputs]
    options = {"axis": 0, "num": 1} if operator == "UNPACK" else None
    with pytest.raises(UnsupportedError, match=message):
        load(graph.build(graph.add(operator, numbers, [output], options)))


@pytest.mark.parametrize("operator", ["ADD", "MAXIMUM", "CONCATENATION", "LESS"])
def test_a_scale_of_int32_is_ignored(operator: str, backend: str) -> None:
    a, b = (quantized(DType.INT32, (2, 3), scale, zero) for scale, zero in ((0.5, 3), (0.25, 0)))
    results = {"CONCATENATION": b.with_shape((4, 3)), "LESS": TensorType(DType.BOOL, (2, 3))}
    file = single_op(operator, [a, b], [results.get(operator, b)])
    inputs = [stored(k, a, -(2**20), 2**20) for k in range(2)]
    (answer,) = litert_run(file, inputs)
    with load(file).compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(*inputs), answer)


@pytest.mark.parametrize(
    ("source", "target", "zero", "reach"),
    [
        (DType.INT32, I8, -7, 200),
        (DType.INT32, I8, 127, 300),
        (DType.INT32, DType.INT16, 40, 40_000),
        (DType.INT16, DType.INT32, -(2**20), 2**30),
    ],
)
@pytest.mark.parametrize("scale", [0.5, 0.00071, 1e-8, 130.0, 0.1 * 2**24])
@pytest.mark.parametrize("shape", [(300,), (2, 5, 7), ()])
def test_32_bits_are_rescaled(
    source: DType, target: DType, zero: int, reach: int, scale: float, shape: tuple[int, ...], backend: str
) -> None:
    x = quantized(source, shape, 0.1, 0 if source is DType.INT16 else 33)
    file = single_op("QUANTIZE", [x], [quantized(target, shape, scale, zero)])
    high = int(
        min(max(1, reach * scale / 0.1), LIMITS[source][1])
    )  # results up to `reach`, whatever the scale
    value = stored(5, x, -high, high)
    with load(file).compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(value), litert_run(file, [value])[0])
        np.testing.assert_array_equal(compiled(value), litert_run(file, [value], reference=True)[0])
        assert [row.backend for row in compiled.placement] == [backend]


def test_a_padding_value_of_another_quantisation_is_refused() -> None:
    graph = Graph()
    value = graph.tensor(u8(scale=0.5), data=b"\x05")
    operands = [graph.input(u8(2)), graph.constant(ints([1, 1])), value]
    with pytest.raises(UnsupportedError, match="padding value is quantised differently"):
        load(graph.build(graph.add("PADV2", operands, [u8(4)])))


def test_float16_weights_become_float32() -> None:
    graph = Graph()
    half = graph.constant(np.array([0.5, -2.0], np.float16))
    (floats,) = graph.add("DEQUANTIZE", [half], [float32(2)], version=3)
    (y,) = graph.add("MUL", [graph.input(float32(2)), floats], [float32(2)])
    with load(graph.build([y])).compile(backend="cpu") as compiled:
        assert compiled(np.array([3, 4], np.float32)).tolist() == [1.5, -8.0]


def shuffled(
    batch: int, depth: int, units: int, zero: int = 128, activation: str = "NONE"
) -> tuple[bytes, TensorType, Array]:
    """Return a file of FULLY_CONNECTED with shuffled weights, its input's type, and the weight matrix."""
    graph, generator = Graph(), np.random.default_rng(units)
    x, y = quantized(U8, (batch, depth), 1 / 128, zero), quantized(DType.INT16, (batch, units), 2.0**-11)
    w = generator.integers(-128, 128, (units, depth)).astype(np.int8)
    blocks = w.reshape(units // 4, 4, depth // 16, 16).swapaxes(1, 2)
    bias = generator.integers(-9000, 9000, units).astype(np.int32)
    inputs = [
        graph.input(x),
        graph.tensor(quantized(U8, w.shape, 0.01, 128), data=blocks.tobytes()),
        graph.tensor(quantized(DType.INT32, (units,), 0.01 / 128), data=bias.tobytes()),
    ]
    outputs = [y, TensorType(U8, x.shape)]
    options = {
        "weights_format": tflite.FullyConnectedOptionsWeightsFormat.SHUFFLED4x16INT8,
        "fused_activation_function": activation,
    }
    (result, _) = graph.add("FULLY_CONNECTED", inputs, outputs, options, version=2)
    return graph.build([result]), x, w


@pytest.mark.parametrize("sizes", [(1, 16, 4), (4, 48, 20), (1, 64, 12)])
def test_shuffled_weights_are_put_in_order(sizes: tuple[int, int, int], backend: str) -> None:
    file, type, w = shuffled(*sizes)
    model = load(file)
    filter = model.operations[1].inputs[1]
    assert filter is not None
    assert filter.value is not None
    np.testing.assert_array_equal(filter.value, w)
    x = stored(1, type)
    with model.compile(backend=backend) as compiled:
        np.testing.assert_array_equal(compiled(x), litert_run(file, [x])[0])


def test_shuffled_weights_take_numbers_around_128() -> None:
    with pytest.raises(UnsupportedError, match="t0 must have a scale and zero point 128"):
        load(shuffled(1, 16, 4, zero=127)[0])
    clamped = load(shuffled(1, 16, 4, activation="RELU")[0]).operations[1]
    assert clamped.attrs["activation"] == "relu", "gpunn applies the activation, LiteRT does not"


@pytest.mark.parametrize("source", [I8, U8])
@pytest.mark.parametrize("result", [(2.0**-16, -(2**15)), (2.0**-15, 0)])
@pytest.mark.parametrize("shape", [(3, 20), (2, 3, 7), (1, 1001)])
def test_softmax_from_8_to_16_bits(
    source: DType, result: tuple[float, int], shape: tuple[int, ...], backend: str
) -> None:
    x = quantized(source, shape, 0.03, 0)
    file = single_op("SOFTMAX", [x], [quantized(DType.INT16, shape, *result)], {"beta": 1.0}, version=2)
    value = stored(3, x)
    with load(file).compile(backend=backend) as compiled:
        found = compiled(value).astype(np.int32)
    # Both compute in float32, to far less than a step, and may round to either side.
    assert np.abs(found - litert_run(file, [value])[0]).max() <= 1
