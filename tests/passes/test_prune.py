"""prune and bypass: fewer operations, the same function, the same outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.passes.prune import bypass_broadcasts, bypass_concats, bypass_identities, prune_unread
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops, same


def test_unread_operations_are_removed() -> None:
    model = Model()
    x = model.input("x", float32(2, 3))
    (y,) = model.add("relu", [x])
    (dead,) = model.add("tanh", [y])
    model.add("add", [dead, y])
    model.output(y)
    assert ops(same(model, prune_unread)) == ["relu"]


def test_inputs_stay_even_when_unread() -> None:
    model = Model()
    x, y = model.input("x", float32(2)), model.input("y", float32(2))
    model.add("relu", [x])
    model.output(*model.add("tanh", [y]))
    assert prune_unread(model).inputs == [x, y]


def test_a_model_without_operations() -> None:
    model = Model()
    model.output(model.input("x", float32(2)))
    assert ops(same(model, prune_unread)) == []


SHAPE = (1, 4, 4, 2)
WHOLE: Mapping[str, Any] = {"begin": (None, 0, None, 0), "end": (None, 4, None, 9), "strides": (1, 1, 1, 1)}
IDENTITIES: list[tuple[str, Mapping[str, Any]]] = [
    ("concat", {"axis": 1}),
    ("pad", {"paddings": ((0, 0),) * 4}),
    ("reshape", {"shape": SHAPE}),
    ("reshape", {"shape": (1, -1, 4, 2)}),
    ("transpose", {"perm": (0, 1, 2, 3)}),
    ("strided_slice", WHOLE),
]


@pytest.mark.parametrize(("op", "attrs"), IDENTITIES)
def test_identities_are_removed(op: str, attrs: Mapping[str, Any]) -> None:
    model = Model()
    (y,) = model.add("relu", [model.input("x", float32(*SHAPE))])
    (same_y,) = model.add(op, [y], attrs)
    model.output(*model.add("tanh", [same_y]))
    assert ops(same(model, bypass_identities)) == ["relu", "tanh"]


@pytest.mark.parametrize(("op", "attrs"), IDENTITIES)
def test_an_identity_that_computes_an_output_gives_its_name_to_the_producer(
    op: str, attrs: Mapping[str, Any]
) -> None:
    model = Model()
    (y,) = model.add("relu", [model.input("x", float32(*SHAPE))])
    (early,) = model.add("tanh", [y])
    (named,) = model.add(op, [y], attrs, names=["the answer"])
    (late,) = model.add("tanh", [y])
    model.output(named, early, late)
    assert ops(same(model, bypass_identities)) == ["relu", "tanh", "tanh"]


def test_outputs_that_are_inputs_or_each_other_keep_their_operation() -> None:
    model = Model()
    x = model.input("x", float32(2, 3))
    (of_input,) = model.add("reshape", [x], {"shape": (2, 3)})
    (y,) = model.add("relu", [x])
    (of_output,) = model.add("reshape", [y], {"shape": (2, 3)})
    (first,) = model.add("tanh", [x])
    (second,) = model.add("reshape", [first], {"shape": (2, 3)})
    (third,) = model.add("reshape", [first], {"shape": (2, 3)})
    (fourth,) = model.add("reshape", [third], {"shape": (2, 3)})
    model.output(of_input, y, of_output, second, third, fourth)
    assert ops(same(model, bypass_identities)) == ["reshape", "relu", "reshape", "tanh", "reshape", "reshape"]


def test_chains_of_identities_are_removed_at_once() -> None:
    model = Model()
    (y,) = model.add("relu", [model.input("x", float32(2, 3))])
    for _ in range(4):
        (y,) = model.add("reshape", [y], {"shape": (2, 3)})
    model.output(y)
    assert ops(same(model, bypass_identities)) == ["relu"]


CHANGES: list[tuple[str, Mapping[str, Any]]] = [
    ("concat", {"axis": 1, "activation": "relu6"}),
    ("pad", {"paddings": ((0, 0), (1, 0), (0, 0), (0, 0))}),
    ("reshape", {"shape": (4, 4, 2)}),
    ("transpose", {"perm": (0, 2, 1, 3)}),
    ("strided_slice", {**WHOLE, "begin": (None,) * 4, "end": (None,) * 4, "strides": (1, -1, 1, 1)}),
    ("squeeze", {}),
]


@pytest.mark.parametrize(("op", "attrs"), CHANGES)
def test_operations_that_change_something_stay(op: str, attrs: Mapping[str, Any]) -> None:
    model = Model()
    x = model.input("x", float32(*SHAPE))
    model.output(*model.add(op, [x], attrs))
    assert ops(same(model, bypass_identities)) == [op]


def test_many_outputs_take_linear_time() -> None:
    model = Model()
    x = model.input("x", float32(1))
    for _ in range(20_000):
        (y,) = model.add("relu", [x])
        (z,) = model.add("reshape", [y], {"shape": (1,)})
        model.output(z)
    assert len(prune_unread(bypass_identities(model)).operations) == 20_000
    assert np.all([o.op == "relu" for o in bypass_identities(model).operations])


def test_a_move_that_rescales_is_no_identity() -> None:
    model = Model()
    kind = TensorType(DType.UINT8, (2, 3), Quantization((0.5,), (10,)))
    x = model.input("x", kind)
    (y,) = model.add("concat", [x], {"axis": 0}, quantization=[Quantization((0.25,), (10,))])
    (z,) = model.add("concat", [y], {"axis": 0})
    model.output(*model.add("relu", [z]))
    assert ops(bypass_identities(model)) == ["concat", "relu"]


@pytest.mark.parametrize("op", ["add", "sub", "less", "select"])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 1, 1, 2), (4, 1)], ids=str)
def test_what_is_repeated_is_read_as_it_was(op: str, shape: tuple[int, ...]) -> None:
    model = Model()
    x, y = model.input("x", float32(*SHAPE)), model.input("y", float32(*shape))
    (repeated,) = model.add("broadcast_to", [y], {"shape": (1, 4, 4, 2)})
    (again,) = model.add("broadcast_to", [repeated], {"shape": SHAPE})
    given = [again, x] if op != "select" else [*model.add("less", [x, again]), again, x]
    model.output(*model.add(op, given))
    assert "broadcast_to" not in ops(same(model, bypass_broadcasts))


def test_what_is_repeated_for_others_stays() -> None:
    """The shape of a result comes from it, or it is a result, or its reader does not broadcast."""
    model = Model()
    x, y = model.input("x", float32(1, 4, 1, 2)), model.input("y", float32(1, 1, 1, 1))
    wide, whole, rows = (
        model.add("broadcast_to", [y], {"shape": shape})[0] for shape in (SHAPE, (1, 4, 1, 2), (1, 4, 1, 2))
    )
    model.output(*model.add("add", [x, wide]), *model.add("mul", [x, whole]), whole)
    model.output(*model.add("concat", [rows, x], {"axis": 3}))
    found = same(model, bypass_broadcasts)
    assert ops(found).count("broadcast_to") == 3
    (product,) = (o for o in found.operations if o.op == "mul")
    assert product.inputs == (x, y)


def _slice_of_joined(
    begin: Any, end: Any, strides: Any = (1, 1), shrink: Any = (), scale: float = 0.5
) -> Model:
    """Join [2, 3], [2, 4] and [2, 2] of int8 along the last axis, and take a slice."""
    model = Model()
    own = Quantization((0.5,), (3,))
    parts = [model.input(f"x{n}", TensorType(DType.INT8, (2, n), own)) for n in (3, 4, 2)]
    joined = model.add("concat", parts, {"axis": -1}, quantization=[Quantization((scale,), (3,))])
    attrs = {"begin": begin, "end": end, "strides": strides, "shrink_axes": shrink}
    model.output(*model.add("strided_slice", joined, attrs))
    return model


@pytest.mark.parametrize(
    ("begin", "end", "strides", "shrink", "part"),
    [
        ((0, 0), (2, 3), (1, 1), (), 0),
        ((None, 3), (None, 7), (1, 1), (), 1),
        ((0, 4), (1, 7), (1, 2), (), 1),
        ((0, -2), (2, None), (1, 1), (), 2),
        ((0, 6), (2, 2), (1, -1), (), 1),
        ((0, 2), (2, None), (1, -1), (), 0),
        ((0, 8), (2, 6), (1, -1), (), 2),
        ((0, 5), (0, 0), (1, 1), (0, 1), 1),
    ],
)
def test_a_slice_of_one_part_reads_that_part(
    begin: Any, end: Any, strides: Any, shrink: Any, part: int
) -> None:
    model = _slice_of_joined(begin, end, strides, shrink)
    (taken,) = same(model, bypass_concats).operations
    assert (taken.op, taken.inputs) == ("strided_slice", (model.inputs[part],))


@pytest.mark.parametrize(
    ("begin", "end", "strides"),
    [
        ((0, 0), (2, 4), (1, 1)),
        ((0, 2), (2, 9), (1, 3)),
        ((0, 7), (2, 5), (1, -1)),
        ((0, 1), (2, 1), (1, 1)),
    ],
)
def test_a_slice_of_several_parts_or_of_nothing_stays(begin: Any, end: Any, strides: Any) -> None:
    model = _slice_of_joined(begin, end, strides)
    assert bypass_concats(model) is model


def test_a_slice_of_a_part_that_is_rescaled_stays() -> None:
    model = _slice_of_joined((0, 0), (2, 3), scale=0.25)
    assert bypass_concats(model) is model


def test_a_concatenation_with_other_readers_stays() -> None:
    model = Model()
    x, z = (model.input(name, float32(2, 3)) for name in "xz")
    (joined,) = model.add("concat", [x, z], {"axis": 0})
    attrs = {"begin": (2, 0), "end": (4, 3), "strides": (1, 1), "shrink_axes": ()}
    model.output(joined, *model.add("strided_slice", [joined], attrs))
    found = same(model, bypass_concats)
    assert ops(found) == ["concat", "strided_slice"]
    assert found.operations[1].inputs == (z,)
