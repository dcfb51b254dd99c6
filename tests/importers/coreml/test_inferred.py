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
