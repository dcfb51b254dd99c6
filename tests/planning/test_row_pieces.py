"""Pieces of a tensor that normalisations read where they lie, as those of queries and keys do."""

from __future__ import annotations

from typing import Any

import pytest

from gpunn.model import Model
from gpunn.types import DType, Quantization, Shape, TensorType, float32
from tests.ops.harness import limit_device
from tests.planning.joining import PIECES, clamped, copied, values

ATOL = 1e-5  # of the general promise

OPS: list[tuple[str, dict[str, Any]]] = [
    ("softmax", {"beta": 1.0}),
    ("log_softmax", {}),
    ("l2_normalization", {}),
    ("layer_normalization", {"epsilon": 1e-3, "centred": True}),
    ("layer_normalization", {"epsilon": 1e-3, "centred": False}),
]


def pieces(shape: Shape, cut: tuple[str, dict[str, Any]], op: str, axis: int, attrs: dict[str, Any]) -> Model:
    """Make a model that normalises each piece of a tensor along an axis; cut: the op that cuts it."""
    along = {"axes": (axis,)} if op == "layer_normalization" else {"axis": axis}
    model = Model("rows of pieces")
    x = clamped(model, model.input("x", float32(*shape)))
    for piece in model.add(cut[0], [x], cut[1]):
        model.output(*model.add(op, [piece], {**along, **attrs}))
    return model


@pytest.fixture(params=[True, False], ids=["software", "hardware"])
def device(request: pytest.FixtureRequest, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the adapter pass for software, and for hardware."""
    limit_device(monkeypatch, software=request.param)


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("shape", [(3, 4, 8), (2, 5, 7), (2, 2, 300), (3, 1, 1)], ids=str)
@pytest.mark.parametrize(("op", "attrs"), OPS)
@pytest.mark.usefixtures("device")
def test_rows_are_read_where_they_are(op: str, attrs: dict[str, Any], shape: Shape, axis: int) -> None:
    model = pieces(shape, ("unstack", {"axis": 0}), op, axis, attrs)
    assert copied(model, values(model), PIECES, ATOL) == 0


@pytest.mark.parametrize(
    ("shape", "axis", "copies"),
    [((3, 4, 24), -1, 0), ((3, 4, 22), -1, 0), ((600, 512), -1, 0), ((3, 4, 24), 1, 2)],
)
@pytest.mark.parametrize(("op", "attrs"), OPS)
@pytest.mark.usefixtures("device")
def test_parts_of_rows_are_read_where_they_are(
    op: str, attrs: dict[str, Any], shape: Shape, axis: int, copies: int
) -> None:
    """Gated units normalise one half of each row; along another axis neighbours of a row are not its own."""
    model = pieces(shape, ("split", {"axis": -1, "sizes": (shape[-1] // 2,) * 2}), op, axis, attrs)
    assert copied(model, values(model), PIECES, ATOL) == copies


@pytest.mark.parametrize("columns", [8, 7])
def test_stored_integers_are_read_where_they_are(columns: int, gpu: str) -> None:
    """Rows of 4 x 7 elements begin amid a word, unless those before them fill words."""
    type = TensorType(DType.UINT8, (3, 4, columns), Quantization((0.1,), (128,)))
    model = Model("rows of stored integers")
    x = clamped(model, model.input("x", type))
    for piece in model.add("unstack", [x], {"axis": 0}):
        model.output(*model.add("softmax", [piece], {"axis": -1, "beta": 1.0}))
    assert copied(model, values(model), PIECES) == 0


def test_rows_that_one_dispatch_does_not_take_are_copied(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, max_loop_iterations=40)
    model = Model("long rows of pieces")
    x = clamped(model, model.input("x", float32(2, 3, 4000)))
    for piece in model.add("unstack", [x], {"axis": 0}):
        model.output(*model.add("softmax", [piece], {"axis": -1, "beta": 1.0}))
    assert copied(model, values(model), PIECES, ATOL) == 2
