"""rejoin: a concatenation takes a tensor itself instead of its pieces, or of what it has joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.prune import prune_unread
from gpunn.passes.rejoin import rejoin
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops, same
from tests.planning.appending import conv, dispatches, pointwise, pooled, whole


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


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_what_is_joined_already_is_taken(axis: int) -> None:
    """As in DenseNet: each layer joins the results of all before it."""
    model = Model()
    results, joined = [model.input("x", float32(2, 3, 4))], []
    for _ in range(4):
        results.append(tanh(model, results[-1]))
        joined.append(concat(model, *results, axis=axis))
    model.output(*joined)
    changed = same(model, rejoin)
    concats = [o for o in changed.operations if o.op == "concat"]
    assert [o.inputs for o in concats[1:]] == [
        (before, result) for before, result in zip(joined, results[2:], strict=False)
    ]


def test_the_longest_that_is_joined_is_taken_wherever_it_stands() -> None:
    model = Model()
    x, y, z = (model.input(name, float32(2, 3)) for name in "xyz")
    two, three = concat(model, x, y), concat(model, x, y, z)
    model.output(two, three, concat(model, z, x, y, z, x, y))
    assert same(model, rejoin).operations[-1].inputs == (z, three, two)


def test_very_many_concatenations_that_begin_alike() -> None:
    model = Model()
    x, parts = model.input("x", float32(2, 1)), [model.input(f"y{n}", float32(2, 1)) for n in range(3000)]
    pairs = [concat(model, x, part) for part in parts]
    model.output(*pairs, concat(model, x, parts[0], *parts))
    assert rejoin(model).operations[-1].inputs == (pairs[0], *parts)


def test_what_is_joined_again_is_computed_once() -> None:
    model = Model()
    x, y = (model.input(name, float32(2, 3)) for name in "xy")
    model.output(tanh(model, concat(model, concat(model, x, y), concat(model, x, y, axis=1))))
    assert ops(same(model, optimise)) == ["concat", "concat"]


@pytest.mark.parametrize("narrow", [True, False])
def test_dense_blocks_lie_in_one_tensor(narrow: bool, gpu: str) -> None:
    """Each layer stores its result where all results of the block lie.

    Without a narrow layer in between, as in ESRGAN, it reads the others there, too.
    """
    model = Model()
    x = model.input("x", float32(1, 4, 4, 8))
    results = [pooled(model, x, 8)]
    for n in range(1, 4):
        y = concat(model, *results) if n > 1 else results[0]
        if narrow:
            y = pointwise(model, y, 4)
        results.append(conv(model, y, 8))
    model.output(pooled(model, concat(model, *results), 32))
    layer = ["conv2d", "conv2d"] if narrow else ["conv2d"]
    with model.compile("webgpu") as compiled, model.compile("cpu") as cpu:
        assert dispatches(compiled) == ["max_pool2d", *layer * 3, "max_pool2d"]
        np.testing.assert_array_equal(compiled(whole(1, 4, 4, 8)), cpu(whole(1, 4, 4, 8)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("first", [1, 2])
def test_two_pieces_the_other_way_round_are_a_roll(axis: int, first: int) -> None:
    model = Model()
    x = tanh(model, model.input("x", float32(3, 4, 5)))
    left, right = split(model, x, first, x.type.shape[axis] - first, axis=axis)
    model.output(concat(model, right, left, axis=axis))
    assert ops(same(model, rejoin))[-1] == "roll"
    assert ops(same(model, optimise)) == ["tanh", "roll"]


def test_windows_that_move_along_two_axes_are_one_roll(gpu: str) -> None:
    """As in a Swin Transformer, and back; the sum behind it is computed where it stores."""
    model = Model()
    x = pooled(model, model.input("x", float32(1, 7, 8, 4)), 4)
    y = x
    for axis, count in ((1, 3), (2, 3)):
        left, right = split(model, y, count, y.type.shape[axis] - count, axis=axis)
        y = concat(model, right, left, axis=axis)
    model.output(model.add("add", [y, x])[0])
    assert ops(same(model, optimise)) == ["max_pool2d", "roll", "add"]
    with model.compile("webgpu") as compiled, model.compile("cpu") as cpu:
        assert dispatches(compiled) == ["max_pool2d", "roll+add"]
        np.testing.assert_array_equal(compiled(whole(1, 7, 8, 4)), cpu(whole(1, 7, 8, 4)))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("cut", ["unstack", "strided_slice"])
def test_all_slices_are_the_tensor(axis: int, cut: str) -> None:
    """PyTorch's stack joins slices along an axis that they have, and gives the result another shape."""
    shape = (2, 3, 4)
    for turned in (False, True):
        model = Model()
        x = model.input("x", float32(*shape))
        slices = slices_of(model, x, axis, cut)
        model.output(model.add("stack", slices[::-1] if turned else slices, {"axis": axis})[0])
        found = rejoin(same(model, rejoin))
        assert ops(prune_unread(found)) == ["strided_slice" if turned else "reshape"]
    model = Model()
    model.output(concat(model, *slices_of(model, model.input("x", float32(*shape)), axis, cut), axis=0))
    expected = ["reshape"] if axis == 0 else ops(model)
    assert ops(prune_unread(same(model, rejoin))) == expected


def slices_of(model: Model, x: Operand, axis: int, cut: str) -> list[Operand]:
    if cut == "unstack":
        return [*model.add("unstack", [x], {"axis": axis})]
    made = []
    for place in range(x.type.shape[axis]):
        begin, end = [0] * x.type.rank, [*x.type.shape]
        begin[axis], end[axis] = place, place + 1
        ends = {"begin": tuple(begin), "end": tuple(end), "strides": (1,) * x.type.rank}
        made.append(model.add("strided_slice", [x], {**ends, "shrink_axes": (axis,)})[0])
    return made


def reversed_pieces(model: Model, x: Operand) -> Operand:
    return concat(model, *split(model, x, 1, 2, 3)[::-1])


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


def some_slices(model: Model, x: Operand) -> Operand:
    return model.add("stack", model.add("unstack", [x], {"axis": 0})[:2], {"axis": 0})[0]


def slices_in_another_order(model: Model, x: Operand) -> Operand:
    a, b, *others = model.add("unstack", [x], {"axis": 1})
    return model.add("stack", [b, a, *others], {"axis": 1})[0]


def slices_along_another_axis(model: Model, x: Operand) -> Operand:
    return model.add("stack", model.add("unstack", [x], {"axis": 0}), {"axis": 1})[0]


def joined_in_another_order(model: Model, x: Operand) -> Operand:
    y = tanh(model, x)
    return concat(model, concat(model, y, x, axis=0), x, y, axis=0)


@pytest.mark.parametrize(
    "build",
    [
        reversed_pieces,
        some_pieces,
        pieces_of_another_axis,
        pieces_apart,
        a_piece_as_long_as_the_tensor,
        some_slices,
        slices_in_another_order,
        slices_along_another_axis,
        joined_in_another_order,
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


def test_what_is_rescaled_as_it_is_joined_stays() -> None:
    one, other = Quantization((0.1,), (3,)), Quantization((0.2,), (5,))
    model = Model()
    x, y = (model.input(name, TensorType(DType.UINT8, (2, 4), one)) for name in "xy")
    (two,) = model.add("concat", [x, y], {"axis": 1}, quantization=[other])
    model.output(two, concat(model, x, y, x, axis=1))
    assert rejoin(model).operations[1].inputs == (x, y, x)


def test_what_is_clipped_as_it_is_joined_stays() -> None:
    model = Model()
    x, y = (model.input(name, float32(2, 4)) for name in "xy")
    (two,) = model.add("concat", [x, y], {"axis": 1, "activation": "relu"})
    model.output(two, concat(model, x, y, x, axis=1))
    assert same(model, rejoin).operations[1].inputs == (x, y, x)


def test_pieces_that_are_rescaled_stay() -> None:
    one, other = Quantization((0.1,), (3,)), Quantization((0.2,), (5,))
    model = Model()
    x = model.input("x", TensorType(DType.UINT8, (2, 8), one))
    parts = model.add("split", [x], {"axis": 1, "sizes": (4, 4)}, quantization=[other, other])
    model.output(concat(model, *parts))
    assert ops(same(model, rejoin)) == ["split", "concat"]
    assert rejoin(model).operations[1].inputs == tuple(parts)
