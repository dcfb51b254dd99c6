"""Compilation.variables(): the values that variables have after runs."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import DeviceError, ModelError
from gpunn.model import Model
from gpunn.types import DType, TensorType, float32


def counters() -> Model:
    """Return a model with a sum of its inputs, a count of runs, and a variable that nothing changes."""
    model = Model("counters")
    x = model.input("x", float32(3))
    total = model.variable("total", float32(3), np.float32([1, 2, 3]))
    count = model.variable("count", TensorType(DType.INT32, (1,)))
    model.variable("fixed", float32(2), np.float32([5, 6]))
    (following,) = model.add("add", [total, x])
    model.update(total, following)
    model.update(count, *model.add("add", [count, model.constant("one", np.ones(1, np.int32))]))
    model.output(*model.add("neg", [x]))
    return model


def test_values_follow_the_runs(backend: str) -> None:
    with counters().compile(backend) as compiled:
        assert {n: v.tolist() for n, v in compiled.variables().items()} == {
            "total": [1, 2, 3],
            "count": [0],
            "fixed": [5, 6],
        }
        compiled(np.float32([1, 1, 1]))
        events = [compiled.submit(np.float32([0, 0, k])) for k in range(3)]
        found = compiled.variables()
        assert found["total"].tolist() == [2, 3, 7] and found["count"].tolist() == [4]
        assert found["total"].dtype == np.float32 and found["count"].dtype == np.int32
        found["total"][:] = 0  # a copy
        for event in events:
            event.result()
        assert compiled.variables()["total"].tolist() == [2, 3, 7]
        compiled.reset_state()
        assert compiled.variables()["total"].tolist() == [1, 2, 3]
    with pytest.raises(DeviceError, match="has been closed"):
        compiled.variables()


def test_variables_of_one_name_are_refused(backend: str) -> None:
    model = counters()
    model.variable("total", float32(1))
    with model.compile(backend) as compiled, pytest.raises(ModelError, match="share a name"):
        compiled.variables()


def test_a_model_without_variables_has_none(backend: str) -> None:
    model = Model()
    model.output(*model.add("neg", [model.input("x", float32(1))]))
    with model.compile(backend) as compiled:
        assert compiled.variables() == {}


def sums_of_a_cut_model(length: int) -> Model:
    """A variable that adds up the inputs of a model which a shape that depends on a value cuts."""
    model = Model()
    x = model.input("x", float32(length))
    total = model.variable("total", float32(length))
    (following,) = model.add("add", [total, x])
    model.update(total, following)
    model.output(*model.add("where", model.add("greater", [x, model.constant("zero", np.float32(0))])))
    return model


def test_of_several_sections(backend: str) -> None:
    """Variables go through all sections."""
    with sums_of_a_cut_model(4).compile(backend) as compiled:
        for _ in range(2):
            compiled(np.float32([1, 0, 2, 0]))
        assert compiled.variables()["total"].tolist() == [2, 0, 4, 0]


def test_values_that_state_begins_with_are_copied(backend: str) -> None:
    """Also where a shape that depends on a value cuts the model."""
    with sums_of_a_cut_model(2).compile(backend) as compiled:
        compiled(np.float32([1, 0]))
        given = np.float32([10, 10])
        compiled.reset_state({"total": given})
        given[:] = 1000
        compiled(np.float32([1, 0]))
        assert compiled.variables()["total"].tolist() == [11, 10]


def test_what_nothing_updates_keeps_its_value(backend: str) -> None:
    model = Model("settled")
    x = model.input("x", float32(3))
    first = np.array([1, 2, 3], np.float32)
    variable = model.variable("v", float32(3), first)
    model.output(*model.add("add", [x, variable]))
    with model.compile(backend) as compiled:
        compiled.reset_state({"v": first})
        with pytest.raises(ModelError, match="nothing updates variable 'v'"):
            compiled.reset_state({"v": first + 1})
        np.testing.assert_array_equal(compiled(np.zeros(3, np.float32)), first)
