"""combine: pairs of one kind become one operation, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.combine import combine
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.harness import random
from tests.passes.same import ops, same

INTEGERS = np.array([[-(2**31), -7, 0], [5, 2**30, 2**31 - 1]], np.int32)


@pytest.mark.parametrize(("second", "left"), [((0, 2, 1), 1), ((1, 2, 0), 0)])
def test_transposes_become_one_or_cancel(second: tuple[int, ...], left: int) -> None:
    model = Model()
    (y,) = model.add("transpose", [model.input("x", float32(2, 3, 4))], {"perm": (2, 0, 1)})
    (y,) = model.add("transpose", [y], {"perm": second})
    model.output(*model.add("tanh", [y]))
    assert ops(same(model, combine)) == ["transpose", "tanh"]
    assert ops(same(model, optimise)) == ["transpose"] * left + ["tanh"]


def test_reshapes_become_one_or_cancel() -> None:
    model = Model()
    x = model.input("x", float32(2, 1, 4))
    (y,) = model.add("squeeze", [model.add("reshape", [x], {"shape": (8, 1)})[0]])
    (z,) = model.add("reshape", [model.add("squeeze", [x])[0]], {"shape": (2, 1, -1)})
    model.output(*model.add("tanh", [y]), *model.add("tanh", [z]))
    assert ops(same(model, combine)) == ["reshape", "reshape", "tanh", "tanh"]
    assert ops(same(model, optimise)) == ["reshape", "tanh", "tanh"]


def test_rolls_become_one_or_cancel() -> None:
    for second, left in (((0, -3), ["roll"]), ((-1, 0), [])):
        model = Model()
        x = model.input("x", float32(3, 5))
        (y,) = model.add("roll", [x], {"shifts": (1, 0)})
        (z,) = model.add("roll", [y], {"shifts": second})
        model.output(*model.add("tanh", [z]))
        assert ops(same(model, optimise)) == [*left, "tanh"]


@pytest.mark.parametrize("op", ["mean", "reduce_sum"])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_reductions_become_one(op: str, keep_dims: bool, backend: str) -> None:
    """Axes of the second are those that the first has left."""
    model = Model()
    (y,) = model.add(op, [model.input("x", float32(2, 3, 4, 5))], {"axes": (1,), "keep_dims": keep_dims})
    (y,) = model.add(op, [y], {"axes": (-1, 0), "keep_dims": keep_dims})
    model.output(y)
    (found,) = same(model, combine).operations
    assert found.attrs["axes"] == (0, 1, 3)
    x = random(0, 2, 3, 4, 5)
    with model.compile(backend) as compiled:
        expected = getattr(x.astype(np.float64), op.split("_")[-1])((0, 1, 3), keepdims=keep_dims)
        np.testing.assert_allclose(compiled(x), expected, atol=30 * 2.0**-24 * np.abs(x).sum((0, 1, 3)).max())


@pytest.mark.parametrize("case", ["keep_dims", "integers", "maxima", "mixed", "quantised"])
def test_other_reductions_stay(case: str) -> None:
    """Integers round once for each mean; a maximum shares its gradient among equal elements of each row."""
    model = Model()
    dtype = {"integers": DType.INT32, "quantised": DType.INT8}.get(case, DType.FLOAT32)
    type = TensorType(dtype, (2, 3, 4), Quantization((0.5,), (1,)) if case == "quantised" else None)
    first = "reduce_max" if case == "maxima" else "mean"
    (y,) = model.add(first, [model.input("x", type)], {"axes": (1,), "keep_dims": True})
    last = "reduce_sum" if case == "mixed" else first
    model.output(*model.add(last, [y], {"axes": (2,), "keep_dims": case != "keep_dims"}))
    assert combine(model) is model


@pytest.mark.parametrize("case", ["output", "reader"])
def test_operations_with_other_readers_stay(case: str) -> None:
    model = Model()
    (y,) = model.add("transpose", [model.input("x", float32(2, 3))], {"perm": (1, 0)})
    (z,) = model.add("transpose", [y], {"perm": (1, 0)})
    model.output(z, y if case == "output" else model.add("tanh", [y])[0])
    assert ops(same(model, combine)) == ops(model)


def integers(model: Model, op: str, x: Operand, value: Any, turned: bool = False, **attrs: Any) -> Operand:
    c = model.constant("c", np.asarray(value, np.int32))
    return model.add(op, [c, x] if turned else [x, c], attrs)[0]


@pytest.mark.parametrize("op", ["add", "mul"])
def test_constants_of_integers_become_one(op: str, backend: str) -> None:
    model = Model()
    x = model.input("x", TensorType(DType.INT32, (2, 3)))
    y = integers(model, op, x, [2**30, 3, -5])
    y = integers(model, op, y, 2**31 - 1, turned=True)
    model.output(integers(model, op, y, [[7], [-(2**31)]], activation="relu"))
    result = same(model, combine, [INTEGERS])
    assert ops(result) == [op, op]  # a row and a column would make a matrix
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(INTEGERS), _by_hand(op))


def _by_hand(op: str) -> Array:
    """Compute the same in integers of any length, and wrap the results around."""
    calculate = {"add": np.add, "mul": np.multiply}[op]
    values = INTEGERS.astype(object)
    for c in ([2**30, 3, -5], 2**31 - 1, [[7], [-(2**31)]]):
        values = calculate(values, np.array(c, object))
    wrapped = ((values + 2**31) % 2**32 - 2**31).astype(np.int64)
    return np.maximum(wrapped, 0)


KEPT = ("reals", "activation", "wider", "computed", "other")


@pytest.mark.parametrize("case", KEPT)
def test_other_constants_are_not_combined(case: str) -> None:
    model = Model()
    dtype = DType.FLOAT32 if case == "reals" else DType.INT32
    x = model.input("x", TensorType(dtype, (2, 3)))
    c = model.constant("c", np.asarray([3, 4, 5], dtype.numpy))
    larger = model.constant("w", np.ones((2, 2, 3), dtype.numpy)) if case == "wider" else c
    other = model.input("y", x.type) if case == "computed" else larger
    (y,) = model.add("add", [x, c], {"activation": "relu"} if case == "activation" else {})
    model.output(*model.add("mul" if case == "other" else "add", [y, other]))
    rng = np.random.default_rng(0)
    values = [rng.integers(-9, 9, i.type.shape).astype(i.type.dtype.numpy) for i in model.inputs]
    assert len(same(model, combine, values).operations) == 2
