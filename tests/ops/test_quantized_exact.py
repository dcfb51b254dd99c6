"""Quantised conv2d, depthwise_conv2d, fully_connected: the reference against exact integers and LiteRT."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gpunn.ops.contraction.product_rescaling import Rounding, rescaling
from gpunn.ops.fixed_point.affine import LIMITS, activation_bounds, round_half_away
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.contraction.quantized_product import ATTRS, DTYPES, I8, U8, Case
from tests.ops.integer_checks import integer_model, litert_integer
from tests.ops.quantized import quantized

# ---- the reference against Python's integers


def rounded(value: Fraction, halves_up: bool) -> int:
    """Return the nearest integer; halves go upwards, or away from zero."""
    doubled = 2 * abs(value) + 1
    magnitude = doubled.numerator // doubled.denominator // 2
    if halves_up and value < 0 and 2 * abs(value) == 2 * magnitude - 1:
        magnitude -= 1
    return magnitude if value >= 0 else -magnitude


def fixed_point(total: int, factor: float, halves_up: bool) -> int:
    """Return total * factor as gemmlowp computes it: a 31-bit multiplier, a rounded product, a rounded shift.

    halves_up: how the shift rounds halves; gemmlowp itself rounds them away from zero.
    """
    exponent = 0
    fraction = Fraction(factor)
    while fraction >= 1:
        fraction, exponent = fraction / 2, exponent + 1
    while fraction < Fraction(1, 2):
        fraction, exponent = fraction * 2, exponent - 1
    m = rounded(fraction * 2**31, False)
    if m == 2**31:
        m, exponent = 2**30, exponent + 1
    product = rounded(Fraction(total * 2 ** max(exponent, 0) * m, 2**31), True)
    return rounded(Fraction(product, 2 ** max(-exponent, 0)), halves_up)


def expected(case: Case, attrs: dict[str, Any], upwards: int) -> Array:
    """Compute a convolution of stride 1 without padding, or a product, in Python's integers.

    Halves are rounded upwards in the first `upwards` output channels, away from zero in the others.
    """
    x, w, factors = case.centred()
    x = x if x.ndim == 4 else x.reshape(-1, 1, 1, w.shape[-1])
    if case.op == "depthwise_conv2d":
        multiplier = w.shape[3] // x.shape[3]
        full = np.zeros((w.shape[3], *w.shape[1:3], x.shape[3]), np.int64)
        for channel in range(w.shape[3]):
            full[channel, :, :, channel // multiplier] = w[0, :, :, channel]
        w = full
    w = w.reshape(w.shape[0], *(w.shape[1:3] if w.ndim == 4 else (1, 1)), -1)
    views = np.lib.stride_tricks.sliding_window_view(x, w.shape[1:3], (1, 2))
    total = np.einsum("nyxchw,ohwc->nyxo", views, w)
    if case.inputs[2] is not None:
        total = total + case.inputs[2]
    zero = case.output.zero_point[0]
    low, high = LIMITS[DTYPES[case.kind][0]]
    if attrs.get("activation") == "relu":
        low = max(low, zero)
    factors = factors * (w.shape[0] if len(factors) == 1 else 1)
    flat = [
        min(max(fixed_point(int(t), f, channel < upwards) + zero, low), high)
        for row in total.reshape(-1, w.shape[0])
        for channel, (t, f) in enumerate(zip(row, factors, strict=True))
    ]
    return np.asarray(flat).reshape(total.shape)


@pytest.mark.parametrize("attrs", [{}, {"activation": "relu"}], ids=str)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(
    ("op", "shape", "filter", "spread", "upwards"),
    [
        ("conv2d", (1, 4, 5, 6), (5, 2, 3, 6), 1.0, 5),
        ("conv2d", (1, 3, 3, 600), (3, 2, 2, 600), 1.0, 3),
        ("conv2d", (1, 4, 5, 6), (5, 2, 3, 6), 0.001, 5),
        ("depthwise_conv2d", (2, 4, 5, 3), (1, 3, 2, 6), 1.0, 0),
        ("depthwise_conv2d", (2, 4, 5, 1), (1, 3, 2, 6), 1.0, 0),
        ("depthwise_conv2d", (2, 4, 5, 19), (1, 3, 2, 19), 1.0, 16),
        ("fully_connected", (4, 9), (7, 9), 1.0, 7),
        ("fully_connected", (2, 4000), (3, 4000), 2.0, 3),
    ],
)
def test_the_reference_is_exact(
    op: str,
    shape: tuple[int, ...],
    filter: tuple[int, ...],
    spread: float,
    upwards: int,
    kind: str,
    attrs: dict[str, Any],
) -> None:
    case = Case(op, kind, shape, filter, seed=len(kind), spread=spread)
    model = integer_model(op, case.inputs, case.types, attrs, case.output, (1, 2))
    (result,) = model.operations[0].evaluate(case.inputs)
    if op == "depthwise_conv2d" and kind.startswith("uint8"):
        upwards = 0
    assert np.array_equal(result, expected(case, attrs, upwards).reshape(result.shape))


@pytest.mark.parametrize(("dtype", "multiplier"), [(U8, 2081950125), (I8, 2081950080)])
def test_scales_are_multiplied_in_float32_for_uint8_and_in_float64_for_int8(
    dtype: DType, multiplier: int
) -> None:
    """The scales of an operation of mobilenet_v1_1.0_224_quant, where LiteRT shows the difference."""
    types = [quantized(dtype, (1, 64), 0.023528477177023888), quantized(dtype, (8, 64), 0.015148180536925793)]
    values = [np.zeros(t.shape, t.dtype.numpy) for t in types]
    output = Quantization((0.023528477177023888,), (0,))
    operation = integer_model("fully_connected", values, types, {}, output).operations[0]
    how = rescaling(operation.call(), Rounding(lambda call: 0))
    assert how.multiplier.tolist() == [multiplier] * 8
    assert how.shift.tolist() == [-6] * 8


# ---- LiteRT

OPERATORS = {
    "conv2d": ("CONV_2D", 3),
    "depthwise_conv2d": ("DEPTHWISE_CONV_2D", 3),
    "fully_connected": ("FULLY_CONNECTED", 4),
}
ACTIVATIONS = {None: "NONE", "relu": "RELU", "relu6": "RELU6", "relu1": "RELU_N1_TO_1"}


def by_litert(case: Case, attrs: dict[str, Any], reference: bool = False) -> tuple[Array, Array]:
    """Return gpunn's result and that of LiteRT's default kernels, or of its reference kernels."""
    model = integer_model(case.op, case.inputs, case.types, attrs, case.output, (1, 2))
    operation = model.operations[0]
    operator, version = OPERATORS[case.op]
    options: dict[str, Any] = {"fused_activation_function": ACTIVATIONS[attrs.get("activation")]}
    if case.op != "fully_connected":
        (sy, sx), (dy, dx) = attrs.get("stride", (1, 1)), attrs.get("dilation", (1, 1))
        options |= {"padding": attrs.get("padding", "valid").upper(), "stride_h": sy, "stride_w": sx}
        options |= {"dilation_h_factor": dy, "dilation_w_factor": dx}
    if case.op == "depthwise_conv2d":
        options["depth_multiplier"] = case.w_shape[3] // case.x_shape[3]
    (theirs,) = litert_integer(
        operator,
        case.inputs,
        case.types,
        [operation.outputs[0].type],
        options,
        constants=(1, 2),
        version=version,
        reference=reference,
    )
    return operation.evaluate(case.inputs)[0], theirs


@pytest.mark.parametrize("attrs", ATTRS[:4], ids=str)
@pytest.mark.parametrize("kind", ["uint8", "int8", "int8 per channel"])
@pytest.mark.parametrize(
    ("op", "shape", "filter"),
    [
        ("conv2d", (3, 15, 13, 7), (11, 3, 3, 7)),
        ("conv2d", (3, 15, 13, 16), (24, 1, 1, 16)),
        ("depthwise_conv2d", (3, 15, 13, 8), (1, 3, 3, 8)),
        ("depthwise_conv2d", (3, 15, 13, 20), (1, 3, 3, 20)),
        ("depthwise_conv2d", (3, 9, 10, 3), (1, 3, 3, 6)),
        ("depthwise_conv2d", (3, 9, 10, 1), (1, 3, 3, 8)),
        ("fully_connected", (64, 20), (50, 20)),
        ("fully_connected", (1, 64), (4000, 64)),
    ],
)
def test_products_have_the_bits_of_litert(
    op: str, shape: tuple[int, ...], filter: tuple[int, ...], kind: str, attrs: dict[str, Any]
) -> None:
    if op == "fully_connected":
        attrs = {k: v for k, v in attrs.items() if k == "activation"}
    ours, theirs = by_litert(Case(op, kind, shape, filter, seed=11), attrs)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["int8", "int8 per channel"])  # LiteRT has no groups in uint8
def test_grouped_convolutions_have_the_bits_of_litert(kind: str) -> None:
    ours, theirs = by_litert(Case("conv2d", kind, (9, 19, 18, 6), (8, 3, 3, 3)), {"padding": "same"})
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["uint8", "int8", "int8 per channel"])
@pytest.mark.parametrize(
    ("op", "shape", "filter"),
    [
        ("conv2d", (3, 15, 13, 7), (11, 3, 3, 7)),
        ("depthwise_conv2d", (3, 15, 13, 8), (1, 3, 3, 8)),
    ],
)
def test_litert_reference_kernels_differ_in_halves_alone(
    op: str, shape: tuple[int, ...], filter: tuple[int, ...], kind: str
) -> None:
    case = Case(op, kind, shape, filter, seed=11)
    ours, theirs = by_litert(case, {}, reference=True)
    assert np.array_equal(theirs, expected(case, {}, 0))
    assert (ours != theirs).any() == ((op, kind) != ("depthwise_conv2d", "uint8"))


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "shape", "filter"),
    [
        ("conv2d", (2, 20, 30, 4), (8, 2, 2, 4)),
        ("conv2d", (2, 20, 30, 6), (6, 2, 2, 3)),
        ("depthwise_conv2d", (2, 20, 30, 20), (1, 3, 3, 20)),
        ("depthwise_conv2d", (2, 20, 30, 11), (1, 3, 3, 11)),
        ("fully_connected", (3, 20), (1999, 20)),
    ],
)
def test_halves_are_rounded_like_litert(
    gpu: str, op: str, shape: tuple[int, ...], filter: tuple[int, ...], kind: str
) -> None:
    """With a factor of 2^-7 every 128th sum is a half; the filter is a constant or not."""
    case = Case(op, kind, shape, filter)
    for index, scale in enumerate((0.5, 0.25, 0.125)):
        type = case.types[index]
        assert type is not None and type.quantization is not None
        steps = Quantization((scale,), type.quantization.zero_point)
        case.types[index] = TensorType(type.dtype, type.shape, steps)
    case.output = Quantization((0.125 * 2**7,), case.output.zero_point)
    result = case.check(gpu, {})
    assert np.array_equal(case.check(gpu, {}, ()), result)
    if op == "conv2d" and kind == "uint8" and shape[3] != filter[3]:
        return  # LiteRT has no groups in uint8
    _, theirs = by_litert(case, {})
    assert np.array_equal(theirs, result)
    _, away = by_litert(case, {}, reference=True)
    grouped = op == "conv2d" and shape[3] != filter[3]
    assert ((away != result).sum() > 5) == ((op, kind) != ("depthwise_conv2d", "uint8") and not grouped)


def once_rounded(case: Case, like: Array, activation: str | None) -> Array:
    """Compute fully_connected with sums that are multiplied in float64 and rounded once."""
    x, w, factors = case.centred()
    total = x @ w.T + case.inputs[2]
    result = round_half_away(total * np.asarray(factors)) + case.output.zero_point[0]
    operation = integer_model(case.op, case.inputs, case.types, {"activation": activation}, case.output)
    bounds = activation_bounds(operation.operations[0].call(), operation.outputs[0].type)
    return np.asarray(np.clip(result, *bounds).astype(like.dtype))


@pytest.mark.parametrize("kind", ["uint8", "int8", "int8 per channel"])
@pytest.mark.parametrize("activation", [None, "relu", "relu6", "relu1"])
def test_fully_connected_is_within_a_step_of_litert_reference(kind: str, activation: str | None) -> None:
    """LiteRT's reference kernel rounds the real product of sum and factor, once, in float64."""
    case = Case("fully_connected", kind, (64, 20), (50, 20), seed=5)
    ours, theirs = by_litert(case, {"activation": activation}, reference=True)
    difference = np.abs(ours.astype(int) - theirs.astype(int))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.01
    assert np.array_equal(theirs, once_rounded(case, theirs, activation))
