"""Element-wise functions of three and more tensors: written in those of two, and numpy's results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.passes.expand import expand
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import check, model_of, random, type_of

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add_n": np.add,
    "mul_n": np.multiply,
    "maximum_n": np.maximum,
    "minimum_n": np.minimum,
}
every = pytest.mark.parametrize("op", FUNCTIONS)
SHAPES: list[Sequence[tuple[int, ...]]] = [
    [(3, 5)],
    [(7,), (7,)],
    [(2, 3, 4), (4,), (3, 1)],
    [(), (5, 1), (1, 6), (5, 6)],
    [(2, 0), (1,), (2, 1)],
    [(1, 3, 5, 7)] * 5,
]


@every
@pytest.mark.parametrize("shapes", SHAPES)
def test_any_number_of_tensors(op: str, shapes: Sequence[tuple[int, ...]], backend: str) -> None:
    xs = [random(k, *shape, low=-2, high=2) for k, shape in enumerate(shapes)]
    (y,) = check(op, xs, backend=backend)
    expected = functools.reduce(FUNCTIONS[op], xs)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    assert y.shape == np.broadcast_shapes(*shapes)


@every
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_wrap_around(op: str, dtype: Any, backend: str) -> None:
    bits = np.iinfo(dtype)
    xs = [np.random.default_rng(k).integers(bits.min, bits.max, (4, 3), dtype) for k in range(4)]
    (y,) = check(op, xs, backend=backend)
    np.testing.assert_array_equal(y, functools.reduce(FUNCTIONS[op], xs))


@every
def test_half(op: str, backend: str) -> None:
    xs = [random(k, 3, 4).astype(np.float16) for k in range(3)]
    with model_of(op, xs, {}).compile(backend) as compiled:
        found = np.asarray(compiled(*xs))
    expected = functools.reduce(FUNCTIONS[op], (x.astype(np.float64) for x in xs))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=4e-3, atol=4e-3)


@every
def test_what_it_is_written_in(op: str) -> None:
    pair = op.removesuffix("_n")
    for count, written in ((1, ["reshape"]), (2, [pair]), (4, [pair] * 3)):
        model = expand(model_of(op, [random(k, 3) for k in range(count)], {}))
        assert [o.op for o in model.operations] == written


SCALES = Quantization((0.1,), (0,)), Quantization((0.2,), (5,)), Quantization((0.1,), (-9,))


def quantised(op: str, scale: float, shape: tuple[int, ...] = (2, 50)) -> Model:
    """A model of three int8 tensors of SCALES; its result has zero point 1."""
    model = Model()
    types = [TensorType(DType.INT8, shape, each) for each in SCALES]
    inputs = [model.input(f"x{k}", type) for k, type in enumerate(types)]
    model.output(*model.add(op, inputs, quantization=[Quantization((scale,), (1,))]))
    return model


@pytest.mark.parametrize("op", [*FUNCTIONS, "clamp"])
def test_quantised_tensors_stand_for_reals(op: str, backend: str) -> None:
    """Small numbers, no result between two functions leaves int8; all three round to half a step."""
    scale = 40.0 if op == "mul_n" else 0.5
    xs = [np.random.default_rng(k).integers(-30, 30, (2, 50)).astype(np.int8) for k in range(3)]
    pairs = zip(xs, SCALES, strict=True)
    reals = [(x.astype(np.float64) - s.zero_point[0]) * s.scale[0] for x, s in pairs]
    clamped = np.minimum(np.maximum(reals[0], reals[1]), reals[2])
    wanted = clamped if op == "clamp" else functools.reduce(FUNCTIONS[op], reals)
    with quantised(op, scale).compile(backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        assert np.abs(compiled(*xs) - np.round(wanted / scale) - 1).max() <= 1


# Of SCALES, so that the first tensor ends at 12.7 and -12.8; the result is counted in 0.5 from 1. Worked by
# hand; between the two functions a number is rounded to 0.1 and kept within int8. Choices round twice as they
# rescale: 12.7 is 101.6 quarters of 0.5, rounded to 102, and these are 25.5 times 0.5, rounded to 26.
JOINED = {
    "add_n": [
        (127, 127, -128, 3),  # 12.7 + 24.4 is kept as 12.7, less 11.9: 0.8
        (-128, -128, 127, 3),  # -12.8 - 26.6 is kept as -12.8, plus 13.6: 0.8
        (10, 10, 1, 7),  # 1 + 1 + 1
        (3, 6, -9, 2),  # 0.3 + 0.2 + 0
    ],
    "maximum_n": [(-128, 127, -128, 27), (0, 5, -9, 1)],  # 24.4 is kept as 12.7
    "minimum_n": [(0, -128, 0, -25), (0, 5, -9, 1)],  # -26.6 is kept as -12.8
    "clamp": [(127, 5, -9, 1), (-128, 127, 127, 27), (100, 5, 127, 21)],
}


@pytest.mark.parametrize("op", JOINED)
def test_quantised_tensors_saturate_between_two_functions(op: str, backend: str) -> None:
    *inputs, wanted = np.array(JOINED[op], np.int8).T
    model = quantised(op, 0.5, wanted.shape)
    with model.compile(backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        np.testing.assert_array_equal(compiled(*inputs), wanted)
    np.testing.assert_array_equal(model.evaluate(inputs)[0], wanted)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8, DType.INT16])
@pytest.mark.parametrize("op", JOINED)
def test_quantised_meaning_is_what_a_model_computes(op: str, dtype: DType, backend: str) -> None:
    """The stored integers of the op's own meaning, for broadcast operands of every kind of scale."""
    random = np.random.default_rng(5)
    scales = random.uniform(0.05, 0.3, 4)
    zeros = [0 if dtype is DType.INT16 else int(z) for z in random.integers(0, 50, 4)]
    quantizations = [Quantization((float(s),), (z,)) for s, z in zip(scales, zeros, strict=True)]
    model, shapes = Model(), [(3, 1, 5), (7, 1), (7, 5)]
    types = [TensorType(dtype, shape, q) for shape, q in zip(shapes, quantizations, strict=False)]
    operands = [model.input(f"x{k}", type) for k, type in enumerate(types)]
    model.output(*model.add(op, operands, quantization=quantizations[3:]))
    bits = np.iinfo(dtype.numpy)
    xs = [random.integers(bits.min, bits.max + 1, shape).astype(dtype.numpy) for shape in shapes]
    with model.compile(backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        np.testing.assert_array_equal(compiled(*xs), model.evaluate(xs)[0])


def test_one_quantised_tensor_of_another_scale(backend: str) -> None:
    model, type = Model(), TensorType(DType.INT8, (3,), Quantization((0.1,), (7,)))
    x = model.input("x", type)
    model.output(*model.add("add_n", [x], quantization=[Quantization((0.2,), (0,))]))
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(np.array([7, 127, -128], np.int8)), [0, 60, -68])


@pytest.mark.parametrize(
    ("op", "written"),
    [("maximum_n", ["maximum"] * 2), ("minimum_n", ["minimum"] * 2), ("clamp", ["maximum", "minimum"])],
)
def test_choices_among_quantised_tensors_need_no_rounding(op: str, written: list[str], backend: str) -> None:
    """With one quantisation for all, stored integers are chosen, and nothing leaves the device."""
    model, type = Model(), TensorType(DType.INT8, (2, 50), Quantization((0.1,), (7,)))
    model.output(*model.add(op, [model.input(f"x{k}", type) for k in range(3)]))
    xs = [np.random.default_rng(k).integers(-128, 128, (2, 50)).astype(np.int8) for k in range(3)]
    x = xs[0]
    for other, function in zip(xs[1:], written, strict=True):
        x = FUNCTIONS[f"{function}_n"](x, other)
    with model.compile(backend) as compiled:
        assert [(p.operation.op, p.backend) for p in compiled.placement] == [(w, backend) for w in written]
        np.testing.assert_array_equal(compiled(*xs), x)


@pytest.mark.parametrize(
    "shapes", [((3, 4), (), ()), ((3, 4), (4,), (3, 1)), ((), (2,), (3, 1)), ((2, 0), (), (1,))]
)
def test_clamp(shapes: Sequence[tuple[int, ...]], backend: str) -> None:
    x, low, high = (random(k, *shape) for k, shape in enumerate(shapes))
    low, high = np.asarray(low - 1), np.asarray(high + 1)
    (y,) = check("clamp", [x, low, high], backend=backend, atol=0, rtol=0)
    np.testing.assert_array_equal(y, np.minimum(np.maximum(x, low), high))


def test_clamp_of_integers_and_of_bounds_that_cross(backend: str) -> None:
    x = np.arange(-5, 5)
    (y,) = check("clamp", [x, np.array(-2), np.array(3)], backend=backend)
    np.testing.assert_array_equal(y, [-2, -2, -2, -2, -1, 0, 1, 2, 3, 3])
    (y,) = check("clamp", [x, np.array(2), np.array(-1)], backend=backend)
    assert (y == -1).all()


def test_clamp_keeps_nan(backend: str) -> None:
    x = np.array([np.nan, 0, 5, np.inf], np.float32)
    bounds = [np.array(v, np.float32) for v in (-1, 3)]
    (y,) = check("clamp", [x, *bounds], backend=backend)
    np.testing.assert_array_equal(y, [np.nan, 0, 3, 3])


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        ("add_n", [random(0, 2), random(0, 3)], ".*cannot be broadcast"),
        ("add_n", [random(0, 2), np.zeros(2, np.int32)], "inputs must have one dtype"),
        ("mul_n", [np.zeros(2, bool)] * 2, "input 0 must be"),
        ("clamp", [random(0, 2)] * 2, r"takes inputs \(x, low, high\), got 2"),
        ("clamp", [random(0, 2), np.array(0), np.array(1)], "inputs must have one dtype"),
        ("maximum_n", [], "takes inputs"),
    ],
)
def test_errors(op: str, inputs: list[Array], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: {message}"):
        model_of(op, inputs, {})


def test_quantised_and_real_tensors_do_not_mix() -> None:
    model = Model()
    stored = model.input("q", TensorType(DType.INT8, (2,), Quantization((0.1,), (0,))))
    with pytest.raises(ModelError, match="add_n: all inputs must be quantised or none"):
        model.add("add_n", [stored, model.input("x", type_of(random(0, 2)))])
