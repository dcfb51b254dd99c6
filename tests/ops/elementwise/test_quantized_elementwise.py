"""Integer arithmetic of element-wise ops, reductions, softmax, resize and movements.

Three comparisons: the GPU gives the reference's bits; the reference lies within a step of the real result;
and LiteRT's kernels give the same bits, where docs/quantized.md names no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.elementwise.binary_integer import COMPARISONS
from gpunn.ops.elementwise.quantize import thresholds
from gpunn.ops.fixed_point.affine import LIMITS, dequantize
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.quantized import check_integer, integer_model, litert_integer, quantized, stored

DTYPES = (DType.UINT8, DType.INT8)
SEEDS = range(6)
both = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
every_width = pytest.mark.parametrize("dtype", (*DTYPES, DType.INT16), ids=lambda d: d.value)
seeds = pytest.mark.parametrize("seed", SEEDS)


class Draw:
    """Random types and values of one dtype."""

    def __init__(self, seed: int, dtype: DType) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype

    def type(self, *shape: int, low: float = 0.005, high: float = 0.2) -> TensorType:
        """A shape under a random scale and zero point; that of 16 bits is 0, as in TFLite's files."""
        wide = self.dtype is DType.INT16
        zero = 0 if wide else int(self.rng.integers(*LIMITS[self.dtype], endpoint=True))
        return quantized(self.dtype, shape, float(self.rng.uniform(low, high)), zero)

    def values(self, type: TensorType) -> Array:
        """Stored values over the whole range."""
        return stored(int(self.rng.integers(2**31)), type)


def every(type: TensorType) -> Array:
    """All stored values."""
    return np.arange(LIMITS[type.dtype][0], LIMITS[type.dtype][1] + 1).astype(type.dtype.numpy)


def computed(
    op: str,
    inputs: Sequence[Array],
    types: Sequence[TensorType],
    attrs: Mapping[str, Any] | None = None,
    output: Quantization | None = None,
) -> Array:
    """The result of the op's integer reference."""
    operation = integer_model(op, inputs, types, attrs, output).operations[0]
    (result,) = operation.evaluate(inputs)
    return result


def near(got: Array, real: Array, type: TensorType, steps: float = 1.0) -> None:
    """Assert that stored values lie within `steps` of what reals are, clamped to the type's range."""
    quantization = type.quantization
    assert quantization is not None
    exact = np.clip(real / quantization.scale[0] + quantization.zero_point[0], *LIMITS[type.dtype])
    assert np.abs(got.astype(np.float64) - exact).max(initial=0) <= steps


def reals(values: Array, type: TensorType) -> Array:
    """What stored values stand for, in float64."""
    return dequantize(values, type).astype(np.float64)


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


BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "prelu": lambda a, b: np.where(a < 0, a * b, a),
    "maximum": np.maximum,
    "minimum": np.minimum,
}
SHAPES = (  # of the first and the second operand: dense, per channel, one element, words, inner, outer
    ((2, 5, 7, 3), (2, 5, 7, 3)),
    ((2, 5, 7, 3), (3,)),
    ((2, 5, 7, 8), (8,)),
    ((2, 5, 7, 8), (1,)),
    ((2, 5, 7, 9), (2, 5, 1, 9)),
    ((2, 5, 4, 8), (2, 1, 4, 1)),
    ((2, 5, 4, 8), (2, 1, 4, 8)),
)


@seeds
@every_width
@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str, dtype: DType, seed: int, backend: str) -> None:
    draw = Draw(seed, dtype)
    for shapes in SHAPES:
        types = [draw.type(*shape) for shape in shapes]
        y = draw.type(*shapes[0], low=0.02)
        values = [draw.values(t) for t in types]
        (got,) = check_integer(op, values, types, {}, y.quantization, backend=backend)
        near(got, BINARY[op](*(reals(v, t) for v, t in zip(values, types, strict=True))), y, 1.01)


@every_width
@pytest.mark.parametrize("activation", ["relu", "relu1", "relu6"])
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_binary_with_a_clamp(op: str, activation: str, dtype: DType, backend: str) -> None:
    draw = Draw(1, dtype)
    types, y = [draw.type(33), draw.type(33)], draw.type(33)
    values = [draw.values(t) for t in types]
    (got,) = check_integer(op, values, types, {"activation": activation}, y.quantization, backend=backend)
    real = UNARY[activation][1](BINARY[op](*(reals(v, t) for v, t in zip(values, types, strict=True))))
    near(got, real, y, 1.01)


@seeds
@both
@pytest.mark.parametrize("op", BINARY)
def test_binary_as_litert(op: str, dtype: DType, seed: int) -> None:
    draw = Draw(seed, dtype)
    for shapes in SHAPES[:4]:
        shapes = (shapes[0], (1, 1, shapes[0][-1])) if op == "prelu" else shapes
        y = draw.type(*shapes[0], low=0.02)
        same = op in ("maximum", "minimum")
        types = [y.with_shape(s) if same else draw.type(*s) for s in shapes]
        values = [draw.values(t) for t in types]
        activation = {"fused_activation_function": "RELU6"} if op in ("add", "sub", "mul") else {}
        attrs = {"activation": "relu6"} if activation else {}
        constants, version = ((1,), 1) if op == "prelu" else ((), 2)
        (expected,) = litert_integer(
            op.upper(), values, types, [y], activation or None, constants=constants, version=version
        )
        np.testing.assert_array_equal(computed(op, values, types, attrs, y.quantization), expected)


SIGNED = ("abs", "exp", "log", "rsqrt", "gelu", "gelu_tanh")


@seeds
@pytest.mark.parametrize("op", SIGNED)
def test_functions_of_int8_as_litert(op: str, seed: int) -> None:
    x, y = unary_types(op, seed, DType.INT8)
    values = every(x)
    if op in ("log", "rsqrt"):  # LiteRT refuses what is not positive
        assert x.quantization is not None
        x = quantized(DType.INT8, (255,), x.quantization.scale[0], -128)
        y, values = y.with_shape((255,)), values[1:]
    operator, options = ("GELU", {"approximate": True}) if op == "gelu_tanh" else (op.upper(), None)
    (expected,) = litert_integer(operator, [values], [x], [y], options)
    np.testing.assert_array_equal(computed(op, [values], [x], {}, y.quantization), expected)


def pair(seed: int, dtype: DType, *shapes: tuple[int, ...]) -> list[TensorType]:
    """Types of two operands: of the same quantisation, of one finer than comparisons are, of any."""
    if seed < 2:
        return [quantized(dtype, s, (0.1, 0.001)[seed], 3) for s in shapes]
    draw = Draw(seed, dtype)
    return [draw.type(*s) for s in shapes]


@seeds
@every_width
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op: str, dtype: DType, seed: int, backend: str) -> None:
    for shapes in SHAPES:
        types = pair(seed, dtype, *shapes)
        values = [stored(seed + k, t) for k, t in enumerate(types)]
        (got,) = check_integer(op, values, types, backend=backend)
        a, b = (reals(v, t) for v, t in zip(values, types, strict=True))
        clear = np.abs(a - b) > 2 / 256  # what is nearer may count as equal
        assert (got == COMPARISONS[op][0](a, b))[clear].all()


@seeds
@both
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_as_litert(op: str, dtype: DType, seed: int) -> None:
    types = pair(seed, dtype, (9, 50), (9, 50))
    values = [stored(seed + k, t) for k, t in enumerate(types)]
    (expected,) = litert_integer(op.upper(), values, types, [TensorType(DType.BOOL, (9, 50))])
    np.testing.assert_array_equal(computed(op, values, types), expected)


@seeds
def test_squared_difference_as_litert(seed: int) -> None:
    draw = Draw(seed, DType.INT8)
    types, y = [draw.type(9, 50), draw.type(9, 50)], draw.type(9, 50, low=0.02)
    values = [draw.values(t) for t in types]
    (expected,) = litert_integer("SQUARED_DIFFERENCE", values, types, [y], version=2)
    np.testing.assert_array_equal(computed("squared_difference", values, types, {}, y.quantization), expected)


@seeds
@both
def test_squared_difference(dtype: DType, seed: int, backend: str) -> None:
    draw = Draw(seed, dtype)
    for shapes in SHAPES:
        types, y = [draw.type(*shape) for shape in shapes], draw.type(*shapes[0], low=0.02)
        values = [draw.values(t) for t in types]
        (got,) = check_integer("squared_difference", values, types, {}, y.quantization, backend=backend)
        a, b = (reals(v, t) for v, t in zip(values, types, strict=True))
        # Differences are rounded to 2^-8 of twice the larger scale, then squared.
        near(got, np.square(a - b), y, 1.5)


PAIRS = {
    "div": np.divide,
    "floor_div": np.floor_divide,
    "floor_mod": np.mod,
    "pow": np.power,
    "atan2": np.arctan2,
}


@both
@pytest.mark.parametrize("op", PAIRS)
def test_what_has_no_integer_arithmetic_goes_through_reals(op: str, dtype: DType, backend: str) -> None:
    """By a table of all pairs; those of divisors of 0 and negative bases among them."""
    draw = Draw(5, dtype)
    for shapes in SHAPES:
        y, types = draw.type(*shapes[0]), [draw.type(*s) for s in shapes]
        values = [draw.values(t) for t in types]
        check_integer(op, values, types, {}, y.quantization, backend=backend)
    low, y = LIMITS[dtype][0], draw.type(40)
    positive = quantized(dtype, (40,), 0.1, low)
    values = [stored(k, positive, low + 5) for k in range(2)]
    attrs = {"activation": "relu6"} if op == "div" else {}
    (got,) = check_integer(op, values, [positive] * 2, attrs, y.quantization, backend=backend)
    real = PAIRS[op](*(reals(v, positive) for v in values))
    if op in ("div", "pow", "atan2"):  # the others jump
        near(got, np.minimum(real, 6) if attrs else real, y, 0.51)
    wide = quantized(DType.INT16, (40,), 0.1)
    host = "no GPU kernel for quantised tensors"
    check_integer(op, [stored(k, wide) for k in range(2)], [wide] * 2, {}, backend=backend, host=host)


def test_one_quantised_operand_alone_is_refused() -> None:
    model = Model()
    a = model.input("a", quantized(DType.UINT8, (4,), 0.1))
    with pytest.raises(ModelError, match="both inputs must be quantised or neither"):
        model.add("add", [a, model.input("b", float32(4))])


def test_plain_integers_are_still_refused_where_reals_are_meant() -> None:
    for dtype in (DType.UINT8, DType.INT8):
        for op, attrs in (("relu", {}), ("mean", {"axes": (0,)}), ("softmax", {})):
            model = Model()
            x = model.input("x", TensorType(dtype, (4,)))
            with pytest.raises(ModelError, match=f"must be float32 or float16.*, got {dtype.value}"):
                model.add(op, [x], attrs)
    model = Model()
    x = model.input("x", TensorType(DType.INT32, (4,), Quantization((0.1,), (0,))))
    with pytest.raises(ModelError, match="got quantised int32"):
        model.add("add", [x, x])


SOFTMAX = [(0.1, 1.0), (0.02, 1.0), (0.3, 0.5), (0.004, 1.0), (1.0, 2.0)]


@both
@pytest.mark.parametrize(("scale", "beta"), SOFTMAX)
def test_softmax(scale: float, beta: float, dtype: DType, backend: str) -> None:
    for shape, axis in (((7, 1), -1), ((9, 10), -1), ((3, 300), -1), ((2, 5, 6, 3), 1), ((2, 70, 5), 1)):
        x = quantized(dtype, shape, scale, 3)
        values = stored(1, x)
        attrs = {"axis": axis, "beta": beta}
        (got,) = check_integer("softmax", [values], [x], attrs, backend=backend)
        weights = np.exp(beta * (reals(values, x) - reals(values, x).max(axis, keepdims=True)))
        y = quantized(dtype, shape, 1 / 256, LIMITS[dtype][0])
        near(got, weights / weights.sum(axis, keepdims=True), y, 0.51)


@both
@pytest.mark.parametrize(("scale", "beta"), SOFTMAX)
def test_softmax_as_litert(scale: float, beta: float, dtype: DType) -> None:
    for length in (1, 2, 10, 100, 400):
        x = quantized(dtype, (20, length), scale, 3)
        y = quantized(dtype, (20, length), 1 / 256, LIMITS[dtype][0])
        values = stored(length, x)
        (expected,) = litert_integer("SOFTMAX", [values], [x], [y], {"beta": beta}, version=2)
        np.testing.assert_array_equal(computed("softmax", [values], [x], {"beta": beta}), expected)


def test_softmax_of_equal_elements_without_end(backend: str) -> None:
    x = quantized(DType.UINT8, (1, 4000), 0.1)
    (got,) = check_integer("softmax", [np.full((1, 4000), 7, np.uint8)], [x], backend=backend)
    assert not got.any()


def test_softmax_out_of_the_integers_reach(backend: str) -> None:
    x = quantized(DType.UINT8, (1, 5000), 0.1)
    check_integer("softmax", [stored(0, x)], [x], backend=backend, host="can overflow integer softmax")
    x = quantized(DType.UINT8, (2, 5), 0.1)
    other = Quantization((0.01,), (5,))
    check_integer(
        "softmax", [stored(0, x)], [x], {}, other, backend=backend, host="another output quantisation"
    )


MEANS = [
    ((2, 7, 7, 8), (1, 2), True),
    ((2, 4, 8, 40), (2, 1), True),  # the mean's factor may be a power of two, and its halves many
    ((2, 7, 7, 9), (1, 2), False),
    ((5, 130), (1,), False),
    ((3, 4, 6, 10), (2,), True),
    ((3, 4, 6, 10), (0, 3), False),
    ((3, 4), (), False),
    ((3, 4), (0, 1), False),
]


@every_width
@pytest.mark.parametrize(("shape", "axes", "keep_dims"), MEANS)
def test_mean(
    shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool, dtype: DType, backend: str
) -> None:
    for seed in SEEDS:
        draw = Draw(seed, dtype)
        x = draw.type(*shape)
        values = draw.values(x)
        real = reals(values, x).mean(axes, keepdims=keep_dims)
        y = x.with_shape(real.shape) if seed == 0 else draw.type(*real.shape, low=0.01)
        attrs = {"axes": axes, "keep_dims": keep_dims}
        (got,) = check_integer("mean", [values], [x], attrs, y.quantization, backend=backend)
        near(got, real, y, 1.01)


@both
@pytest.mark.parametrize(("shape", "axes", "keep_dims"), MEANS)
def test_mean_as_litert(shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool, dtype: DType) -> None:
    """LiteRT's default kernels; and its reference kernels, unless the mean is one over height and width."""
    over_image = len(shape) == 4 and set(axes) == {1, 2} and keep_dims
    for seed in SEEDS:
        draw = Draw(seed, dtype)
        x = draw.type(*shape)
        values = draw.values(x)
        attrs = {"axes": axes, "keep_dims": keep_dims}
        kept = values.mean(axes, keepdims=keep_dims).shape
        y = x.with_shape(kept) if seed == 0 else draw.type(*kept, low=0.01)
        result = computed("mean", [values], [x], attrs, y.quantization)
        for reference in (False,) if over_image else (False, True):
            (expected,) = litert_integer(
                "MEAN",
                [values, np.array(axes, np.int32)],
                [x, TensorType(DType.INT32, (len(axes),))],
                [y],
                {"keep_dims": keep_dims},
                constants=(1,),
                version=2,
                reference=reference,
            )
            np.testing.assert_array_equal(result, expected)


def test_the_mean_of_nothing_goes_through_reals(backend: str) -> None:
    x = quantized(DType.UINT8, (2, 0), 0.1, 7)
    values = np.zeros((2, 0), np.uint8)
    (got,) = check_integer("mean", [values], [x], {"axes": (1,)}, backend=backend, host="no elements")
    assert got.tolist() == [7, 7]


RESIZES = [
    ((2, 5, 7, 3), (9, 12)),
    ((1, 33, 20, 4), (65, 41)),
    ((1, 8, 8, 4), (16, 16)),
    ((1, 20, 30, 2), (7, 11)),
    ((1, 3, 3, 1), (1, 1)),
]
MODES = ({}, {"align_corners": True}, {"half_pixel_centers": True})


@every_width
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("shape", "size"), RESIZES)
def test_resize_bilinear(
    shape: tuple[int, ...], size: tuple[int, int], mode: dict[str, bool], dtype: DType, backend: str
) -> None:
    x = Draw(3, dtype).type(*shape)
    values = stored(3, x)
    (got,) = check_integer("resize_bilinear", [values], [x], {"size": size, **mode}, backend=backend)
    if dtype is DType.UINT8:  # int8 rounds the distance of rows to 1/1024: its error grows with the image
        real = computed("resize_bilinear", [reals(values, x)], [float32(*shape)], {"size": size, **mode})
        near(got, real, x.with_shape(real.shape), 0.501)


@both
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("shape", "size"), RESIZES)
def test_resize_bilinear_as_litert(
    shape: tuple[int, ...], size: tuple[int, int], mode: dict[str, bool], dtype: DType
) -> None:
    x = Draw(3, dtype).type(*shape)
    values = stored(3, x)
    y = x.with_shape((shape[0], *size, shape[3]))
    types = [x, TensorType(DType.INT32, (2,))]
    operands = [values, np.array(size, np.int32)]
    (expected,) = litert_integer("RESIZE_BILINEAR", operands, types, [y], mode, constants=(1,), version=3)
    got = computed("resize_bilinear", [values], [x], {"size": size, **mode})
    difference = np.abs(got.astype(int) - expected)
    # uint8 is computed in float32 there and may fall on the other side of a half.
    assert difference.max() <= (1 if dtype is DType.UINT8 else 0)
    assert np.mean(difference > 0) < 0.02


def test_resize_bilinear_out_of_the_integers_reach(backend: str) -> None:
    x = quantized(DType.UINT8, (1, 3, 5, 1), 0.1)
    attrs = {"size": (2999, 3001)}
    check_integer("resize_bilinear", [stored(0, x)], [x], attrs, backend=backend, host="do not fit 32 bits")
    other = Quantization((0.3,), (5,))
    attrs = {"size": (4, 4)}
    check_integer(
        "resize_bilinear", [stored(0, x)], [x], attrs, other, backend=backend, host="quantised differently"
    )


@seeds
@every_width
def test_concat(seed: int, dtype: DType, backend: str) -> None:
    draw = Draw(seed, dtype)
    for depths in ((3, 5), (4, 8), (8, 4, 1)):
        types = [draw.type(2, 3, 7, depth) for depth in depths]
        types[0] = types[-1].with_shape(types[0].shape) if seed == 0 else types[0]
        values = [draw.values(t) for t in types]
        y = draw.type(2, 3, 7, sum(depths), low=0.02)
        real = np.concatenate([reals(v, t) for v, t in zip(values, types, strict=True)], -1)
        for activation in (None, "relu6"):
            attrs = {"axis": -1, "activation": activation}
            (got,) = check_integer("concat", values, types, attrs, y.quantization, backend=backend)
            near(got, np.clip(real, 0, 6) if activation else real, y, 1.01 if activation else 0.501)


@seeds
@both
def test_concat_as_litert(seed: int, dtype: DType) -> None:
    draw = Draw(seed, dtype)
    types = [draw.type(2, 3, 7, depth) for depth in (3, 5)]
    y = draw.type(2, 3, 7, 8)
    if dtype is DType.INT8:  # LiteRT wants one quantisation there
        types = [y.with_shape(t.shape) for t in types]
    values = [draw.values(t) for t in types]
    (expected,) = litert_integer("CONCATENATION", values, types, [y], {"axis": 3}, version=2)
    np.testing.assert_array_equal(computed("concat", values, types, {"axis": 3}, y.quantization), expected)


@every_width
@pytest.mark.parametrize("shape", [(2, 3, 7, 8), (1, 5, 6, 3)])
def test_movements_keep_stored_values(shape: tuple[int, ...], dtype: DType, backend: str) -> None:
    x = Draw(2, dtype).type(*shape)
    values = stored(2, x)
    fill = LIMITS[dtype][0] + 9
    pairs = ((0, 0), (1, 2), (2, 1), (0, 0))
    every_other = {"begin": (0, 1, 0, 0), "end": (None,) * 4, "strides": (1, 1, 1, 2)}
    for op, attrs, expected in (
        ("transpose", {"perm": (0, 2, 1, 3)}, values.transpose(0, 2, 1, 3)),
        ("transpose", {"perm": (3, 2, 1, 0)}, values.transpose(3, 2, 1, 0)),
        ("pad", {"paddings": pairs, "value": fill}, np.pad(values, pairs, constant_values=fill)),
        ("strided_slice", every_other, values[:, 1:, :, ::2]),
        ("reshape", {"shape": (-1,)}, values.reshape(-1)),
    ):
        (got,) = check_integer(op, [values], [x], attrs, backend=backend)
        np.testing.assert_array_equal(got, expected)


@seeds
@every_width
def test_quantize(seed: int, dtype: DType, backend: str) -> None:
    draw = Draw(seed, dtype)
    y = draw.type(1, low=1e-6 if seed % 2 else 0.005, high=1e4 if seed % 2 else 0.2)
    assert y.quantization is not None
    scale, zero = y.quantization.scale[0], y.quantization.zero_point[0]
    edges = thresholds(dtype, scale, zero)[1:]
    below = np.nextafter(edges, np.float32(-np.inf))
    between = draw.rng.uniform(-300 * scale, 300 * scale, 1001).astype(np.float32)
    x = np.concatenate([edges, below, between, np.float32([np.inf, -np.inf, np.nan, -0.0, 1e-30])])
    attrs = {"dtype": dtype.value, "scale": scale, "zero_point": zero}
    (got,) = check_integer("quantize", [x], [float32(x.size)], attrs, backend=backend)
    steps = edges.size
    assert np.array_equal(got[:steps], every(y)[1:])
    assert np.array_equal(got[steps : 2 * steps], every(y)[:-1])
    assert got[-5:-1].tolist() == [LIMITS[dtype][1], LIMITS[dtype][0], zero, zero]
    near(got[2 * steps : -5], between.astype(np.float64), y, 0.5 + 1e-4)
    (expected,) = litert_integer("QUANTIZE", [x[:-5]], [float32(x.size - 5)], [y.with_shape((x.size - 5,))])
    np.testing.assert_array_equal(got[:-5], expected)


@seeds
@every_width
@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.value)
def test_requantize(source: DType, dtype: DType, seed: int, backend: str) -> None:
    x = Draw(seed, source).type(256)
    y = Draw(seed + 100, dtype).type(256)
    assert x.quantization is not None and y.quantization is not None
    if seed == 0:
        y = quantized(dtype, (256,), x.quantization.scale[0], LIMITS[dtype][0] + 128)
    assert y.quantization is not None
    attrs = {
        "dtype": dtype.value,
        "scale": y.quantization.scale[0],
        "zero_point": y.quantization.zero_point[0],
    }
    values = every(x)
    (got,) = check_integer("quantize", [values], [x], attrs, backend=backend)
    near(got, reals(values, x), y, 1.01)
    (expected,) = litert_integer("QUANTIZE", [values], [x], [y], version=2, reference=False)
    np.testing.assert_array_equal(got, expected)


@both
@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.value)
@pytest.mark.parametrize("count", [7, 16, 29, 1023])
def test_requantize_sends_halves_where_litert_does(
    count: int, source: DType, dtype: DType, backend: str
) -> None:
    x = quantized(source, (count,), 0.25, LIMITS[source][0] + 200)
    y = quantized(dtype, (count,), 2.0, LIMITS[dtype][0] + 100)
    attrs = {"dtype": dtype.value, "scale": 2.0, "zero_point": LIMITS[dtype][0] + 100}
    values = stored(count, x)
    (got,) = check_integer("quantize", [values], [x], attrs, backend=backend)
    (expected,) = litert_integer("QUANTIZE", [values], [x], [y], version=2, reference=False)
    np.testing.assert_array_equal(got, expected)
    (away,) = litert_integer("QUANTIZE", [values], [x], [y], version=2)
    whole = count - count % 16
    assert np.array_equal(got[whole:], away[whole:])
    assert (got[:whole] != away[:whole]).any() == (whole > 0)


@seeds
@every_width
def test_dequantize(seed: int, dtype: DType, backend: str) -> None:
    x = Draw(seed, dtype).type(77)
    values = stored(seed, x)
    (got,) = check_integer("dequantize", [values], [x], backend=backend)
    assert got.dtype == np.float32
    (expected,) = litert_integer("DEQUANTIZE", [values], [x], [float32(77)], version=2)
    np.testing.assert_array_equal(got, expected)


def test_dequantize_along_an_axis_and_of_16_bits(backend: str) -> None:
    x = TensorType(DType.INT8, (2, 3), Quantization((0.5, 2.0), (0, 1), 0))
    values = np.full((2, 3), 4, np.int8)
    (got,) = check_integer("dequantize", [values], [x], backend=backend, host="scales differ along an axis")
    assert got.tolist() == [[2, 2, 2], [6, 6, 6]]
    short = quantized(DType.INT16, (3,), 0.5, -2)
    (got,) = check_integer("dequantize", [np.array([-2, 0, 300], np.int16)], [short], backend=backend)
    assert got.tolist() == [0, 1, 151]


def test_dequantize_widens_float16() -> None:
    model = Model()
    half = np.array([1.5, -2.0], np.float16)
    (y,) = model.add("dequantize", [model.constant("half", half)])
    assert y.type == float32(2)
    (got,) = model.operations[0].evaluate([half])
    assert got.dtype == np.float32
    assert got.tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    ("op", "type", "attrs", "message"),
    [
        ("dequantize", float32(3), {}, "must be quantised or float16, got float32"),
        (
            "quantize",
            TensorType(DType.INT32, (3,)),
            {"dtype": "int8", "scale": 1},
            "must be float32 or quantised",
        ),
        ("quantize", float32(3), {"dtype": "int64", "scale": 1}, "dtype must be one of uint8, int8, int16"),
        ("quantize", float32(3), {"dtype": "int8", "scale": 0}, "scale must be positive"),
        ("quantize", float32(3), {"dtype": "int8", "scale": 1, "zero_point": 128}, "zero_point in -128"),
    ],
)
def test_errors(op: str, type: TensorType, attrs: dict[str, Any], message: str) -> None:
    model = Model()
    with pytest.raises(ModelError, match=message):
        model.add(op, [model.input("x", type)], attrs)


FAR = (1e-44, 1e-20, 1.0, 1e20, 1e38)


@every_width
@pytest.mark.parametrize(
    "op", ["add", "mul", "prelu", "maximum", "relu6", "leaky_relu", "hard_swish", "concat"]
)
def test_scales_at_the_ends_of_float32(op: str, dtype: DType, backend: str) -> None:
    count = 2 if op in (*BINARY, "concat") else 1
    fused = {"activation": "relu6"} if op == "add" else {}
    attrs = {**attributes(op), **({"axis": 0} if op == "concat" else fused)}
    for a in FAR:
        for y in FAR:
            types = [
                quantized(dtype, (8,), a, 3),
                quantized(dtype, (8,), 1e20, -1 if dtype is DType.INT8 else 9),
            ]
            values = [stored(k, t) for k, t in enumerate(types)]
            output = Quantization((float(np.float32(y)),), (5,))
            check_integer(op, values[:count], types[:count], attrs, output, backend=backend)


@both
def test_other_ops_under_scales_at_the_ends_of_float32(dtype: DType, backend: str) -> None:
    for a in FAR:
        x = quantized(dtype, (2, 8), a, 3)
        values = stored(1, x)
        check_integer("softmax", [values], [x], backend=backend)
        check_integer("logistic", [values], [x], backend=backend)
        check_integer("dequantize", [values], [x], backend=backend)
        for y in FAR:
            output = Quantization((float(np.float32(y)),), (5,))
            check_integer("mean", [values], [x], {"axes": (1,)}, output, backend=backend)
            attrs = {"dtype": dtype.value, "scale": output.scale[0], "zero_point": 5}
            check_integer("quantize", [values], [x], attrs, backend=backend)
            check_integer("quantize", [np.float32([-1, 0, 1e30])], [float32(3)], attrs, backend=backend)
