"""Integer arithmetic of functions of one tensor: the GPU, the real result, and LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.integer_checks import check_integer, computed, litert_integer
from tests.ops.quantized import Draw, both, every, every_width, near, quantized, reals, seeds, stored

UNARY: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "relu": ("RELU", lambda x: np.maximum(x, 0)),
    "relu1": ("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1)),
    "relu6": ("RELU6", lambda x: np.clip(x, 0, 6)),
    "logistic": ("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))),
    "tanh": ("TANH", np.tanh),
    "hard_swish": ("HARD_SWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "leaky_relu": ("LEAKY_RELU", lambda x: np.where(x < 0, 0.3 * x, x)),
    "floor": ("", np.floor),
    "abs": ("", np.abs),
    "exp": ("", np.exp),
    "elu": ("", lambda x: np.where(x < 0, np.expm1(x), x)),
    "sin": ("", np.sin),
    "square": ("", np.square),
    "sqrt": ("", lambda x: np.sqrt(np.maximum(x, 0))),  # NaN is stored as 0
}
FIXED_OUTPUTS = {"logistic": (1 / 256, 0), "tanh": (1 / 128, 128)}


def unary_types(op: str, seed: int, dtype: DType) -> tuple[TensorType, TensorType]:
    """Types of an input of all values, and of the result."""
    draw = Draw(seed, dtype)
    x = draw.type(256)
    if op in FIXED_OUTPUTS:
        scale, above = FIXED_OUTPUTS[op]
        return x, quantized(dtype, (256,), scale, LIMITS[dtype][0] + above)
    assert x.quantization is not None
    y = draw.type(256, low=x.quantization.scale[0] * 0.6, high=x.quantization.scale[0] * 2)
    return x, x if seed == 0 else y


def attributes(op: str) -> dict[str, float]:
    return {"alpha": 0.3} if op == "leaky_relu" else {}


@seeds
@both
@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str, dtype: DType, seed: int, backend: str) -> None:
    x, y = unary_types(op, seed, dtype)
    values = every(x)
    (got,) = check_integer(op, [values], [x], attributes(op), y.quantization, backend=backend)
    # Fixed point with 7 bits of fraction: hard_swish is two steps off where its result is large.
    near(got, UNARY[op][1](reals(values, x)), y, 2.5 if op == "hard_swish" else 1.01)


@seeds
@both
@pytest.mark.parametrize("op", [op for op in UNARY if UNARY[op][0]])
def test_unary_as_litert(op: str, dtype: DType, seed: int) -> None:
    x, y = unary_types(op, seed, dtype)
    values = every(x)
    version = 1 if op in ("hard_swish", "relu1") else 2
    options = attributes(op) or None
    (expected,) = litert_integer(UNARY[op][0], [values], [x], [y], options, version=version)
    got = computed(op, [values], [x], attributes(op), y.quantization)
    np.testing.assert_array_equal(got, expected)


@every_width
def test_a_tail_of_less_than_a_word(dtype: DType, backend: str) -> None:
    for shape in ((), (1,), (2,), (3,), (5,), (1023,)):
        x = Draw(1, dtype).type(*shape)
        values = stored(2, x)
        check_integer("relu", [values], [x], backend=backend)
        check_integer("add", [values, values], [x, x], backend=backend)


def test_outputs_of_known_range_have_their_own_quantisation() -> None:
    x = quantized(DType.INT8, (4,), 0.1, 3)
    model = Model()
    (y,) = model.add("logistic", [model.input("x", x)])
    assert y.type.quantization == Quantization((1 / 256,), (-128,))
    (z,) = model.add("softmax", [model.input("u", quantized(DType.UINT8, (4,), 0.1, 3))])
    assert z.type.quantization == Quantization((1 / 256,), (0,))
    (t,) = model.add("tanh", [y])
    assert t.type.quantization == Quantization((1 / 128,), (0,))


SIGNED = ("abs", "exp", "log", "rsqrt", "gelu", "gelu_tanh")


@seeds
@pytest.mark.parametrize("op", SIGNED)
def test_functions_of_int8_as_litert(op: str, seed: int) -> None:
    x, y = unary_types(op, seed, DType.INT8)
    values = every(x)
    if op == "rsqrt":  # LiteRT refuses what is not positive
        assert x.quantization is not None
        x = quantized(DType.INT8, (255,), x.quantization.scale[0], -128)
        y, values = y.with_shape((255,)), values[1:]
    operator, options = ("GELU", {"approximate": True}) if op == "gelu_tanh" else (op.upper(), None)
    (expected,) = litert_integer(operator, [values], [x], [y], options)
    np.testing.assert_array_equal(computed(op, [values], [x], {}, y.quantization), expected)


@pytest.mark.parametrize(
    ("op", "dtype", "scale", "zero", "value", "expected"),
    [
        ("logistic", DType.INT8, 0.09530800580978394, 34, 21, -71),  # 57.5 steps, in float32 a little less
        ("tanh", DType.INT8, 0.032446496188640594, 127, 65, -124),
        ("tanh", DType.UINT8, 0.032446496188640594, 255, 193, 4),
    ],
)
def test_tables_are_of_float32(
    op: str, dtype: DType, scale: float, zero: int, value: int, expected: int, backend: str
) -> None:
    """LiteRT's tables are computed in float32, which decides where the real result is near a half."""
    x = quantized(dtype, (1,), scale, zero)
    (got,) = check_integer(op, [np.array([value], dtype.numpy)], [x], backend=backend)
    assert got.tolist() == [expected]


@both
def test_magnitudes_are_rescaled(dtype: DType, backend: str) -> None:
    """With another scale of the result, in fixed point: 0.5 step, which is rounded away from zero twice."""
    x, y = quantized(dtype, (3,), 0.5, 100), quantized(dtype, (3,), 1.0, 0)
    values = np.array([97, 100, 101], dtype.numpy)
    (got,) = check_integer("abs", [values], [x], {}, y.quantization, backend=backend)
    assert got.tolist() == [2, 0, 1]


@seeds
def test_magnitudes_as_litert(seed: int) -> None:
    draw = Draw(seed, DType.INT8)
    x, y = draw.type(256), draw.type(256)
    (expected,) = litert_integer("ABS", [every(x)], [x], [y], reference=False)
    np.testing.assert_array_equal(computed("abs", [every(x)], [x], {}, y.quantization), expected)
