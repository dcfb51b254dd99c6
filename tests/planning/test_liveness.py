"""Liveness: the last operation that needs each tensor."""

from __future__ import annotations

import numpy as np

from gpunn.model import Model
from gpunn.planning.liveness import last_uses
from gpunn.types import float32


def test_last_uses() -> None:
    model = Model("branches")
    x, state = model.input("x", float32(2)), model.variable("state", float32(2))
    (a,) = model.add("relu", [x])
    first, second = model.add("split", [a], {"axis": 0, "sizes": (1, 1)})
    (b,) = model.add("add", [a, model.constant("c", np.ones(2, np.float32))])
    (following,) = model.add("add", [b, state])
    model.update(state, following)
    model.output(first, b)
    relu, split, add, last = model.operations
    found = last_uses(model)
    assert found[relu] == [x]
    assert found[split] == [second], "nothing reads it"
    assert found[add] == [a], "two operations read it; constants stay"
    assert found[last] == [state], "outputs and the next values of variables stay"
