"""Quantised conv2d, depthwise_conv2d, fully_connected: the GPU gives the bits of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.contraction import blocks
from gpunn.types import DType, Quantization, TensorType
from tests.ops.contraction.quantized_product import ATTRS, DTYPES, I8, U8, Case
from tests.ops.harness import limit_device
from tests.ops.integer_checks import check_integer, integer_model
from tests.ops.quantized import quantized, stored


@pytest.fixture
def words_first(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let subgroups of four be none: on such devices few products of words come first."""
    if (open_device(None, False).properties.subgroup_sizes or (0, 0))[1] == 4:
        limit_device(monkeypatch, subgroup_sizes=None)


CONVOLUTIONS = [
    ("conv2d", (2, 9, 11, 8), (12, 3, 3, 8), "integer_product"),
    ("conv2d", (1, 7, 8, 4), (5, 2, 3, 4), "integer_product"),
    ("conv2d", (1, 10, 9, 3), (8, 3, 3, 3), "integer_product"),
    ("conv2d", (3, 6, 7, 5), (7, 2, 3, 5), "integer_product"),
    ("conv2d", (1, 8, 9, 12), (16, 3, 2, 6), "integer_product"),
    ("conv2d", (1, 8, 9, 6), (8, 3, 2, 3), "conv2d_grouped"),
    ("depthwise_conv2d", (2, 9, 11, 8), (1, 3, 3, 8), "depthwise_"),
    ("depthwise_conv2d", (1, 8, 7, 5), (1, 2, 3, 5), "depthwise_"),
    ("depthwise_conv2d", (1, 7, 9, 4), (1, 3, 2, 12), "depthwise_"),
    ("conv2d", (2, 9, 11, 8), (8, 3, 3, 1), "depthwise_"),  # a group for each channel
    ("conv2d", (1, 7, 9, 4), (12, 3, 2, 1), "depthwise_"),
]


@pytest.mark.sample(2)
@pytest.mark.usefixtures("words_first")
@pytest.mark.parametrize("attrs", ATTRS, ids=str)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("op", "shape", "filter", "body"), CONVOLUTIONS)
def test_the_gpu_gives_the_references_bits(
    gpu: str,
    op: str,
    shape: tuple[int, ...],
    filter: tuple[int, ...],
    body: str,
    kind: str,
    attrs: dict[str, Any],
) -> None:
    case = Case(op, kind, shape, filter, seed=len(kind) + ATTRS.index(attrs))
    values = np.unique(case.check(gpu, attrs))
    assert values.size > 30 or "activation" in attrs
    assert case.body(attrs).startswith(body)  # depthwise: strips or rows, by the window


@pytest.mark.usefixtures("words_first")
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 8, 9])
@pytest.mark.parametrize(("depth", "channels"), [(4, 1), (8, 8), (7, 13), (12, 30)])
def test_fully_connected_on_the_gpu(gpu: str, kind: str, rows: int, depth: int, channels: int) -> None:
    case = Case("fully_connected", kind, (rows, depth), (channels, depth), seed=rows, bias=rows != 3)
    case.check(gpu, {"activation": "relu"} if rows == 8 else {})
    case.check(gpu, {}, ())
    few = rows < 8 and (depth % 4 == 0 or rows == 1)
    shared = "matmul_broadcast" if (rows, channels) == (9, 30) else ""  # on software devices
    assert case.body({}) in ("integer_row" if few else "integer_product", shared)
    assert case.body({}, (2,)) == "conv2d_grouped"


@pytest.mark.usefixtures("words_first")
@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("depth", [1, 5, 6, 11])
def test_what_lies_behind_a_single_row_adds_nothing(depth: int, zero: int, gpu: str) -> None:
    """A table stores whole words: behind its last element lies the result of 0, which is 100."""
    model = Model("a single row")
    x = quantized(I8, (1, depth), 1.0, -100)
    filter = quantized(I8, (9, depth), 0.1, zero)
    (row,) = model.add("relu", [model.input("x", x)], {}, quantization=(Quantization((1.0,), (0,)),))
    weights = model.constant("filter", stored(2, filter), filter)
    result = Quantization((float(np.float32(depth)),), (3,))
    model.output(*model.add("fully_connected", [row, weights], {}, quantization=(result,)))
    value = stored(1, x)
    expected = model.compile("cpu")(value)
    with model.compile(gpu) as compiled:
        assert [r.kernel.body for r in compiled.plan_rows()] == ["table", "integer_row"]
        np.testing.assert_array_equal(compiled(value), expected)


def test_fully_connected_keeps_dimensions_or_flattens(gpu: str) -> None:
    case = Case("fully_connected", "uint8", (2, 3, 8), (5, 8))
    assert case.check(gpu, {"keep_dims": True}).shape == (2, 3, 5)
    assert case.check(gpu, {}).shape == (6, 5)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("op", "shape", "filter", "body"), CONVOLUTIONS[::2])
def test_computed_filters(
    gpu: str, op: str, shape: tuple[int, ...], filter: tuple[int, ...], body: str, kind: str
) -> None:
    case = Case(op, kind, shape, filter, bias=len(kind) % 2 == 0)
    for constants in ((), (1,), (2,)) if case.bias else ((),):
        case.check(gpu, {"padding": "same"}, constants)


@pytest.mark.parametrize("spread", [1e-9, 1e-4, 0.01, 100.0, 1e9])
@pytest.mark.parametrize("kind", ["uint8", "int8 per channel"])
def test_multipliers_of_any_size(gpu: str, kind: str, spread: float) -> None:
    """Above 1 the sums are shifted to the left, and may wrap around; far below it all are the zero point."""
    for op, shape, filter, _ in (CONVOLUTIONS[0], CONVOLUTIONS[5], CONVOLUTIONS[6]):
        Case(op, kind, shape, filter, spread=spread).check(gpu, {})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["uint8", "int8", "uint8 x int8"])
def test_zero_points_at_the_ends_of_the_range(gpu: str, kind: str, seed: int) -> None:
    for op, shape, filter, _ in (CONVOLUTIONS[0], CONVOLUTIONS[2], CONVOLUTIONS[5], CONVOLUTIONS[6]):
        case = Case(op, kind, shape, filter, seed=seed, spread=20, extreme=True)
        case.check(gpu, {"padding": "same"})


@pytest.mark.parametrize(
    ("op", "shape", "upwards"),
    [("conv2d", (16, 1, 1, 1), False), ("depthwise_conv2d", (1, 1, 1, 16), True)],
)
def test_halves_of_filters_for_each_channel(
    op: str, shape: tuple[int, ...], upwards: bool, backend: str
) -> None:
    """Convolutions with groups round them away from zero, also as depthwise ones, which round upwards."""
    types = [quantized(I8, (1, 3, 5, 16), 0.5), quantized(I8, shape, 0.5)]
    x = np.resize(np.arange(-18, 20, 2), (1, 3, 5, 16)).astype(np.int8)
    values = [x, np.ones(shape, np.int8)]
    (got,) = check_integer(op, values, types, {}, Quantization((1.0,), (0,)), backend=backend, constants=(1,))
    half = x.astype(float) / 4
    away = np.copysign(np.floor(np.abs(half) + 0.5), half)
    np.testing.assert_array_equal(got, np.floor(half + 0.5) if upwards else away)


@pytest.mark.parametrize(("op", "filter"), [("conv2d", (8, 3, 3, 4)), ("depthwise_conv2d", (1, 3, 3, 4))])
def test_an_empty_batch_gives_an_empty_result(backend: str, op: str, filter: tuple[int, ...]) -> None:
    assert Case(op, "uint8", (0, 5, 5, 4), filter).check(backend, {}).size == 0


def test_a_window_of_padding_sees_reals_of_zero(backend: str) -> None:
    case = Case("conv2d", "uint8", (1, 2, 2, 4), (8, 1, 1, 4))
    result = case.check(backend, {"padding": ((1, 1), (1, 1))})
    bias = case.inputs[2]
    assert bias is not None
    assert np.array_equal(result[0, 0, 0], result[0, 3, 3])


# ---- what is wrong is said


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({0: TensorType(U8, (1, 4, 4, 4))}, "an input of uint8 needs a scale and a zero point"),
        ({1: TensorType(I8, (8, 3, 3, 4))}, "does not go with a filter of int8"),
        ({1: TensorType(DType.FLOAT32, (8, 3, 3, 4))}, "does not go with a filter of float32"),
        (
            {1: TensorType(U8, (8, 3, 3, 4), Quantization((0.5,) * 4, (0,) * 4, 3))},
            "a filter of 8 channels along axis 0",
        ),
        (
            {1: TensorType(U8, (8, 3, 3, 4), Quantization((0.5,) * 8, (1,) * 8, 0))},
            "must have zero points of 0",
        ),
        ({1: quantized(U8, (8, 3, 3, 4), 0.5, 256)}, "a filter of uint8 cannot have"),
        ({1: quantized(U8, (8, 3, 3, 4), float("inf"))}, "a filter of uint8 cannot have"),
        ({0: quantized(U8, (1, 4, 4, 4), 0.5, -1)}, "do not quantise"),
        ({0: quantized(U8, (1, 4, 4, 4), 0.0)}, "do not quantise"),
        ({2: TensorType(DType.FLOAT32, (8,))}, "the bias of a quantised operation must be int32"),
        ({2: quantized(DType.INT32, (8,), 0.5)}, "the bias's scale must be that of input"),
        ({2: quantized(DType.INT32, (8,), 0.25, 3)}, "the bias must have the zero point 0"),
    ],
)
def test_wrong_types_are_refused(changed: dict[int, TensorType], message: str) -> None:
    types = [
        quantized(U8, (1, 4, 4, 4), 0.5, 3),
        quantized(U8, (8, 3, 3, 4), 0.5, 3),
        quantized(DType.INT32, (8,), 0.25),
    ]
    for index, type in changed.items():
        types[index] = type
    values = [np.zeros(t.shape, t.dtype.numpy) for t in types]
    with pytest.raises(ModelError, match=message):
        integer_model("conv2d", values, types)


def test_many_scales_are_not_listed_in_messages() -> None:
    scales = Quantization((0.5,) * 32, (0,) * 32, 0)
    types = [
        quantized(I8, (1, 4, 4, 4), 0.5, 3),
        TensorType(I8, (32, 3, 3, 4), scales),
        TensorType(DType.INT32, (32,), scales),
    ]
    values = [np.zeros(t.shape, t.dtype.numpy) for t in types]
    with pytest.raises(ModelError, match=r"input \* filter, 0\.25, got 0\.5$"):
        integer_model("conv2d", values, types)
    types[2] = TensorType(DType.INT32, (32,), Quantization((0.25,) * 32, (1,) * 32, 0))
    with pytest.raises(ModelError, match=r"got 32 scales and 32 zero points along axis 0$"):
        integer_model("conv2d", values, types)


def test_an_activation_that_is_no_clamp_is_refused() -> None:
    case = Case("conv2d", "uint8", (1, 4, 4, 4), (8, 3, 3, 4))
    with pytest.raises(ModelError, match="activation tanh"):
        integer_model(case.op, case.inputs, case.types, {"activation": "tanh"}, case.output)


@pytest.mark.parametrize(
    "scale", [None, Quantization((0.0,), (0,)), Quantization((0.25,), (0,))], ids=["none", "zero", "product"]
)
def test_scales_of_a_bias(scale: Quantization | None) -> None:
    types: list[TensorType | None] = [
        quantized(U8, (2, 4), 0.5, 3),
        quantized(U8, (5, 4), 0.5, 3),
        TensorType(DType.INT32, (5,), scale),
    ]
    values = [stored(k, t) for k, t in enumerate(types[:2]) if t] + [np.arange(5, dtype=np.int32)]
    model = integer_model("fully_connected", values, types, {}, Quantization((1.0,), (0,)))
    assert model.operations[0].evaluate(values)[0].shape == (2, 5)


def test_a_quantised_filter_of_a_real_input_counts_by_its_reals(backend: str) -> None:
    types = [TensorType(DType.FLOAT32, (2, 4)), quantized(I8, (5, 4), 0.5)]
    x, w = np.arange(8, dtype=np.float32).reshape(2, 4), stored(1, types[1])
    (result,) = check_integer(
        "fully_connected",
        [x, w],
        types,
        {"activation": "relu"},
        constants=(1,),
        backend=backend,
        host="the filter is quantised, the input is not",
    )
    assert np.array_equal(result, np.maximum(x @ (w * np.float32(0.5)).T, 0))


def test_one_scale_of_a_dense_layer_is_multiplied_in_float32(backend: str) -> None:
    """As LiteRT does. With a product of float64 this sum, 39.49804 steps, becomes 39.5 and then 40."""
    x = quantized(DType.INT8, (1, 4), 0.019222455099225044, 63)
    w = quantized(DType.INT8, (1, 4), 0.005773406475782394)
    bias = TensorType(DType.INT32, (1,), Quantization((0.00011097904643975198,), (0,)))
    y = Quantization((0.03968007490038872,), (-47,))
    values = [np.full((1, 4), 63, np.int8), np.zeros((1, 4), np.int8), np.array([30927], np.int32)]
    (got,) = check_integer("fully_connected", values, [x, w, bias], {}, y, backend=backend, constants=(1, 2))
    assert got.tolist() == [[39]]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("size", [1, 3])
def test_sums_in_several_blocks(kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of about 14 of the 126 pixels give the bits of one block."""
    case = Case("conv2d", kind, (2, 9, 7, 5), (13, size, size, 5), seed=size)
    expected = case.check("cpu", {"padding": "same"})
    monkeypatch.setattr(blocks, "LEAST_ROWS", 14)
    monkeypatch.setattr(blocks, "BLOCK", 1)
    np.testing.assert_array_equal(case.check("cpu", {"padding": "same"}), expected)
    assert np.unique(expected).size > 20
