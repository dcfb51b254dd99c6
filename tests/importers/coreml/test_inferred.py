"""Types of operations are inferred once for each layer, unless they follow from values."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn.graph import graph
from gpunn.graph.inference import inferred
from gpunn.ops.call import Call
from gpunn.ops.op import Op
from gpunn.types import TensorType
from tests.importers.coreml.builder import constant, layer, linear, model


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops whose types the graph infers itself."""
    found: list[str] = []

    def note(definition: Op, call: Call) -> tuple[TensorType, ...]:
        found.append(definition.name)
        return inferred(definition, call)

    monkeypatch.setattr(graph, "inferred", note)
    return found


def test_types_are_inferred_once(asked: list[str]) -> None:
    made = model((2, 4, 4))
    linear(made, "x", "a", 2, 3)
    params = layer(made, "pooling", ["a"])
    params.kernelSize.extend([2, 2])
    params.valid.SetInParent()
    loaded = gpunn.load(made.SerializeToString())
    assert len(loaded.operations) > 4
    assert asked == []


def test_types_that_follow_from_values_are_inferred_by_the_graph(asked: list[str]) -> None:
    made = model((3,), exact=True)
    constant(made, "end", [4])
    layer(made, "rangeDynamic", ["end"]).stepSizeValue = 1
    loaded = gpunn.load(made.SerializeToString())
    assert asked == ["range"]
    with loaded.compile("cpu") as compiled:
        np.testing.assert_array_equal(compiled(np.zeros(3, np.float32)), [0, 1, 2, 3])


def test_what_follows_from_known_values_has_its_own_type(backend: str) -> None:
    """Elements that are not zero are looked for and cast; readers of the result have its shape."""
    made = model((3,), exact=True)
    constant(made, "c", [1, 0, 2, 3])
    layer(made, "whereNonZero", ["c"], ["places"])
    mean = layer(made, "reduceMean", ["places"])
    mean.axes.append(0)
    for name, kind in (("shape", "getShape"), ("sorted", "argSort")):
        made.description.output.add(name=name).type.multiArrayType.dataType = 65568
        layer(made, kind, ["places"], [name])
    made.description.output.add(name="places").type.multiArrayType.dataType = 65568
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        found, shape, order, places = compiled(np.zeros(3, np.float32))
    np.testing.assert_array_equal(places, [[0], [2], [3]])
    np.testing.assert_array_equal(shape, [3, 1])
    np.testing.assert_array_equal(order, [[0], [1], [2]])
    np.testing.assert_allclose(np.ravel(found), [5 / 3], rtol=2**-22)
