"""Passes that find nothing to change hand on the graph that they got."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.graph.graph import Graph
from gpunn.passes import PIPELINE, Pass, optimise
from gpunn.passes.fold import fold_constants
from gpunn.types import float32


def optimised() -> Graph:
    """A graph in which no pass finds anything any more."""
    made = Graph()
    x = made.input("x", float32(1, 4, 4, 3))
    filter = made.constant("w", np.ones((2, 1, 1, 3), np.float32))
    (y,) = made.add("conv2d", [x, filter], {"activation": "relu6"})
    made.output(*made.add("softmax", [y], {"axis": -1}))
    return optimise(made)


@pytest.mark.parametrize("step", [step for step in PIPELINE if step is not fold_constants])
def test_a_graph_without_work_for_a_pass_stays(step: Pass) -> None:
    graph = optimised()
    assert step(graph) is graph


def test_a_graph_of_the_user_is_never_handed_on() -> None:
    graph = optimised()
    assert optimise(graph) is not graph


def test_clamps_are_one_operation_when_transposes_are_removed() -> None:
    """Else each of them would have to be brought into another order."""
    names = [step.__name__ for step in PIPELINE]
    assert names.index("fuse_clamps") < names.index("arrange")
