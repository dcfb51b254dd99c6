"""Integer arithmetic of functions of one tensor: the GPU, the real result, and LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.integer_checks import check_integer, computed, integer_model, litert_integer
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
@pytest.mark.parametrize(
    ("op", "scale", "to_scale"),
    [
        *((op, 1.0, step) for op in ("logistic", "tanh", "sqrt") for step in (1e-10, 1e-30, 1.2e-38)),
        *((op, 1.0, 2.0**-149) for op in ("tanh", "sqrt")),
        *((op, *scales) for op in ("relu", "abs") for scales in ((1e-30, 2.0**-149), (1e30, 1e-10))),
        *(
            (op, *scales)
            for op in ("exp", "tanh")
            for scales in ((3e38, 1.0), (2.0**-149, 1.0), (1.0, 1e-30))
        ),
    ],
)
def test_functions_at_extreme_scales(
    op: str, scale: float, to_scale: float, dtype: DType, backend: str
) -> None:
    """Quotients and products of numbers in range leave float32 here; results stay at the ends of theirs."""
    values = np.arange(LIMITS[dtype][0], LIMITS[dtype][1] + 1, 1 if dtype.itemsize == 1 else 77)
    numbers = values.astype(dtype.numpy)
    x, y = (quantized(dtype, numbers.shape, *of) for of in ((scale, 9), (to_scale, 3)))
    (got,) = check_integer(op, [numbers], [x], {}, y.quantization, backend=backend)
    with np.errstate(all="ignore"):
        near(got, UNARY[op][1]((values - 9) * float(np.float32(scale))), y, 1.01)


@pytest.mark.parametrize("scales", [(3e38, 1.0), (1.0, 2.0**-149), (2.0**-149, 3e38)])
def test_interpolation_tables_beyond_float32(scales: tuple[float, float], backend: str) -> None:
    numbers = np.arange(-(2**15), 2**15, 77).astype(np.int16)
    x, y = (quantized(DType.INT16, numbers.shape, s) for s in scales)
    for op, function in (("exp", np.exp), ("gelu", lambda v: np.maximum(v, 0))):
        (got,) = check_integer(op, [numbers], [x], {}, y.quantization, backend=backend)
        if op == "exp" or scales[0] > 1:  # gelu is x or 0 where |x| is large
            with np.errstate(all="ignore"):
                near(got, function(numbers * scales[0]), y, 1.01)


def test_tanh_beyond_float32_as_litert() -> None:
    values = np.arange(-128, 128).astype(np.int8)
    for scale, to_scale in ((1.0, 2.0**-149), (1.0, 1e-30), (3e38, 1 / 128), (2.0**-149, 1 / 128)):
        x, y = (quantized(DType.INT8, (256,), s) for s in (scale, to_scale))
        (expected,) = litert_integer("TANH", [values], [x], [y], version=2, reference=False)
        np.testing.assert_array_equal(computed("tanh", [values], [x], {}, y.quantization), expected)


@pytest.mark.parametrize("scale", [1e-46, 1e39, 1e-300, 1e300, 0.0, -1.0, float("inf"), float("nan")])
def test_scales_beyond_float32_are_refused(scale: float, backend: str) -> None:
    wrong, right = (TensorType(DType.INT8, (3,), Quantization((s,), (0,))) for s in (scale, 1.0))
    for x, y in ((wrong, right), (right, wrong)):
        model = integer_model("tanh", [np.zeros(3, np.int8)], [x], {}, y.quantization)
        with pytest.raises(ModelError, match=r"tanh: scale .* and zero point 0 do not quantise"):
            model.compile(backend=backend)(np.zeros(3, np.int8))


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
