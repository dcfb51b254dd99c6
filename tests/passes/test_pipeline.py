"""optimise: the passes together, and their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import PIPELINE, optimise
from gpunn.types import float32
from tests.passes.same import ops, same


def block(model: Model, x: Operand) -> Operand:
    """Add a pad, a convolution, a bias of another shape, an identity and an activation."""
    filters = model.constant("w", np.full((4, 3, 3, 4), 0.1, np.float32))
    bias = model.constant("b", np.arange(4, dtype=np.float32))
    (padded,) = model.add("pad", [x], {"paddings": ((0, 0), (1, 1), (1, 1), (0, 0))})
    window: dict[str, Any] = {"padding": "valid", "stride": (1, 1), "dilation": (1, 1)}
    (y,) = model.add("conv2d", [padded, filters], window)
    (shaped,) = model.add("reshape", [bias], {"shape": (1, 1, 1, 4)})
    (y,) = model.add("reshape", [y], {"shape": y.type.shape})
    (y,) = model.add("add", [y, shaped])
    model.add("tanh", [y])
    (y,) = model.add("relu6", [y])
    return y


def test_pad_convolution_bias_and_activation_become_one_operation() -> None:
    model = Model()
    y = block(model, model.input("x", float32(1, 5, 5, 4)))
    model.output(block(model, y))
    result = same(model, optimise)
    assert ops(result) == ["conv2d", "conv2d"]
    assert all(o.attrs["activation"] == "relu6" and len(o.inputs) == 3 for o in result.operations)


def test_a_second_time_changes_nothing() -> None:
    model = Model()
    model.output(block(model, model.input("x", float32(1, 5, 5, 4))))
    once = optimise(model)
    assert optimise(once).operations == once.operations


STEPS: list[tuple[str, dict[str, Any]]] = [
    ("relu", {}),
    ("tanh", {}),
    ("reshape", {"shape": (1, 4, 4, 2)}),
    ("transpose", {"perm": (0, 2, 1, 3)}),
    ("pad", {"paddings": ((0, 0),) * 4}),
    ("concat", {"axis": 0}),
]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_graphs_compute_the_same_after_all_passes(data: st.DataObject) -> None:
    model = Model()
    known = [model.input("x", float32(1, 4, 4, 2))]
    known += [
        model.constant(f"c{i}", np.full(s, i + 0.5, np.float32)) for i, s in enumerate([(1, 4, 4, 2), (2,)])
    ]
    full = [known[0], known[1]]
    for _ in range(data.draw(st.integers(1, 12))):
        kind = data.draw(st.sampled_from(["unary", "add", "bias", "conv", "padded"]))
        x = data.draw(st.sampled_from(full))
        if kind == "unary":
            op, attrs = data.draw(st.sampled_from(STEPS))
            full += model.add(op, [x], attrs)
        elif kind == "add":
            full += model.add("add", [x, data.draw(st.sampled_from(full))])
        elif kind == "bias":
            full += model.add("add", [known[2], x])
        else:
            filters = model.constant("w", np.full((2, 3, 3, 2), 0.1, np.float32))
            window: dict[str, Any] = {"padding": "same", "stride": (1, 1), "dilation": (1, 1)}
            if kind == "padded":
                (x,) = model.add("pad", [x], {"paddings": ((0, 0), (2, 0), (1, 1), (0, 0))})
                window["padding"] = "valid"
            full += model.add("conv2d", [x, filters], window)
    chosen = data.draw(st.lists(st.sampled_from(full), min_size=1, max_size=3))
    model.output(*chosen)
    for apply in (*PIPELINE, optimise):
        assert len(same(model, apply).operations) <= len(model.operations)


def test_the_next_values_of_variables_stay_the_same() -> None:
    """One that nothing else reads, one after an identity, one between two that fuse, one of constants."""
    model = Model()
    x = model.input("x", float32(2, 4))
    variables = [model.variable(f"v{k}", float32(2, 4), np.full((2, 4), k, np.float32)) for k in range(4)]
    weights = model.constant("w", np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
    (unread,) = model.add("add", [variables[0], x])
    (same_again,) = model.add("reshape", [variables[1]], {"shape": (2, 4)})
    (between,) = model.add("fully_connected", [x, weights, None])
    (y,) = model.add("relu", [between])
    (known,) = model.add("neg", [model.constant("c", np.ones((2, 4), np.float32))])
    for variable, operand in zip(variables, (unread, same_again, between, known), strict=True):
        model.update(variable, operand)
    model.output(*model.add("add", [y, variables[3]]))
    for step in PIPELINE:
        same(model, step)
    assert ops(same(model, optimise)) == ["add", "reshape", "fully_connected", "relu", "neg", "add"]
