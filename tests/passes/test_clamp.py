"""fuse_clamps: maxima, minima, activations and changes of sign become one operation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunn.model import Model
from gpunn.ops.algebra import Clamp
from gpunn.passes import optimise
from gpunn.passes.clamp import fuse_clamps
from gpunn.types import DType, TensorType, float32
from tests.passes.same import ops, same

VALUES = [np.array([-np.inf, -9, -6, -1.5, -0.0, 0, 0.5, 1, 6, 7, np.inf, np.nan], np.float32)]
Row = list[tuple[str, float | None]]


def row(steps: Row, dtype: DType = DType.FLOAT32) -> Model:
    """Operations one after the other, each with the number that it takes, if it takes one."""
    model = Model()
    y = model.input("x", TensorType(dtype, (12,)))
    for k, (op, number) in enumerate(steps):
        c = [] if number is None else [model.constant("c", np.full((1,) * (k % 2), number, dtype.numpy))]
        (y,) = model.add(op, [*c, y] if k % 3 == 1 else [y, *c])
    model.output(y)
    return model


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([("relu", None), ("mul", -1), ("maximum", -6), ("mul", -1)], ["relu6"]),
        ([("maximum", 0), ("minimum", 6)], ["relu6"]),
        ([("minimum", 6), ("relu", None)], ["relu6"]),
        ([("neg", None), ("mul", -1), ("neg", None)], ["neg"]),
        ([("mul", -1), ("maximum", -3), ("neg", None)], ["minimum"]),
        ([("maximum", -4), ("maximum", 0)], ["relu"]),
        ([("maximum", 1), ("minimum", 2)], ["maximum", "minimum"]),
        ([("mul", -2), ("maximum", -6), ("mul", -1)], ["mul", "maximum", "mul"]),
        ([("relu", None), ("tanh", None), ("relu", None)], ["relu", "tanh", "relu"]),
        ([("maximum", math.nan), ("minimum", 6)], ["maximum", "minimum"]),
    ],
)
def test_a_row_becomes_one_operation_if_there_is_one(steps: Row, left: list[str]) -> None:
    assert ops(same(row(steps), fuse_clamps, VALUES)) == left


def test_integers_stay() -> None:
    """The negative of the least integer is the least integer."""
    steps: Row = [("mul", -1), ("maximum", -3), ("mul", -1)]
    values = [np.array([-(2**31), *range(-5, 6)], np.int32)]
    assert len(same(row(steps, DType.INT32), fuse_clamps, values).operations) == 3


def test_what_others_read_stays() -> None:
    model = row([("relu", None), ("minimum", 6.0)])
    model.output(model.operations[0].outputs[0])
    assert ops(same(model, fuse_clamps, VALUES)) == ["relu", "minimum"]


def test_a_number_for_each_channel_is_no_bound() -> None:
    model = Model()
    (y,) = model.add("relu", [model.input("x", float32(3))])
    bounds = model.constant("c", np.array([1, 2, 3], np.float32))
    model.output(*model.add("minimum", [y, bounds]))
    assert ops(same(model, fuse_clamps)) == ["relu", "minimum"]


def test_a_layer_takes_the_clamp_that_its_format_writes_in_four_operations() -> None:
    model = Model()
    weights = model.constant("w", np.eye(3, dtype=np.float32))
    (y,) = model.add("fully_connected", [model.input("x", float32(2, 3)), weights])
    for op, number in (("relu", None), ("mul", -1), ("maximum", -6), ("mul", -1)):
        c = [] if number is None else [model.constant("c", np.float32(number).reshape(()))]
        (y,) = model.add(op, [y, *c])
    model.output(y)
    (operation,) = same(model, optimise, [np.array([[-9, 2, 8], [0, 6, 7]], np.float32)]).operations
    assert operation.attrs["activation"] == "relu6"


STEPS = st.one_of(
    st.sampled_from([("neg", None), ("relu", None), ("relu6", None), ("relu1", None), ("mul", -1.0)]),
    st.tuples(st.sampled_from(["maximum", "minimum"]), st.sampled_from([-6.0, -1.0, 0.0, 1.0, 2.5, 6.0])),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=7))
def test_any_row_gives_the_same_numbers(steps: Row) -> None:
    same(row(steps), fuse_clamps, VALUES)


@pytest.mark.parametrize("sign", [1, -1])
def test_one_clamp_after_another(sign: int) -> None:
    first, second = Clamp(sign, -2, 5), Clamp(-1, -1, math.inf)
    whole = second.after(first)
    for x in (-7, -1.5, 0, 1.5, 3, 9):
        y = first.sign * min(max(x, first.low), first.high)
        y = second.sign * min(max(y, second.low), second.high)
        assert whole.sign * min(max(x, whole.low), whole.high) == y
