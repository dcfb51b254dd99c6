"""Appended operations: stores compute the elementwise operations behind an operation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gpunn
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.pointwise import Reach, Repeat
from gpunn.types import float32
from tests.planning.appending import (
    add,
    agree,
    as_built,
    constant,
    conv,
    looked_up,
    planned_for,
    pooled,
    whole,
)

Build = Callable[[Model, Operand], Operand]


def silu(model: Model, x: Operand) -> Operand:
    return add(model, "mul", x, add(model, "logistic", x))


def hard_swish(model: Model, x: Operand) -> Operand:
    gate = add(model, "relu6", add(model, "add", x, constant(model, 1)))
    return add(model, "mul", add(model, "mul", x, gate), constant(model, 1, seed=2))


def through_shapes(model: Model, x: Operand) -> Operand:
    flat = add(model, "reshape", x, shape=(x.type.size,))
    again = add(model, "reshape", add(model, "relu", flat), shape=x.type.shape)
    return add(model, "maximum", again, add(model, "neg", x))


def chosen(model: Model, x: Operand) -> Operand:
    """A bool and an int32 between float32s."""
    low = add(model, "less", x, constant(model, 1))
    return add(
        model, "select", low, add(model, "cast", add(model, "cast", x, dtype="int32"), dtype="float32"), x
    )


@pytest.mark.parametrize("build", [silu, hard_swish, through_shapes, chosen])
def test_parts_that_come_together_again(build: Build, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("region")
    x = model.input("x", float32(1, 5, 4, 4))
    model.output(build(model, conv(model, x, 4)))
    names = agree(model, [whole(1, 5, 4, 4)], monkeypatch, exact=build is not silu)
    assert len(names) == 1


def other_reader(model: Model, x: Operand) -> list[str]:
    y = pooled(model, x, 4)
    model.output(add(model, "abs", y), add(model, "softmax", y))
    return ["max_pool2d", "abs", "softmax"]


def an_output(model: Model, x: Operand) -> list[str]:
    y = pooled(model, x, 4)
    model.output(y, add(model, "abs", y))
    return ["max_pool2d", "abs"]


def the_next_state(model: Model, x: Operand) -> list[str]:
    state = model.variable("state", x.type)
    y = pooled(model, x, 4)
    model.update(state, y)
    model.output(add(model, "add", y, state))
    return ["max_pool2d", "add"]


def only_the_first(model: Model, x: Operand) -> list[str]:
    y = add(model, "abs", pooled(model, x, 4))
    model.output(add(model, "softmax", y), add(model, "neg", y))
    return ["max_pool2d+abs", "softmax", "neg"]


def an_operand_that_is_late(model: Model, x: Operand) -> list[str]:
    early = pooled(model, x, 4)
    model.output(add(model, "add", early, add(model, "softmax", x)))
    return ["max_pool2d", "softmax+add"]


def both_from_one(model: Model, x: Operand) -> list[str]:
    left, right = model.add("split", [x], {"axis": 3, "sizes": (2, 2)})
    model.output(add(model, "mul", left, right))
    return ["mul"]  # which reads both parts of x


def broadcast_itself(model: Model, x: Operand) -> list[str]:
    mean = add(model, "mean", x, axes=(1, 2), keep_dims=True)
    model.output(add(model, "sub", x, mean))
    return ["mean", "sub"]


def of_int64(model: Model, x: Operand) -> list[str]:
    y = add(model, "cast", pooled(model, x, 4), dtype="int64")
    model.output(add(model, "cast", add(model, "neg", y), dtype="float32"))
    return ["max_pool2d", "cast", "neg", "cast"]


def a_part_of_another(model: Model, x: Operand) -> list[str]:
    left, right = add(model, "abs", pooled(model, x, 4)), add(model, "softmax", x)
    model.output(add(model, "concat", left, add(model, "neg", right), axis=2))
    return ["max_pool2d+abs", "softmax+neg"]


def made_of_parts(model: Model, x: Operand) -> list[str]:
    whole = add(model, "concat", pooled(model, x, 4), add(model, "softmax", x), axis=2)
    model.output(add(model, "neg", whole))
    return ["max_pool2d", "softmax", "neg"]


def a_long_chain(model: Model, x: Operand) -> list[str]:
    y = pooled(model, x, 4)
    for _ in range(7):
        y = add(model, "floor", add(model, "neg", y))
    model.output(y)
    return ["max_pool2d" + "+neg+floor" * 6, "neg+floor"]


@pytest.mark.parametrize(
    "build",
    [
        other_reader,
        an_output,
        the_next_state,
        only_the_first,
        an_operand_that_is_late,
        both_from_one,
        broadcast_itself,
        of_int64,
        a_part_of_another,
        made_of_parts,
        a_long_chain,
    ],
)
def test_what_is_appended(
    build: Callable[[Model, Operand], list[str]], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_built(build, (1, 4, 4, 4), monkeypatch)


def test_nothing_is_appended_across_the_host(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("host between")
    early = pooled(model, model.input("x", float32(1, 2, 2, 4)), 4)
    model.output(add(model, "add", early, looked_up(model, 1, 2, 2, 4)))
    inputs = [whole(1, 2, 2, 4), np.array([3, 1], np.int32)]
    assert agree(model, inputs, monkeypatch) == ["max_pool2d", "add"]


def test_as_many_operands_as_a_kernel_may_bind(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("many")
    x = model.input("x", float32(1, 2, 2, 4))
    y = pooled(model, x, 4)
    for k in range(4):
        y = add(model, "add", y, model.input(f"x{k}", x.type))
    model.output(y)
    inputs = [whole(1, 2, 2, 4, seed=k) for k in range(5)]
    planned_for(monkeypatch, "append", limits={"max-storage-buffers-per-shader-stage": 4})
    assert agree(model, inputs, monkeypatch) == ["max_pool2d+add+add", "add+add"]


def test_memory_of_results_between_is_not_needed(gpu: str) -> None:
    model = Model("chain")
    y = model.input("x", float32(1, 4096))
    for op in ("softmax", "neg", "square", "relu"):
        y = add(model, op, y)
    model.output(y)
    with model.compile("webgpu") as compiled:
        assert compiled.stats.arena_bytes == 2 * 4096 * 4, "the input and the result"


def test_profiles_and_placements_name_every_operation(gpu: str) -> None:
    model = Model("named")
    x = model.input("x", float32(1, 5, 5, 8))
    y = conv(model, x, 8)
    y = model.add("add", [y, x], {"activation": "relu"}, origin="the sum", names=["sum"])[0]
    model.output(y)
    found = gpunn.profile(model, backend="webgpu", runs=2)
    (row,) = found.rows
    assert [(a.op, a.activation, a.origin) for a in row.appended] == [("add", "relu", "the sum")]
    assert row.flops == 2 * (5 * 5 * 8) * (3 * 3 * 8) + 5 * 5 * 8
    assert row.bytes == 4 * (2 * 5 * 5 * 8 + 8 * 9 * 8 + 8)
    with model.compile("webgpu") as compiled:
        first, second = compiled.placement
    assert (second.backend, second.kernels, second.within) == ("webgpu", (), first.operation)
    assert second.reason == "computed where conv2d stores its result"


def test_repeats() -> None:
    assert Repeat.along((6, 4), (0, 1)) == Repeat(4)
    assert Repeat.along((6, 4), (1, 0)) == Repeat(6, inner=4)
    assert Repeat.along((2, 6, 4), (0, 1, 0)) == Repeat(6, inner=4)
    assert Repeat.along((2, 6, 4), (4, 0, 1)) == Repeat(4, every=24)
    assert Repeat.along((2, 6, 4), (8, 0, 1)) is None
    assert Repeat.along((3, 2, 6, 4), (8, 4, 0, 1)) is None
    assert Repeat.along((6,), (2,)) is None
    assert Repeat.along((), ()) == Repeat(1)
    assert [Reach.of(Repeat(n), 24) for n in (24, 1, 4, 3)] == [
        Reach.DENSE,
        Reach.FIRST,
        Reach.FOURS,
        Reach.PERIOD,
    ]
    assert Reach.of(Repeat(4, every=24), 48) is Reach.PARTS_FOURS
    assert Reach.of(Repeat(3, every=24), 48) is Reach.PARTS
    assert [Reach.of(Repeat(3, n), 24) for n in (4, 2)] == [Reach.SHARED, Reach.SPREAD]
