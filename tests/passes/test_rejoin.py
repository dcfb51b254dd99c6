"""rejoin: a concatenation takes a tensor itself instead of all of its pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.rejoin import rejoin
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops, same


def split(model: Model, x: Operand, *sizes: int, axis: int = -1) -> Sequence[Operand]:
    return model.add("split", [x], {"sizes": sizes, "axis": axis})


def concat(model: Model, *parts: Operand, axis: int = -1) -> Operand:
    return model.add("concat", parts, {"axis": axis})[0]


def tanh(model: Model, x: Operand) -> Operand:
    return model.add("tanh", [x])[0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_pieces_that_layers_read_become_the_tensor(axis: int) -> None:
    """As in blocks of YOLO: what a layer makes of the last piece stands behind all pieces."""
    model = Model()
    x = tanh(model, model.input("x", float32(4, 5, 6)))
    sizes = (1, x.type.shape[axis] - 1)
    first, second = split(model, x, *sizes, axis=axis)
    model.output(concat(model, first, second, tanh(model, second), axis=axis))
    changed = same(model, rejoin)
    assert changed.operations[-1].inputs[0] is x
    assert ops(same(model, optimise)) == ["tanh", "split", "tanh", "concat"]


def test_what_is_joined_as_it_was_is_the_tensor() -> None:
    model = Model()
    x = model.input("x", float32(2, 6))
    model.output(tanh(model, concat(model, *split(model, x, 1, 0, 3, 2))))
    assert ops(same(model, optimise)) == ["tanh"]


def test_slices_are_pieces_too() -> None:
    model = Model()
    x = model.input("x", float32(2, 7))
    attrs = {"begin": (None, 0), "end": (None, 4), "strides": (1, 1)}
    (left,) = model.add("strided_slice", [x], attrs)
    (right,) = model.add("strided_slice", [x], {**attrs, "begin": (None, 4), "end": (None, None)})
    model.output(concat(model, tanh(model, x), left, right))
    assert ops(same(model, optimise)) == ["tanh", "concat"]


def test_pieces_of_quantised_tensors_are_rescaled_together() -> None:
    types = [TensorType(DType.UINT8, (2, 8), Quantization((scale,), (3,))) for scale in (0.1, 0.2)]
    model = Model()
    x, y = (model.input(name, type) for name, type in zip("xy", types, strict=True))
    parts = split(model, x, 4, 4)
    model.output(*model.add("concat", [*parts, y], {"axis": 1}, quantization=[types[1].quantization]))
    assert ops(same(model, optimise)) == ["concat"]


def reversed_pieces(model: Model, x: Operand) -> Operand:
    return concat(model, *split(model, x, 2, 4)[::-1])


def some_pieces(model: Model, x: Operand) -> Operand:
    return concat(model, *split(model, x, 2, 2, 2)[:2])


def pieces_of_another_axis(model: Model, x: Operand) -> Operand:
    return concat(model, *split(model, x, 3, 3), axis=0)


def pieces_apart(model: Model, x: Operand) -> Operand:
    left, right = split(model, x, 3, 3)
    return concat(model, left, tanh(model, left), right)


def a_piece_as_long_as_the_tensor(model: Model, x: Operand) -> Operand:
    """Along the last axis it has all elements, but of some rows only."""
    return concat(model, split(model, x, 2, 2, axis=0)[0], split(model, x, 2, 2, axis=0)[1])


def an_index(model: Model, x: Operand) -> Operand:
    """Its rank is another one."""
    return concat(model, *model.add("unstack", [x], {"axis": 0}), axis=0)


@pytest.mark.parametrize(
    "build",
    [
        reversed_pieces,
        some_pieces,
        pieces_of_another_axis,
        pieces_apart,
        a_piece_as_long_as_the_tensor,
        an_index,
    ],
)
def test_others_stay(build: object) -> None:
    model = Model()
    assert callable(build)
    model.output(build(model, model.input("x", float32(4, 6))))
    assert ops(same(model, rejoin)) == ops(model)
    assert all(
        new.inputs == old.inputs for new, old in zip(rejoin(model).operations, model.operations, strict=True)
    )


def test_pieces_that_are_rescaled_stay() -> None:
    one, other = Quantization((0.1,), (3,)), Quantization((0.2,), (5,))
    model = Model()
    x = model.input("x", TensorType(DType.UINT8, (2, 8), one))
    parts = model.add("split", [x], {"axis": 1, "sizes": (4, 4)}, quantization=[other, other])
    model.output(concat(model, *parts))
    assert ops(same(model, rejoin)) == ["split", "concat"]
    assert rejoin(model).operations[1].inputs == tuple(parts)
