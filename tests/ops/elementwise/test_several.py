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


def quantised(op: str, scale: float) -> tuple[Model, list[Array], Array]:
    """A model of three int8 tensors, what it is given, and the real numbers that it should find."""
    model = Model()
    scales = Quantization((0.1,), (0,)), Quantization((0.2,), (5,)), Quantization((0.1,), (-9,))
    types = [TensorType(DType.INT8, (2, 50), each) for each in scales]
    inputs = [model.input(f"x{k}", type) for k, type in enumerate(types)]
    model.output(*model.add(op, inputs, quantization=[Quantization((scale,), (1,))]))
    xs = [np.random.default_rng(k).integers(-128, 128, (2, 50)).astype(np.int8) for k in range(3)]
    pairs = zip(xs, scales, strict=True)
    reals = [(x.astype(np.float64) - s.zero_point[0]) * s.scale[0] for x, s in pairs]
    if op == "clamp":
        return model, xs, np.minimum(np.maximum(reals[0], reals[1]), reals[2])
    return model, xs, functools.reduce(FUNCTIONS[op], reals)


@pytest.mark.parametrize("op", [*FUNCTIONS, "clamp"])
def test_quantised_tensors_are_joined_as_reals(op: str, backend: str) -> None:
    """A sum of two would leave int8, which holds the sum of three."""
    scale = 40.0 if op == "mul_n" else 0.5
    model, xs, wanted = quantised(op, scale)
    with model.compile(backend) as compiled:
        assert [p.backend for p in compiled.placement] == ["cpu"]
        steps = np.clip(np.round(wanted / scale) + 1, -128, 127)
        assert np.abs(compiled(*xs) - steps).max() <= 1


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
