"""Quantised int16 on both backends: LiteRT's bits where the arithmetic is the same, else within a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import load
from gpunn.ops.fixed_point.affine import dequantize, quantize
from gpunn.ops.fixed_point.tables import every_value
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.integer_checks import check_integer, integer_model, litert_integer
from tests.ops.quantized import quantized, stored
from tests.tflite_builder import Graph, litert_run

I16, I8, I32, I64 = DType.INT16, DType.INT8, DType.INT32, DType.INT64


def int16(*shape: int, scale: float = 1 / 4000) -> TensorType:
    return quantized(I16, shape, scale)


def per_channel(axis: int, *shape: int) -> TensorType:
    scales = tuple(float(np.float32(s)) for s in np.linspace(0.01, 0.02, shape[axis]))
    return TensorType(I8, shape, Quantization(scales, (0,) * shape[axis], axis))


def compare(
    operator: str,
    inputs: Sequence[Array | TensorType],
    result: TensorType,
    options: Mapping[str, Any] | None = None,
    version: int = 1,
    *,
    backend: str = "cpu",
) -> float:
    """Return how many steps gpunn is from LiteRT; quantised types are inputs, those of int8 are filters."""
    values = [stored(k, v) if isinstance(v, TensorType) else v for k, v in enumerate(inputs)]
    types = [v if isinstance(v, TensorType) else TensorType(DType.of(v.dtype), v.shape) for v in inputs]
    constants = [k for k, (v, t) in enumerate(zip(inputs, types, strict=True)) if v is not t or t.dtype is I8]
    (expected,) = litert_integer(
        operator,
        values,
        types,
        [result],
        options,
        constants=constants,
        version=version,
        reference=operator not in VECTORS,
    )
    graph = Graph()
    numbers = [
        graph.tensor(t, data=v.tobytes()) if k in constants else graph.input(t)
        for k, (v, t) in enumerate(zip(values, types, strict=True))
    ]
    file = graph.build(graph.add(operator, numbers, [result], options, version=version))
    fed = [v for k, v in enumerate(values) if k not in constants]
    with load(file).compile(backend=backend) as compiled:
        found = compiled(*fed)
        homes = {p.backend for p in compiled.placement} - {"alias"}
    assert homes <= {backend}, homes
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    return float(np.abs(found.astype(np.float64) - expected).max())


X, Y, OUT = int16(2, 7, 5, 6), int16(2, 7, 5, 6, scale=1 / 3000), int16(2, 7, 5, 6, scale=1 / 2000)
VECTORS = ("ADD", "CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")  # the default kernels round in another way
GENERAL = {"pot_scale_int16": False}
WINDOW = {"stride_w": 1, "stride_h": 1, "padding": "SAME"}
POOL = {**WINDOW, "filter_width": 3, "filter_height": 2}
AXES = np.array([1, 2], np.int32)
BIAS = np.random.default_rng(9).integers(-(10**6), 10**6, 8)

EXACT: list[tuple[str, Sequence[Array | TensorType], TensorType, Mapping[str, Any]]] = [
    *(
        (name, [X, other], OUT, {**options, **fused})
        for name, options in (("ADD", GENERAL), ("SUB", GENERAL), ("MUL", {}))
        for other in (Y, int16(6, scale=1 / 3000))
        for fused in ({}, {"fused_activation_function": "RELU6"})
    ),
    *((name, [X, X], X, {}) for name in ("MAXIMUM", "MINIMUM")),
    *(
        (name, [X], X, {**POOL, **fused})
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        for fused in ({}, {"fused_activation_function": "RELU"})
    ),
    *((name, [X], OUT, {}) for name in ("RELU", "RELU6")),
    ("LEAKY_RELU", [X], OUT, {"alpha": 0.1}),
    *((name, [X], X, {}) for name in ("ABS", "NEG")),
    *(
        ("SOFTMAX", [int16(5, 30, scale=scale)], int16(5, 30, scale=2**-15), {"beta": beta})
        for scale in (2**-16, 1 / 4000, 2**-11)
        for beta in (1.0, 0.3)
    ),
    ("CONCATENATION", [X, X], int16(4, 7, 5, 6), {"axis": 0}),
    ("MEAN", [X, AXES], int16(2, 6, scale=1 / 9000), {}),
    ("MEAN", [X, AXES[:1] + 2], int16(2, 7, 5, 1, scale=1 / 9000), {"keep_dims": True}),
    *((name, [X, AXES], int16(2, 6), {}) for name in ("REDUCE_MAX", "REDUCE_MIN")),
    *(
        ("RESIZE_BILINEAR", [X, np.array([9, 3], np.int32)], int16(2, 9, 3, 6), {option: True})
        for option in ("half_pixel_centers", "align_corners")
    ),
    ("RESIZE_NEAREST_NEIGHBOR", [X, np.array([9, 3], np.int32)], int16(2, 9, 3, 6), {}),
    ("RESHAPE", [X, np.array([14, -1], np.int32)], int16(14, 30), {}),
    ("PAD", [X, np.array([[0, 0], [1, 1], [1, 2], [0, 0]], np.int32)], int16(2, 9, 8, 6), {}),
    ("TRANSPOSE", [X, np.array([3, 1, 0, 2], np.int32)], int16(6, 7, 2, 5), {}),
    ("GATHER", [X, np.array([1, 0], np.int32)], X, {}),
    ("QUANTIZE", [X], OUT, {}),
    ("QUANTIZE", [X], quantized(I8, X.shape, 0.1, 3), {}),
    ("DEQUANTIZE", [X], float32(*X.shape), {}),
    *(
        (
            "CONV_2D",
            [X, per_channel(0, 8, 3, 3, 6), BIAS.astype(bias)],
            int16(2, 7, 5, 8, scale=1 / 300),
            o,
        )
        for bias, kind in ((np.int64, {}), (np.int32, {"quantized_bias_type": "INT32"}))
        for o in ({**WINDOW, **kind}, {**WINDOW, **kind, "fused_activation_function": "RELU"})
    ),
    *(
        (
            "FULLY_CONNECTED",
            [int16(50, 210), quantized(I8, (8, 210), 0.01), *([] if bias is None else [BIAS.astype(bias)])],
            int16(50, 8, scale=1 / 300),
            {},
        )
        for bias in (np.int64, np.int32, None)
    ),
    ("BATCH_MATMUL", [X, int16(2, 7, 6, 3)], int16(2, 7, 5, 3, scale=1 / 500), {}),
    (
        "BATCH_MATMUL",
        [X, int16(1, 1, 4, 5)],
        int16(2, 7, 6, 4, scale=1 / 500),
        {"adj_x": True, "adj_y": True},
    ),
    (
        "DEPTHWISE_CONV_2D",
        [X, per_channel(3, 1, 3, 3, 6), BIAS[:6]],
        int16(2, 7, 5, 6, scale=1 / 300),
        {**WINDOW, "depth_multiplier": 1},
    ),
]


@pytest.mark.parametrize(
    ("operator", "inputs", "result", "options"), EXACT, ids=[f"{k}-{case[0]}" for k, case in enumerate(EXACT)]
)
def test_bits_of_litert(
    operator: str,
    inputs: Sequence[Array | TensorType],
    result: TensorType,
    options: Mapping[str, Any],
    backend: str,
) -> None:
    assert compare(operator, inputs, result, options, backend=backend) == 0


@pytest.mark.parametrize("bias", [np.int64, np.int32])
def test_transposed_convolution_has_the_bits_of_litert(bias: Any) -> None:
    inputs = [np.array([2, 14, 10, 8], np.int32), per_channel(0, 8, 3, 3, 6), X, BIAS.astype(bias)]
    options = {"stride_w": 2, "stride_h": 2, "padding": "SAME"}
    kind = {"quantized_bias_type": "INT32"} if bias is np.int32 else {}
    assert compare("TRANSPOSE_CONV", inputs, int16(2, 14, 10, 8, scale=1 / 300), {**options, **kind}, 5) == 0


# Operations that may differ from LiteRT by a step, each with its reason.
Near = tuple[str, Sequence[Array | TensorType], TensorType, Mapping[str, Any], int]
NEAR: list[Near] = [
    # If all scales are powers of two, LiteRT rounds the operand of the smaller scale first.
    *(
        (name, [int16(2, 50, scale=2**-12), int16(2, 50, scale=2**-14)], int16(2, 50, scale=2**-12), {}, 1)
        for name in ("ADD", "SUB")
    ),
    # A few of 513 points lie so near to a half that the last bit of a float32 erfc or tanh decides.
    *(
        ("GELU", [int16(5, 4000, scale=scale)], int16(5, 4000, scale=1e-5), {"approximate": approximate}, 1)
        for scale in (5e-5, 2e-4)
        for approximate in (False, True)
    ),
]


@pytest.mark.parametrize("case", NEAR, ids=lambda case: case[0])
def test_steps_from_litert(case: Near) -> None:
    operator, inputs, result, options, steps = case
    assert compare(operator, inputs, result, options) <= steps


@pytest.mark.parametrize("scale", [2**-15, 1e-6, 1 / 4000, 2**-12, 2**-11, 2**-10, 0.0123, 1.7])
@pytest.mark.parametrize("operator", ["LOGISTIC", "TANH", "EXP", "LOG", "SQRT", "RSQRT"])
def test_functions_have_the_bits_of_litert(operator: str, scale: float, backend: str) -> None:
    """All stored values; only values above 0 for logarithms and roots, which refuse the others."""
    x, fixed = int16(2**16, scale=scale), operator in ("LOGISTIC", "TANH")
    values = every_value(x).astype(np.int16)
    if operator in ("LOG", "SQRT", "RSQRT"):
        x, values = int16(2**15 - 1, scale=scale), values[1 : 2**15]
    y = x.with_shape(x.shape) if operator == "EXP" else int16(*x.shape, scale=2**-15 if fixed else 1 / 300)
    (expected,) = litert_integer(operator, [values], [x], [y], version=2, reference=False)
    (found,) = check_integer(
        operator.lower(), [values], [x], output_quantization=y.quantization, backend=backend
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", ["logistic", "tanh", "hard_swish", "elu", "sin"])
def test_functions_are_rounded_once(op: str, backend: str) -> None:
    x, y = int16(3, 999, scale=1 / 4000), Quantization((1 / 1000,), (0,))
    (found,) = check_integer(op, [stored(0, x)], [x], output_quantization=y, backend=backend)
    model = integer_model(op, [stored(0, x)], [x], output_quantization=y)
    real = model.operations[0].definition.reference(stored(0, x) * float(np.float32(1 / 4000)))
    exact = np.clip(real * 1000, -(2**15), 2**15 - 1)
    assert np.abs(found - exact).max() <= 0.5 + 1e-9  # of float64


def test_every_stored_value() -> None:
    values = every_value(int16(1))
    assert np.array_equal(values.astype(np.int16).view(np.uint16), np.arange(2**16))


def test_the_type_of_the_bias_decides_on_rounding() -> None:
    """int32 and int64 biases give different bits; otherwise test_bits_of_litert could not tell them apart."""
    x, filter = int16(1, 7, 7, 6), per_channel(0, 8, 3, 3, 6)
    found = []
    for bias in (np.zeros(8, np.int64), np.zeros(8, np.int32)):
        types = [x, filter, TensorType(DType.of(bias.dtype), (8,))]
        values = [stored(0, x), stored(1, filter), bias]
        attrs = {"padding": "same"}
        (y,) = check_integer(
            "conv2d", values, types, attrs, Quantization((1 / 300,), (0,)), (1, 2), backend="cpu"
        )
        found.append(y.astype(np.int64))
    assert 0 < np.abs(found[0] - found[1]).max() <= 2


def test_results_of_known_range_are_symmetric() -> None:
    for op, scale in (("logistic", 2**-15), ("softmax", 2**-15), ("log_softmax", 2**-11)):
        (y,) = integer_model(op, [stored(0, int16(2, 3))], [int16(2, 3)]).outputs
        assert y.type.quantization == Quantization((scale,), (0,))


def test_ops_without_integer_arithmetic_go_through_reals() -> None:
    x = int16(2, 4000)
    for op, y in (
        ("softmax", Quantization((1e-4,), (0,))),
        ("squared_difference", Quantization((0.01,), (5,))),
    ):
        inputs = [stored(k, x) for k in range(1 if op == "softmax" else 2)]
        model = integer_model(op, inputs, [x] * len(inputs), output_quantization=y)
        operation = model.operations[0]
        reals = operation.definition.reference(*(dequantize(v, x) for v in inputs))
        np.testing.assert_array_equal(
            operation.evaluate(inputs)[0], quantize(reals, operation.outputs[0].type)
        )


def test_errors() -> None:
    with pytest.raises(ModelError, match=r"a quantised int16.* does not go with a filter of int16"):
        types = [int16(1, 4, 4, 2), int16(3, 2, 2, 2)]
        integer_model("conv2d", [stored(k, type) for k, type in enumerate(types)], types)
    x, w = int16(2, 3), quantized(I8, (4, 3), 0.1)
    with pytest.raises(ModelError, match="must be int32 or int64, got int16"):
        bias = TensorType(I16, (4,))
        integer_model("fully_connected", [stored(0, x), stored(1, w), np.zeros(4, np.int16)], [x, w, bias])
    with pytest.raises(ModelError, match="must be int32, got int64"):
        x = quantized(I8, (2, 3), 0.1)
        integer_model(
            "fully_connected",
            [stored(0, x), stored(1, w), np.zeros(4, np.int64)],
            [x, w, TensorType(I64, (4,))],
        )


def test_softmax_of_any_scale_and_axis(backend: str) -> None:
    """Some scales have fixed-point factors that wrap around; rows have one, few and many elements."""
    for scale in (1e-44, 1e-6, 1 / 4000, 1 / 16, 1e20):
        for shape, axis in (((3, 1), 1), ((2, 5, 7), 1), ((2, 3000), 1), ((70, 3), 0), ((0, 4), 1)):
            x = int16(*shape, scale=scale)
            check_integer("softmax", [stored(1, x)], [x], {"axis": axis, "beta": 0.7}, backend=backend)


def test_softmax_of_many_equal_elements(backend: str) -> None:
    """The sum of 65,535 equal elements is a little below 2^31; each result is at most half a step."""
    x = int16(1, 65535)
    (y,) = check_integer("softmax", [np.full((1, 65535), 77, np.int16)], [x], backend=backend)
    assert set(y.ravel().tolist()) <= {0, 1}


def test_greatly_enlarged_images(backend: str) -> None:
    """The step of 10 bits leads past the last row; two weights of different sign then add up to one."""
    x = int16(1, 2, 2, 3)
    for mode in ({}, {"half_pixel_centers": True}, {"align_corners": True}):
        attrs = {"size": (1999, 5), **mode}
        check_integer("resize_bilinear", [stored(1, x)], [x], attrs, backend=backend)


def network_file() -> bytes:
    """A file of 16x8 quantisation, from float32 to float32."""
    graph, biases = Graph(), np.random.default_rng(3).integers(-(10**5), 10**5, (3, 5))

    def conv(x: int, filter: TensorType, into: TensorType, seed: int) -> int:
        weights = graph.tensor(filter, data=stored(seed, filter, -15, 15).tobytes())
        options = {**WINDOW, "fused_activation_function": "RELU" if seed == 0 else "NONE"}
        return graph.add("CONV_2D", [x, weights, graph.constant(biases[seed])], [into], options)[0]

    def add(name: str, inputs: Sequence[int], result: TensorType, **options: Any) -> int:
        return graph.add(name, inputs, [result], options)[0]

    x, y, unit = (int16(2, 9, 7, 5, scale=scale) for scale in (1 / 4000, 1 / 300, 2**-15))
    image = add("QUANTIZE", [graph.input(float32(2, 9, 7, 3))], int16(2, 9, 7, 3))
    stem = conv(image, per_channel(0, 5, 3, 3, 3), y, 0)
    gated = add("MUL", [stem, add("LOGISTIC", [stem], unit)], x)
    angle = add("TANH", [conv(gated, per_channel(0, 5, 1, 1, 5), y, 1)], unit)
    leaky = add("LEAKY_RELU", [add("ADD", [gated, angle], x, pot_scale_int16=False)], x, alpha=0.2)
    window = {**POOL, "stride_w": 2, "stride_h": 2, "padding": "VALID"}
    pools = [add(f"{kind}_POOL_2D", [leaky], int16(2, 4, 3, 5), **window) for kind in ("MAX", "AVERAGE")]
    both = add("CONCATENATION", pools, int16(2, 4, 3, 10), axis=3)
    large = add("RESIZE_BILINEAR", [both, graph.constant(np.array([6, 5], np.int32))], int16(2, 6, 5, 10))
    mean = add("MEAN", [large, graph.constant(AXES)], int16(2, 1, 1, 10), keep_dims=True)
    last = conv(mean, per_channel(0, 5, 1, 1, 10), int16(2, 1, 1, 5), 2)
    flat = add("RESHAPE", [last, graph.constant(np.array([2, 5], np.int32))], int16(2, 5))
    shares = add("SOFTMAX", [flat], int16(2, 5, scale=2**-15), beta=1.0)
    return graph.build([add("DEQUANTIZE", [shares], float32(2, 5))])


def test_a_network_has_the_bits_of_litert(backend: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    file, x = network_file(), np.random.default_rng(1).uniform(-8, 8, (2, 9, 7, 3)).astype(np.float32)
    (expected,) = litert_run(file, [x])
    with load(file).compile(backend=backend) as compiled:
        found = compiled(x)
        homes = {p.backend for p in compiled.placement} - {"alias"}
    assert homes == {backend}
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 5
