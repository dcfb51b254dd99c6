"""Element-wise ops of one tensor, as operations and as fused activations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.elementwise import fake_quant, unary
from gpunn.types import Array, DType, float32
from tests.ops.harness import EPS, check, check_litert, model_of, random
from tests.ops.nnapi_cases import check_cases

SHAPES = ((7,), (4, 5, 7), (2, 3, 4, 5), (3, 1, 2, 1, 9), (), (0, 3), (64, 1025))
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 3.4e38, -3.4e38], np.float32
)
ATTRS: dict[str, dict[str, float]] = {
    "leaky_relu": {"alpha": 0.2},
    "fake_quant": {"min": -4, "max": 4 - 1 / 32},  # steps of 1/32: float32 knows what lies halfway
}
INTEGERS = np.array([2**31 - 1, -(2**31), 7, -7, 0, 65_537, -3], np.int32)
LITERT = {
    "relu": "RELU",
    "relu01": "RELU_0_TO_1",
    "relu1": "RELU_N1_TO_1",
    "relu6": "RELU6",
    "logistic": "LOGISTIC",
    "tanh": "TANH",
    "hard_swish": "HARD_SWISH",
    "floor": "FLOOR",
    "leaky_relu": "LEAKY_RELU",
    "gelu_tanh": "GELU",
}
FUSED_ONLY = ("sign_bit",)  # test_state.py asks LiteRT about it
# The functions that TFLite does not have, by the C library's functions of single numbers.
MATH = {
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "erf": math.erf,
    "silu": lambda x: x / (1 + math.exp(-x)),
}
OPTIONS = {
    "leaky_relu": {"alpha": 0.2},
    "gelu_tanh": {"approximate": True},
    "fake_quant": {**ATTRS["fake_quant"], "num_bits": 8},
}

REALS = [line for line in unary.TABLE if DType.FLOAT32 in line.dtypes]
lines = pytest.mark.parametrize("line", REALS, ids=lambda line: line.name)


def of_dtype(dtype: DType) -> list[str]:
    """Return the lines of the table that take a dtype."""
    return [line.name for line in unary.TABLE if dtype in line.dtypes]


def domain(line: unary.Unary) -> Array:
    """Values over all of a line's domain, dense around zero, its bounds included."""
    low, high = line.domain
    near = np.linspace(-1, 1, 201)
    return np.concatenate([np.linspace(low, high, 2001), near, near**9]).astype(np.float32)


def any_number(seed: int, count: int) -> Array:
    """float32 numbers of all magnitudes, but for the subnormal ones."""
    numbers = np.random.default_rng(seed).integers(0, 2**32, count, np.uint32).view(np.float32)
    return numbers[np.isfinite(numbers) & (np.abs(numbers) >= np.finfo(np.float32).tiny)]


@lines
def test_shapes(line: unary.Unary, backend: str) -> None:
    for seed, shape in enumerate(SHAPES):
        check(line.name, [random(seed, *shape)], ATTRS.get(line.name), backend=backend)


@lines
def test_domain(line: unary.Unary, backend: str) -> None:
    check(line.name, [domain(line)], ATTRS.get(line.name), backend=backend)


@lines
def test_nan_and_infinities(line: unary.Unary, backend: str) -> None:
    check(line.name, [SPECIAL], ATTRS.get(line.name), backend=backend)


@pytest.mark.parametrize("name", [n for n in of_dtype(DType.FLOAT32) if n not in ATTRS])
def test_numbers_of_all_magnitudes(name: str, backend: str) -> None:
    check(name, [any_number(1, 20_000)], backend=backend)


# A bound each: what the module promises of float32, where absolute errors are those of 1.
@pytest.mark.parametrize(
    ("name", "absolute", "relative"), [("erf", 0, 3), ("gelu", 2, 2), ("gelu_tanh", 2, 2), ("logistic", 0, 2)]
)
def test_float32_of_numpy_is_as_near_as_stated(name: str, absolute: float, relative: float) -> None:
    x = np.concatenate([np.linspace(-12, 12, 100_003), np.logspace(-30, 0, 1001)]).astype(np.float32)
    check(name, [x], backend="cpu", atol=absolute * EPS, rtol=relative * EPS)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_near_quarter_turns(name: str, backend: str) -> None:
    quarters = (np.arange(-3000, 3000) * (np.pi / 2)).astype(np.float32)
    check(name, [quarters], backend=backend)


def test_the_exponential_at_the_limits_of_float32(backend: str) -> None:
    last = np.float32(88.72283)
    x = np.array([last, np.nextafter(last, np.float32(99)), -87.2, -87.4, -104], np.float32)
    (y,) = check("exp", [x], backend=backend)
    assert np.isfinite(y).tolist() == [True, False, True, True, True]


def test_signs_of_zero(backend: str) -> None:
    x = np.array([0.0, -0.0], np.float32)
    assert check("rsqrt", [x], backend=backend)[0].tolist() == [np.inf, -np.inf]
    for name in ("neg", "sqrt", "ceil", "round"):
        (y,) = check(name, [x], backend=backend)
        assert np.signbit(y).tolist() == ([True, False] if name == "neg" else [False, True])


@pytest.mark.parametrize("alpha", [0.0, 1e-30, 0.3, 1.0, 1.5, -0.5])
def test_slopes_below_zero(alpha: float, backend: str) -> None:
    x = np.concatenate([domain(unary.ACTIVATIONS["relu"]), SPECIAL])
    (y,) = check("leaky_relu", [x], {"alpha": alpha}, backend=backend)
    with np.errstate(all="ignore"):
        expected = [np.float32(alpha) * v if v < 0 else v for v in x]
    np.testing.assert_allclose(y, expected, rtol=5 * EPS, atol=1e-30)


@pytest.mark.parametrize("alpha", [1e-46, 1e-30, 1.0])
def test_a_slope_below_zero_leaves_what_is_above(alpha: float, backend: str) -> None:
    """Also where it is 0 in float32, and 0 times an infinity is no number."""
    (y,) = check("leaky_relu", [np.array([np.inf, 2, 0], np.float32)], {"alpha": alpha}, backend=backend)
    assert y.tolist() == [np.inf, 2, 0]


def test_halves_are_rounded_to_even(backend: str) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 8388607.5], np.float32)
    assert check("round", [x], backend=backend)[0].tolist() == [0, 2, 2, 0, -2, 8388608]


@pytest.mark.parametrize("name", of_dtype(DType.INT32))
def test_integers(name: str, backend: str) -> None:
    check(name, [INTEGERS], backend=backend)


@pytest.mark.parametrize("name", of_dtype(DType.BOOL))
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 8), ()])
def test_truth_values(name: str, shape: tuple[int, ...], backend: str) -> None:
    check(name, [random(0, *shape) > 0], backend=backend)


@pytest.mark.parametrize(("bits", "narrow"), [(8, False), (8, True), (4, False), (16, True)])
def test_fake_quant_keeps_its_own_values(bits: int, narrow: bool, backend: str) -> None:
    low, high, step, _ = fake_quant.snapped_range(-1.0, 2.0, 2**bits - 1 - narrow)
    values = np.linspace(low, high, 2**bits - narrow)
    x = (values + 0.3 * step).astype(np.float32)
    attrs = {"min": -1.0, "max": 2.0, "num_bits": bits, "narrow_range": narrow}
    (y,) = check("fake_quant", [x], attrs, backend=backend)
    np.testing.assert_allclose(y, values, atol=1e-6)
    assert low <= 0 <= high and 0 in y


@pytest.mark.parametrize("name", sorted(unary.ACTIVATIONS))
def test_fused_activation(name: str, backend: str) -> None:
    x = np.concatenate([domain(unary.ACTIVATIONS[name]), SPECIAL])
    check("add", [x, np.zeros(1, np.float32)], {"activation": name}, backend=backend)


@pytest.mark.parametrize("name", [a.name for a in unary.ACTIVATIONS.values() if a.integer])
def test_fused_activation_of_integers(name: str, backend: str) -> None:
    x = np.arange(-9, 10, dtype=np.int32)
    check("add", [x, np.ones(1, np.int32)], {"activation": name}, backend=backend)


@pytest.mark.parametrize(
    "line", [line for line in REALS if line.name not in (*FUSED_ONLY, *MATH)], ids=lambda line: line.name
)
def test_agrees_with_litert(line: unary.Unary) -> None:
    x = domain(line)[:2000].reshape(4, 5, 10, 10)
    operator = LITERT.get(line.name, line.name.upper())
    check_litert(line.name, [x], ATTRS.get(line.name, {}), operator, OPTIONS.get(line.name))


@pytest.mark.parametrize("name", MATH)
def test_agrees_with_the_c_library(name: str, backend: str) -> None:
    low, high = {"acosh": (1, 9e4), "atanh": (-0.999, 0.999), "silu": (-5, 80)}.get(name, (-80, 80))
    x = np.concatenate([np.linspace(low, high, 501), 1 + np.geomspace(1e-6, 8, 101)]).astype(np.float32)
    x = x[(x >= low) & (x <= high)]
    (y,) = check(name, [x], backend=backend)
    np.testing.assert_allclose(y, [MATH[name](v) for v in x.tolist()], rtol=8 * EPS)


@pytest.mark.parametrize("name", ["sinh", "asinh", "atanh", "erf", "acosh"])
def test_small_results_are_accurate(name: str, backend: str) -> None:
    """About eight operations stand between argument and result, each good to one eps or less."""
    x = np.geomspace(1e-30, 0.9, 3001)
    arguments = (1 + x[x > 1e-7] if name == "acosh" else np.concatenate([x, -x])).astype(np.float32)
    check(name, [arguments], backend=backend, atol=0, rtol=8 * EPS)


@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_reach_the_largest_number(name: str, backend: str) -> None:
    """exp(x) overflows at 88.72, half of it only at 89.416."""
    (y,) = check(name, [np.array([88.9, 89.41598, 89.417], np.float32)], backend=backend)
    assert np.isfinite(y).tolist() == [True, True, False]
    assert y[1] > 3.39e38


def test_hand_worked_numbers(backend: str) -> None:
    """sinh(ln 2) = 3/4, cosh(ln 2) = 5/4, atanh(3/5) = ln 2, and their inverses; erf from tables."""
    log2 = math.log(2)
    for name, x, y in (
        ("sinh", log2, 0.75),
        ("cosh", log2, 1.25),
        ("asinh", 0.75, log2),
        ("acosh", 1.25, log2),
        ("atanh", 0.6, log2),
        ("erf", 1, 0.8427007929),
        ("erf", 0.5, 0.5204998778),
        ("erf", 2, 0.9953222650),
    ):
        (found,) = check(name, [np.array([x], np.float32)], backend=backend)
        assert abs(found[0] - y) <= 4 * EPS, name


def test_edges_of_inverse_functions(backend: str) -> None:
    x = np.array([1, -1, 1.0000001, 0.99999994, 0, -0.0], np.float32)
    (y,) = check("atanh", [x], backend=backend)
    assert y[:2].tolist() == [np.inf, -np.inf]
    assert np.isnan(y[2])
    assert np.signbit(y[4:]).tolist() == [False, True]
    (y,) = check("acosh", [x], backend=backend)
    assert y[0] == 0
    assert np.isnan(y[[1, 3, 4]]).all()


@pytest.mark.parametrize("name", [n for n in of_dtype(DType.INT32) if n not in ("sign", "square")])
def test_integers_agree_with_litert(name: str) -> None:
    check_litert(name, [INTEGERS[2:]], {}, name.upper(), version=5 if name == "abs" else 1)


def test_truth_values_agree_with_litert() -> None:
    check_litert("logical_not", [random(0, 3, 5) > 0], {}, "LOGICAL_NOT")


@pytest.mark.parametrize("name", ["floor", "logistic", "relu", "relu1", "relu6", "tanh"])
def test_conformance(name: str, backend: str) -> None:
    check_cases(name.upper(), name, lambda x: ([x], {}), backend)


def test_reference_keeps_dtype() -> None:
    for line in REALS:
        for dtype in (np.float16, np.float32, np.float64):
            with np.errstate(divide="ignore"):  # atanh(1)
                y = line.meaning(np.ones((2, 3), dtype), **ATTRS.get(line.name, {}))
            assert (y.dtype, y.shape) == (dtype, (2, 3)), line.name
    assert unary.apply_activation(np.ones(2, np.int32), "relu6").dtype == np.int32
    assert unary.apply_activation(np.ones(2, np.float32), None).dtype == np.float32


@lines
def test_result_has_the_type_of_the_input(line: unary.Unary) -> None:
    operation = model_of(line.name, [random(0, 2, 3)], ATTRS.get(line.name, {})).operations[0]
    assert operation.outputs[0].type == float32(2, 3)


@pytest.mark.parametrize(
    ("op", "dtype", "attrs", "message"),
    [
        ("relu", np.int32, {}, r"relu: input 0 must be float32 or float16, got int32\[2\]"),
        ("tanh", np.bool_, {}, r"tanh: input 0 must be float32 or float16, got bool\[2\]"),
        ("relu", np.float32, {"alpha": 1.0}, "relu: has no attribute alpha"),
        ("leaky_relu", np.float32, {}, "leaky_relu: needs attribute alpha"),
        ("logical_not", np.float32, {}, r"logical_not: input 0 must be bool, got float32\[2\]"),
        ("exp", np.int32, {}, r"exp: input 0 must be float32 or float16, got int32\[2\]"),
        ("fake_quant", np.float32, {"min": 1, "max": 2}, "fake_quant: min and max must be finite with 0"),
        (
            "fake_quant",
            np.float32,
            {"min": 0, "max": 2, "num_bits": 17},
            "fake_quant: num_bits must be 2 ... 16, got 17",
        ),
        ("leaky_relu", np.float32, {"alpha": "x"}, "leaky_relu: alpha must be a number, got 'x'"),
        ("add", np.float32, {"activation": "gelu"}, "add: activation must be one of .*relu6.*, got 'gelu'"),
        (
            "add",
            np.int32,
            {"activation": "tanh"},
            r"add: activation tanh needs a float tensor, got int32\[2\]",
        ),
    ],
)
def test_errors(op: str, dtype: type, attrs: dict[str, object], message: str) -> None:
    x: Array = np.zeros(2, dtype)
    with pytest.raises(ModelError, match=message):
        model_of(op, [x, x] if op == "add" else [x], attrs)


def test_number_of_inputs() -> None:
    x = np.zeros(2, np.float32)
    with pytest.raises(ModelError, match=r"relu: takes inputs \(x\), got 2"):
        model_of("relu", [x, x], {})


def test_slopes_beyond_float32_are_infinite(backend: str) -> None:
    (y,) = check("leaky_relu", [np.array([-1, 2], np.float32)], {"alpha": 1e39}, backend=backend)
    assert y.tolist() == [-np.inf, 2]
