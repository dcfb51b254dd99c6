"""Integer arithmetic of functions of two tensors: the GPU, the real result, and LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.call import Call
from gpunn.ops.elementwise.binary_integer import COMPARISONS
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.fixed_point.pair_tables import A_CALL, by_pairs
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.elementwise.test_quantized_unary import UNARY
from tests.ops.integer_checks import check_integer, computed, litert_integer
from tests.ops.quantized import SEEDS, WIDTHS, Draw, both, every_width, near, quantized, reals, seeds, stored
from tests.pairwise import pairwise

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


@pytest.mark.sample(3)
@pytest.mark.parametrize(("op", "dtype", "seed"), pairwise([*BINARY], WIDTHS, SEEDS))
def test_binary(op: str, dtype: DType, seed: int, backend: str) -> None:
    draw = Draw(seed, dtype)
    for shapes in SHAPES[seed % 2 :: 2]:
        types = [draw.type(*shape) for shape in shapes]
        y = draw.type(*shapes[0], low=0.02)
        values = [draw.values(t) for t in types]
        (got,) = check_integer(op, values, types, {}, y.quantization, backend=backend)
        near(got, BINARY[op](*(reals(v, t) for v, t in zip(values, types, strict=True))), y, 1.01)


@pytest.mark.parametrize("op", ["mul", "prelu"])
@pytest.mark.parametrize("zeros", [(100, -100), (2**15 - 1, -(2**15)), (-(2**15), -(2**15)), (-20_000, 5)])
@pytest.mark.parametrize("bits", [-3, 0, 1, 7, 18])
def test_products_of_int16_with_zero_points(op: str, zeros: tuple[int, int], bits: int, backend: str) -> None:
    """They have up to 33 bits, and may be shifted further to the left."""
    numbers = np.array([-(2**15), -(2**15) + 1, -300, -1, 0, 1, 77, 2**15 - 2, 2**15 - 1], np.int16)
    values = [np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(numbers, numbers)]
    types = [quantized(DType.INT16, (81,), 2.0**-6, zero) for zero in zeros]
    y = quantized(DType.INT16, (81,), 2.0 ** (bits - 12), -9)
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


def pair(seed: int, dtype: DType, *shapes: tuple[int, ...]) -> list[TensorType]:
    """Types of two operands: of the same quantisation, of one finer than comparisons are, of any."""
    if seed < 2:
        return [quantized(dtype, s, (0.1, 0.001)[seed], 3) for s in shapes]
    draw = Draw(seed, dtype)
    return [draw.type(*s) for s in shapes]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("op", "dtype", "seed"), pairwise([*COMPARISONS], WIDTHS, SEEDS))
def test_comparisons(op: str, dtype: DType, seed: int, backend: str) -> None:
    for shapes in SHAPES[seed % 2 :: 2]:
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
    int16 = quantized(DType.INT16, (40,), 0.1)
    host = "no GPU kernel for quantised tensors"
    check_integer(op, [stored(k, int16) for k in range(2)], [int16] * 2, {}, backend=backend, host=host)


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


def test_operands_of_a_sum_of_bytes_are_rounded_down(backend: str) -> None:
    """As in LiteRT's kernel of vector instructions; to nearest, 150 + 117 would be 126 steps."""
    scales, zeros = (0.24857627, 0.3858208, 0.4556922), (133, 125, 125)
    a, b, y = (quantized(DType.UINT8, (65536,), *pair) for pair in zip(scales, zeros, strict=True))
    values = [v.reshape(-1).astype(np.uint8) for v in np.meshgrid(*[np.arange(256)] * 2, indexing="ij")]
    (expected,) = litert_integer("ADD", values, [a, b], [y], version=2, reference=False)
    (got,) = check_integer("add", values, [a, b], {}, y.quantization, backend=backend)
    np.testing.assert_array_equal(got, expected)
    assert got[150 * 256 + 117] == 127


@pytest.mark.parametrize("op", ["add", "mul", "maximum", "less", "div"])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_later_runs_look_results_up(op: str, dtype: DType) -> None:
    shapes = ((64, 40, 12), (1, 12))
    types = [quantized(dtype, shape, 0.1 * (k + 1), 3 + k) for k, shape in enumerate(shapes)]
    model = Model(op)
    operands = [model.input(name, t) for name, t in zip("ab", types, strict=True)]
    result = [] if op == "less" else [Quantization((0.2,), (5,))]
    model.output(*model.add(op, operands, quantization=result))
    given = [[stored(seed + k, t) for k, t in enumerate(types)] for seed in (1, 5, 9)]
    directly = model.operations[0]
    with model.compile("cpu") as compiled:
        for values in (*given, given[0]):  # 30,720 results each, and a table has 65,536
            facet = directly.definition.quantized
            assert facet is not None
            with np.errstate(all="ignore"):
                expected = facet.reference(directly.call(), *values)
            np.testing.assert_array_equal(compiled(*values), expected)


@pytest.mark.parametrize("side", [100, 150])  # the larger one is looked up in blocks
def test_tables_of_pairs_are_made_when_they_pay(side: int) -> None:
    made: list[int] = []

    def reference(call: Call, a: Array, b: Array) -> Array:
        made.append(np.broadcast(a, b).size)
        return np.asarray(a.astype(np.int64) - b, np.int8)

    kind = quantized(DType.INT8, (side, side), 0.1)
    call = Call("test", "test", (kind, kind), {}, (kind,))
    compute = by_pairs(lambda call: partial(reference, call))(call)
    a, b = (stored(seed, kind) for seed in (0, 1))
    for _ in range(10):
        np.testing.assert_array_equal(compute(a, b), (a.astype(int) - b).astype(np.int8))
    assert made == [side * side] * (2**16 // (side**2 + A_CALL)) + [2**16]
