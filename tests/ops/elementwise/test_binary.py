"""Element-wise ops of two tensors and broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.check import SMALL
from gpunn.ops.elementwise import binary
from gpunn.types import Array, DType, float32
from tests.ops.harness import ATOL, RTOL, check, check_litert, model_of, random

# One pair for each way of walking the operands (shaders/binary_flat.wgsl, shaders/binary_strided.wgsl).
PAIRS = (
    ((5, 7), (5, 7)),
    ((2, 4, 6), (2, 4, 6)),
    ((3, 5), ()),
    ((3, 4), (1, 1)),
    ((2, 3, 3, 8), (8,)),
    ((2, 3, 3, 7), (7,)),
    ((2, 3, 4), (1, 3, 4)),
    ((2, 3, 3, 8), (2, 1, 1, 8)),
    ((2, 3, 3, 8), (2, 3, 3, 1)),
    ((2, 3, 5, 3), (2, 1, 5, 1)),
    ((6, 1), (1, 9)),
    ((4, 1), (1, 8)),
    ((3, 1, 5, 1, 2), (1, 4, 1, 3, 2)),
    ((2, 1, 3, 1, 2, 1, 3, 1), (1, 2, 1, 3, 1, 2, 1, 3)),
    ((2, 1, 3, 1, 2, 1, 3, 1), (2, 1, 2, 1, 2, 1, 4)),
    ((1, 2, 1, 2, 1, 2, 1, 2, 1), (2, 1, 2, 1, 2, 1, 2, 1, 2)),
    ((0, 3), (1, 3)),
    ((0, 3), (3,)),
    ((5,), (0, 5)),
    ((), ()),
)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 1e30, -1e30], np.float32)
LITERT = {
    "add": "ADD",
    "bitwise_and": "STABLEHLO_AND",
    "left_shift": "STABLEHLO_SHIFT_LEFT",
    "sub": "SUB",
    "mul": "MUL",
    "div": "DIV",
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "prelu": "PRELU",
}

REALS = [line for line in binary.TABLE if DType.FLOAT32 in line.dtypes]
INTEGERS = np.array([2**31 - 1, -(2**31), 7, -7, 0, 65_537, -3, 1, -1, 2, 5], np.int32)
_LONG = [s * (2**k + d) for k in (31, 32, 33, 47, 62) for d in (-1, 0, 3) for s in (1, -1)]
WIDE = np.array([2**63 - 1, -(2**63), *INTEGERS.tolist(), *_LONG], np.int64)

lines = pytest.mark.parametrize("line", REALS, ids=lambda line: line.name)


def of_dtype(dtype: DType) -> list[str]:
    """Return the lines of the table that take a dtype."""
    return [line.name for line in binary.TABLE if dtype in line.dtypes]


def operands(line: binary.Binary, seed: int, a: tuple[int, ...], b: tuple[int, ...]) -> list[Array]:
    """Return two arrays; divisors are not near 0, so that quotients fit float32."""
    divisor = random(seed + 1, *b, low=0.5) * np.where(random(seed + 2, *b) < 0, -1, 1)
    second = divisor if line.name in ("div", "floor_div", "floor_mod") else random(seed + 1, *b)
    first = random(seed, *a)
    if line.compares:  # many equal ones
        first, second = np.round(first), np.round(second)
    return [np.abs(first) + 1 if line.name == "pow" else first, np.asarray(second, np.float32)]


def rtol(line: binary.Binary) -> float:
    """What a line promises of `operands`; of pow, 5 eps (1 + |b ln a|), where |b ln a| < 4 ln 5."""
    return RTOL * 7.5 if line.name == "pow" else RTOL


def rank_limit(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    """The reason why a pair has no kernel; nine dimensions that alternate cannot be merged."""
    return "9 dimensions" if len(a) == len(b) == 9 else ""


@pytest.mark.sample(2)
@lines
def test_broadcasting(line: binary.Binary, backend: str) -> None:
    for seed, (a, b) in enumerate(PAIRS):
        if line.name != "prelu" or np.broadcast_shapes(a, b) == a:
            inputs = operands(line, seed, a, b)
            check(line.name, inputs, backend=backend, host=rank_limit(a, b), rtol=rtol(line))


@pytest.mark.parametrize("line", binary.TABLE[:2], ids=lambda line: line.name)
def test_broadcasting_of_the_first_operand(line: binary.Binary, backend: str) -> None:
    for seed, (a, b) in enumerate(PAIRS):
        check(line.name, operands(line, seed, b, a), backend=backend, host=rank_limit(a, b))


@lines
def test_nan_and_infinities(line: binary.Binary, backend: str) -> None:
    a, b = (np.ascontiguousarray(side.reshape(-1)) for side in np.meshgrid(SPECIAL, SPECIAL))
    check(line.name, [a, b], backend=backend)


@pytest.mark.parametrize("name", of_dtype(DType.INT32))
def test_integers_wrap_around(name: str, backend: str) -> None:
    check(name, [INTEGERS[:, None], INTEGERS], backend=backend)
    check(name, [WIDE[:, None], WIDE], backend=backend)


BYTES = (
    ((5, 7), (5, 7)),
    ((5, 7), (7,)),
    ((2, 3, 8), (8,)),
    ((4, 5), (4, 1)),
    ((3, 5), ()),
    ((6, 1), (1, 9)),
)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for d in (DType.BOOL, DType.UINT8, DType.INT8) for n in of_dtype(d)]
)
def test_bytes(name: str, dtype: DType, backend: str) -> None:
    for seed, shapes in enumerate(BYTES):
        generator = np.random.default_rng(seed)
        high = 2 if dtype is DType.BOOL else 256
        a, b = (generator.integers(0, high, s).astype(np.uint8).astype(dtype.numpy) for s in shapes)
        check(name, [a, b], backend=backend)


@pytest.mark.parametrize("name", ["floor_div", "floor_mod"])
def test_floors_of_quotients_are_exact(name: str, backend: str) -> None:
    tenths = (np.arange(-2000, 2000) * np.float32(0.1)).astype(np.float32)
    check(name, [tenths, np.array([0.1], np.float32)], backend=backend)
    whole = random(1, 4000, low=-1000, high=1000).round()
    divisor = random(2, 4000, low=1, high=50).round() * np.sign(random(3, 4000))
    (y,) = check(name, [whole, divisor], backend=backend)
    expected = whole // divisor if name == "floor_div" else np.mod(whole, divisor)
    np.testing.assert_array_equal(y, expected)
    far = random(4, 4000, low=-1, high=1) * np.float32(2) ** np.arange(-60, 60).repeat(34)[:4000]
    check(name, [far.astype(np.float32), random(5, 4000, low=1e-3, high=1)], backend=backend)


def test_powers_of_all_magnitudes(backend: str) -> None:
    a = np.exp(random(1, 20_000, low=-80, high=80))
    b = random(2, 20_000, low=-3, high=3)
    error = np.abs(b * np.log(a.astype(np.float64)))  # pow's own promise, see gpunn/ops/elementwise/binary.py
    with np.errstate(over="ignore"):
        size = np.power(a.astype(np.float64), b.astype(np.float64))
    atol = ATOL + RTOL * error * np.minimum(size, np.finfo(np.float32).max)
    check("pow", [a, b], backend=backend, atol=atol)
    bases, exponents = np.array([-3, -1, -0.0, 0, 2], np.float32), np.arange(-5, 6).astype(np.float32)
    (y,) = check("pow", [bases[:, None], exponents], backend=backend, rtol=RTOL * 9)
    assert np.signbit(y[0]).tolist() == [e % 2 == 1 for e in range(-5, 6)]


def test_nan_differs_from_every_number(backend: str) -> None:
    x = np.array([np.nan, 1, np.nan, np.inf], np.float32)
    assert check("equal", [x, x], backend=backend)[0].tolist() == [False, True, False, True]
    assert check("not_equal", [x, x], backend=backend)[0].tolist() == [True, False, True, False]


def test_constant_operands(backend: str) -> None:
    check("mul", [random(0, 3, 5, 8), random(1, 8)], constants=(1,), backend=backend)
    check("sub", [random(0, 1), random(1, 5, 3)], constants=(0,), backend=backend)


@pytest.mark.parametrize("name", [line.name for line in binary.TABLE if line.fusible])
def test_fused_activation(name: str, backend: str) -> None:
    line = next(line for line in binary.TABLE if line.name == name)
    for seed, (a, b) in enumerate((((3, 8), (3, 8)), ((2, 3, 5), (2, 1, 5)))):
        check(name, operands(line, seed, a, b), {"activation": "relu6"}, backend=backend)


@pytest.mark.parametrize("activation", ["relu", "relu01", "relu1", "relu6"])
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_small_integers_wrap_around_before_the_activation(
    dtype: DType, activation: str, backend: str
) -> None:
    ends = np.iinfo(dtype.numpy)
    values = np.array([ends.min, ends.min + 1, 0, 1, 5, 100, ends.max - 1, ends.max], dtype.numpy)
    low, high = {"relu": (0, ends.max), "relu01": (0, 1), "relu1": (-1, 1), "relu6": (0, 6)}[activation]
    for name, whole in (("add", np.add.outer), ("mul", np.multiply.outer)):
        (y,) = check(name, [values[:, None], values], {"activation": activation}, backend=backend)
        wrapped = whole(values.astype(np.int64), values.astype(np.int64)).astype(dtype.numpy)
        np.testing.assert_array_equal(y, np.clip(wrapped.astype(np.int64), low, high))


@pytest.mark.parametrize("activation", ["RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("name", ["ADD", "MUL"])
def test_activations_of_small_integers_agree_with_litert(name: str, activation: str) -> None:
    """Only of int16: LiteRT takes 8 bits without a scale for quantised numbers."""
    values = np.array([-(2**15), -3, 0, 1, 5, 200, 2**15 - 1], np.int16)
    a, b = (np.ascontiguousarray(side.reshape(-1)) for side in np.meshgrid(values, values))
    own = {"RELU": "relu", "RELU6": "relu6", "RELU_N1_TO_1": "relu1"}[activation]
    options = {"fused_activation_function": activation}
    check_litert(name.lower(), [a, b], {"activation": own}, name, options, version=4)


def test_one_tensor_as_both_operands(backend: str) -> None:
    model = Model()
    x = model.input("x", float32(3, 5))
    model.output(*model.add("mul", [x, x]), *model.add("concat", [x, x], {"axis": 0}))
    value = random(0, 3, 5)
    with model.compile(backend=backend) as compilation:
        square, twice = compilation(value)
    np.testing.assert_array_equal(square, value * value)
    np.testing.assert_array_equal(twice, np.concatenate([value, value]))


def test_one_tensor_compared_with_itself(backend: str) -> None:
    """A compiler may know the answer for all numbers but NaN."""
    model = Model()
    x = model.input("x", float32(SPECIAL.size))
    names = [line.name for line in binary.TABLE if line.compares]
    model.output(*(model.add(name, [x, x])[0] for name in names))
    with model.compile(backend=backend) as compilation:
        results = compilation(SPECIAL)
    for name, result in zip(names, results, strict=True):
        same = name in ("equal", "less_equal", "greater_equal")
        expected = [(name == "not_equal") if np.isnan(value) else same for value in SPECIAL]
        assert result.tolist() == expected, name


@lines
@pytest.mark.parametrize("shape", [(1, 9, 5, 3), (20, 7, 2), (2, 4, 4, 3)], ids=str)
def test_a_number_for_each_of_few_channels(line: binary.Binary, shape: tuple[int, ...]) -> None:
    image, numbers = operands(line, 3, shape, (1, shape[-1]))
    written_out = np.array(np.broadcast_to(numbers, shape))
    reference = OPS[line.name].reference
    np.testing.assert_array_equal(reference(image, numbers), line.meaning(image, written_out))
    if line.name != "prelu":  # its second operand broadcasts to the first one
        numbers, image = operands(line, 4, (1, shape[-1]), shape)
        written_out = np.array(np.broadcast_to(numbers, shape))
        np.testing.assert_array_equal(reference(numbers, image), line.meaning(written_out, image))


def test_generated_broadcasts(backend: str) -> None:
    generator = np.random.default_rng(7)
    for seed in range(25):
        rank = int(generator.integers(1, 6))
        full = [int(n) for n in generator.choice([1, 2, 3, 4, 5, 8], rank)]
        a, b = (tuple(n if generator.random() < 0.6 else 1 for n in full) for _ in range(2))
        check(
            "add",
            [random(seed, *a), random(seed + 1, *b[int(generator.integers(0, rank)) :])],
            backend=backend,
        )


@pytest.mark.parametrize("count", [1023, 1 << 16, 65537, 65538, 65543])
def test_sizes_that_4_does_not_divide(count: int, backend: str) -> None:
    a, b = random(1, count), random(2, count)
    check("sub", [a, b], backend=backend)
    check("less", [a, b], backend=backend)
    check("abs", [a], backend=backend)
    check("select", [a < b, a, b], backend=backend)
    check("cast", [np.arange(count, dtype=np.int64)], {"dtype": "int32"}, backend=backend)
    check("add", [np.arange(count, dtype=np.int64)] * 2, backend=backend)


def test_more_groups_than_one_dimension_of_the_grid_holds(backend: str) -> None:
    check("add", [random(0, 65_535 * 64 + 65), random(1, 1)], backend=backend)


@lines
def test_agrees_with_litert(line: binary.Binary) -> None:
    for seed, (a, b) in enumerate(
        (((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (5,)), ((2, 3, 4, 5), (1, 3, 1, 5)))
    ):
        if line.name == "prelu" and len(b) == 1:
            b = (1, 1, 5)
        if line.name == "atan2":  # whose operands there have one shape
            b = a
        operand = operands(line, seed, a, b)
        check_litert(line.name, operand, {}, LITERT.get(line.name, line.name.upper()), rtol=rtol(line))


@pytest.mark.parametrize("name", sorted({*of_dtype(DType.INT32)} - {"bitwise_or"}))
def test_integers_agree_with_litert(name: str) -> None:
    """It has no kernel for bitwise_or, and none for shifts to the left that leave nothing."""
    a = np.array([7, -7, 0, 655, -3, 1, 46_341, 12], np.int32)
    divides = name in ("div", "floor_div", "floor_mod", "pow")  # LiteRT refuses 0 and negative exponents
    b = np.array([2, 3, 1, 3, 2, 7, 1, 3] if divides else [7, 3, -1, 5, -3, 0, 46_341, 9], np.int32)
    b = b % 32 if name == "left_shift" else b
    check_litert(name, [a, b], {}, LITERT.get(name, name.upper()), version=2 if name == "div" else 1)


@pytest.mark.parametrize("name", of_dtype(DType.BOOL))
def test_truth_values_agree_with_litert(name: str) -> None:
    check_litert(name, [random(0, 3, 5) > 0, random(1, 3, 5) > 0], {}, name.upper())


@pytest.mark.parametrize(
    ("op", "a", "b", "message"),
    [
        (
            "add",
            np.zeros((2, 3)),
            np.zeros((4, 3)),
            r"add: shapes \[2, 3\] and \[4, 3\] cannot be broadcast together",
        ),
        ("add", np.zeros(2), np.zeros(2, np.int32), "add: inputs must have one dtype, got float32, int32"),
        (
            "sub",
            np.zeros(2, np.uint8),
            np.zeros(2, np.uint8),
            r"sub: input 0 must be float32 .*, got uint8\[2\]",
        ),
        ("logical_and", np.zeros(2), np.zeros(2), r"logical_and: input 0 must be bool, got float32\[2\]"),
        (
            "less",
            np.zeros(2, np.bool_),
            np.zeros(2, np.bool_),
            r"less: input 0 must be float32 .*, got bool\[2\]",
        ),
        ("prelu", np.zeros((2, 1)), np.zeros(3), r"prelu: alpha must broadcast to \[2, 1\], got \[3\]"),
    ],
)
def test_errors(op: str, a: Array, b: Array, message: str) -> None:
    inputs = [x.astype(np.float32) if x.dtype == np.float64 else x for x in (a, b)]
    with pytest.raises(ModelError, match=message):
        model_of(op, inputs, {})


@pytest.mark.parametrize("special", [0.25, np.inf, -np.inf, np.nan])
def test_many_slopes_below_zero(special: float) -> None:
    x = random(0, 60, 64)
    x[0, :7] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38]
    alpha = random(1, 64)
    alpha[3:9] = special
    (y,) = check("prelu", [x, alpha], backend="cpu")
    with np.errstate(all="ignore"):
        expected = [[a * v if v < 0 else v for v, a in zip(row, alpha, strict=True)] for row in x]
    np.testing.assert_array_equal(y, expected)


def test_the_slope_of_relu_has_no_end(backend: str) -> None:
    g, y = (np.array(values, np.float32) for values in ([2, 3, 4, 5], [np.inf, 1e30, 0, 1]))
    (found,) = check("relu_gradient", [g, y], backend=backend)
    np.testing.assert_array_equal(found, [2, 3, 0, 5])
