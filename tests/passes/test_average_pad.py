"""fuse_average_pads: zeros that an average counts need no copy of the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes.average_pad import fuse_average_pads
from gpunn.types import DType, Quantization, TensorType, float32
from tests.ops.harness import EPS, random
from tests.passes.same import ops, same
from tests.passes.test_layer_norm import add

IMAGE = float32(2, 7, 6, 3)
PAIR = st.tuples(st.integers(0, 1), st.integers(0, 1))


def averaged(model: Model, x: Operand, rows: Any, columns: Any, value: float = 0.0, **window: Any) -> Operand:
    padded = add(model, "pad", x, paddings=((0, 0), rows, columns, (0, 0)), value=value)
    return add(model, "average_pool2d", padded, **{"size": (3, 2), "stride": (1, 1), **window})


@settings(max_examples=40, deadline=None)
@given(
    rows=PAIR,
    columns=PAIR,
    size=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    activation=st.sampled_from([None, "relu"]),
)
def test_pads_become_the_padding_of_the_pool(rows: Any, columns: Any, **window: Any) -> None:
    model = Model()
    model.output(averaged(model, model.input("x", IMAGE), rows, columns, **window))
    assert ops(same(model, fuse_average_pads)) == ["average_pool2d", "mul"]


def test_by_hand(backend: str) -> None:
    """Corners see 4 of 9 pixels, edges 6."""
    model = Model()
    window = {"size": (3, 3), "activation": "relu6"}
    model.output(averaged(model, model.input("x", float32(1, 3, 3, 4)), (1, 1), (1, 1), **window))
    with model.compile(backend) as compiled:
        found = compiled(np.full((1, 3, 3, 4), 9, np.float32))
    expected = np.array([[4, 6, 4], [6, 6, 6], [4, 6, 4]], np.float32)  # 9 is clipped to 6
    np.testing.assert_allclose(found[0], expected[..., None].repeat(4, -1), rtol=8 * EPS)


def test_on_every_backend(backend: str) -> None:
    model, x = Model(), random(0, *IMAGE.shape)
    model.output(averaged(model, model.input("x", IMAGE), (1, 0), (1, 1), stride=(2, 1)))
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(x), model.evaluate([x])[0], atol=8 * EPS * np.abs(x).max())


@pytest.mark.parametrize("case", ["value", "own", "whole", "channels", "result", "read", "stored", "halves"])
def test_others_stay(case: str) -> None:
    model = Model()
    type = TensorType(DType.UINT8, IMAGE.shape, Quantization((0.5,), (0,))) if case == "stored" else IMAGE
    x = model.input("x", TensorType(DType.FLOAT16, IMAGE.shape) if case == "halves" else type)
    sides = (0, 1) if case == "channels" else (0, 0)
    value, most = (1.0, 1) if case == "value" else (0.0, 3 if case == "whole" else 1)
    paddings = ((0, 0), (most, 0), (1, 1), sides)
    (padded,) = model.add("pad", [x], {"paddings": paddings, "value": value})
    window = {"size": (3, 3), "stride": (1, 1), "padding": "same" if case == "own" else "valid"}
    model.output(add(model, "average_pool2d", padded, **window))
    if case in ("result", "read"):
        model.output(padded if case == "result" else add(model, "relu", padded))
    assert fuse_average_pads(model) is model
