"""Quantised .tflite files: parameters are read and checked, operators give the bits of LiteRT's reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.importers import load
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.quantized import litert_integer, quantized, stored
from tests.tflite_builder import Graph

U8, I8, I32 = DType.UINT8, DType.INT8, DType.INT32
WINDOW = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}


def u8(*shape: int, scale: float = 0.04, zero: int = 120) -> TensorType:
    return quantized(U8, shape, scale, zero)


def i8(*shape: int, scale: float = 0.04, zero: int = -7) -> TensorType:
    return quantized(I8, shape, scale, zero)


def channels(type: TensorType, axis: int) -> TensorType:
    """The type with a scale for each index along an axis."""
    count = type.shape[axis]
    scales = tuple(float(s) for s in np.linspace(0.01, 0.05, count, dtype=np.float32))
    return TensorType(type.dtype, type.shape, Quantization(scales, (0,) * count, axis))


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


BIAS = ints(100, -200, 300, 50)
Case = tuple[str, Sequence[TensorType], Sequence[Array | TensorType], TensorType, Mapping[str, Any], int]
CASES: list[Case] = [  # operator, inputs, constants (a type: random values), output, options, version
    ("ABS", [i8(256)], [], i8(256, scale=0.03), {}, 1),
    ("ADD", [u8(2, 5), u8(2, 5, scale=0.1)], [], u8(2, 5, scale=0.12), {}, 1),
    ("ADD", [i8(2, 5)], [i8(5)], i8(2, 5, zero=-128), {"fused_activation_function": "RELU6"}, 2),
    ("SUB", [u8(7), u8(7)], [], u8(7, scale=0.1), {}, 1),
    ("MUL", [i8(7), i8(7)], [], i8(7, scale=0.2), {}, 2),
    (
        "AVERAGE_POOL_2D",
        [u8(1, 4, 4, 3)],
        [],
        u8(1, 3, 3, 3),
        {**WINDOW, "filter_width": 2, "filter_height": 2},
        1,
    ),
    ("CONCATENATION", [u8(1, 3), u8(1, 4, scale=0.1)], [], u8(1, 7, scale=0.1), {"axis": 1}, 1),
    ("CONV_2D", [u8(1, 5, 5, 3)], [u8(4, 3, 3, 3, zero=99), BIAS], u8(1, 3, 3, 4, scale=0.3), WINDOW, 1),
    (
        "CONV_2D",
        [i8(1, 5, 5, 3)],
        [channels(i8(4, 3, 3, 3), 0), BIAS],
        i8(1, 3, 3, 4, scale=0.3),
        {**WINDOW, "fused_activation_function": "RELU6"},
        3,
    ),
    (
        "DEPTHWISE_CONV_2D",
        [i8(1, 5, 5, 4)],
        [channels(i8(1, 3, 3, 4), 3), BIAS],
        i8(1, 3, 3, 4, scale=0.3),
        {**WINDOW, "depth_multiplier": 1},
        3,
    ),
    ("DEQUANTIZE", [u8(2, 9)], [], float32(2, 9), {}, 1),
    ("DEPTH_TO_SPACE", [u8(1, 2, 3, 8)], [], u8(1, 4, 6, 2), {"block_size": 2}, 1),
    ("EXP", [i8(256)], [], i8(256, scale=0.5), {}, 1),
    *(
        (operator, [u8(9, 9), u8(9, 9, scale=0.1)], [], TensorType(DType.BOOL, (9, 9)), {}, 1)
        for operator in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    ),
    ("GELU", [i8(256)], [], i8(256), {}, 1),
    ("HARD_SWISH", [i8(256)], [], i8(256, scale=0.03), {}, 1),
    ("LEAKY_RELU", [u8(256)], [], u8(256), {"alpha": 0.2}, 2),
    ("LOGISTIC", [u8(256)], [], u8(256, scale=1 / 256, zero=0), {}, 1),
    ("MAXIMUM", [i8(9), i8(9)], [], i8(9), {}, 1),
    (
        "MAX_POOL_2D",
        [i8(1, 4, 4, 3)],
        [],
        i8(1, 3, 3, 3),
        {**WINDOW, "filter_width": 2, "filter_height": 2},
        2,
    ),
    ("MEAN", [i8(1, 4, 4, 3)], [ints(1, 2)], i8(1, 3, scale=0.02), {}, 2),
    ("MINIMUM", [u8(9), u8(9)], [], u8(9), {}, 1),
    ("PAD", [u8(2, 3)], [ints([1, 2], [0, 3])], u8(5, 6), {}, 1),
    ("PADV2", [i8(2, 3)], [ints([1, 2], [0, 3]), i8()], i8(5, 6), {}, 2),
    ("PRELU", [i8(1, 2, 2, 3)], [i8(1, 1, 3)], i8(1, 2, 2, 3), {}, 1),
    ("QUANTIZE", [i8(9)], [], u8(9), {}, 2),
    ("QUANTIZE", [float32(9)], [], i8(9), {}, 1),
    ("RELU", [i8(256)], [], i8(256, zero=-128), {}, 2),
    ("RELU6", [u8(256)], [], u8(256, scale=0.024, zero=0), {}, 2),
    ("RESHAPE", [u8(2, 6)], [ints(3, 4)], u8(3, 4), {}, 1),
    ("RESIZE_BILINEAR", [i8(1, 3, 3, 2)], [ints(5, 7)], i8(1, 5, 7, 2), {}, 2),
    ("SOFTMAX", [i8(3, 9)], [], i8(3, 9, scale=1 / 256, zero=-128), {"beta": 1.0}, 2),
    ("SQUEEZE", [i8(1, 4, 1)], [], i8(4), {}, 1),
    ("SQUARED_DIFFERENCE", [i8(2, 5), i8(5, scale=0.1)], [], i8(2, 5, scale=0.5), {}, 2),
    ("STRIDED_SLICE", [u8(4, 5)], [ints(1, 0), ints(3, 4), ints(1, 2)], u8(2, 2), {}, 1),
    ("TANH", [i8(256)], [], i8(256, scale=1 / 128, zero=0), {}, 2),
    ("TRANSPOSE", [i8(2, 3, 4)], [ints(2, 0, 1)], i8(4, 2, 3), {}, 2),
]


def values_of(types: Sequence[TensorType], seed: int) -> list[Array]:
    """Random values for each type."""
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(-3, 3, t.shape).astype(np.float32) if t.dtype is DType.FLOAT32 else stored(seed + k, t)
        for k, t in enumerate(types)
    ]


@pytest.mark.parametrize(
    ("operator", "inputs", "constants", "output", "options", "version"),
    CASES,
    ids=[f"{case[0]}-{case[1][0].dtype.value}" for case in CASES],
)
def test_operator_is_as_in_litert_to_the_bit(
    operator: str,
    inputs: Sequence[TensorType],
    constants: Sequence[Array | TensorType],
    output: TensorType,
    options: Mapping[str, Any],
    version: int,
) -> None:
    fed = values_of(inputs, 1)
    known = [stored(9, c) if isinstance(c, TensorType) else c for c in constants]
    kinds = [c if isinstance(c, TensorType) else TensorType(DType.of(c.dtype), c.shape) for c in constants]
    graph = Graph()
    numbers = [graph.input(t) for t in inputs]
    numbers += [graph.tensor(t, data=v.tobytes()) for t, v in zip(kinds, known, strict=True)]
    model = load(graph.build(graph.add(operator, numbers, [output], options, version=version)))
    assert model.outputs[0].type == output
    with model.compile(backend="cpu") as compiled:
        got = compiled(*fed)
    (expected,) = litert_integer(
        operator,
        [*fed, *known],
        [*inputs, *kinds],
        [output],
        options,
        constants=range(len(inputs), len(inputs) + len(known)),
        version=version,
    )
    np.testing.assert_array_equal(got, expected)


def typed(type: TensorType) -> TensorType:
    """The type of an input as the reader understands it."""
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
    ],
)
def test_parameters_that_say_less(stated: Quantization, understood: Quantization | None) -> None:
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
        (Quantization((0.5, 0.0), (0,), 1), "scale that is not a positive number"),
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
    "16 bits": (
        "ADD",
        [quantized(DType.INT16, (4,), 0.1)] * 2,
        quantized(DType.INT16, (4,), 0.1),
        "is quantised INT16, only FLOAT32 or quantised UINT8 and INT8",
    ),
    "mixed with reals": ("ADD", [float32(4), i8(4)], float32(4), "is FLOAT32 among quantised inputs"),
    "moved and rescaled": (
        "RESHAPE",
        [u8(4)],
        u8(4, scale=0.1),
        "scale 0.1 and zero point 120, expected scale 0.04 and zero point 120 from the inputs",
    ),
    "result without": ("RELU", [u8(4)], TensorType(U8, (4,)), "has no quantisation, expected scale 0.04"),
    "quantised to nothing": ("QUANTIZE", [float32(4)], TensorType(U8, (4,)), "no scale and zero point"),
}


@pytest.mark.parametrize(("operator", "inputs", "output", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals_have_reasons(
    operator: str, inputs: Sequence[TensorType], output: TensorType, message: str
) -> None:
    graph = Graph()
    numbers = [graph.input(t) for t in inputs]
    options = {"new_shape": [4]} if operator == "RESHAPE" else None
    with pytest.raises(UnsupportedError, match=message):
        load(graph.build(graph.add(operator, numbers, [output], options)))


def test_a_padding_value_of_another_quantisation_is_refused() -> None:
    graph = Graph()
    value = graph.tensor(u8(scale=0.5), data=b"\x05")
    operands = [graph.input(u8(2)), graph.constant(ints([1, 1])), value]
    with pytest.raises(UnsupportedError, match="padding value is quantised differently"):
        load(graph.build(graph.add("PADV2", operands, [u8(4)])))


def test_float16_weights_are_widened() -> None:
    graph = Graph()
    half = graph.constant(np.array([0.5, -2.0], np.float16))
    (wide,) = graph.add("DEQUANTIZE", [half], [float32(2)], version=3)
    (y,) = graph.add("MUL", [graph.input(float32(2)), wide], [float32(2)])
    with load(graph.build([y])).compile(backend="cpu") as compiled:
        assert compiled(np.array([3, 4], np.float32)).tolist() == [1.5, -8.0]
