"""fuse_rotary_embeddings: pairs of neighbours, as EVA-02 turns them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.rotary import fuse_rotary_embeddings
from gpunn.types import float32
from tests.passes.same import expect_unchanged, ops, same
from tests.passes.test_layer_norm import add
from tests.passes.test_phases import phase
from tests.passes.test_rotary import angles, opposite

SHAPE = (2, 3, 5, 8)
Build = Callable[[Model, Operand], Operand]


def every_second(model: Model, x: Operand, first: int) -> Operand:
    outer = x.type.rank - 1
    return phase(model, x, (*(0,) * outer, first), (*(1,) * outer, 2))


def in_turn(model: Model, first: Operand, second: Operand) -> Operand:
    """Stack two tensors, so that their elements stand in turn."""
    *others, half = first.type.shape
    parts = [add(model, "reshape", o, shape=(*others, half, 1)) for o in (first, second)]
    joined = add(model, "concat", *parts, axis=-1)
    return add(model, "reshape", joined, shape=(*others, 2 * half))


def turned(model: Model, x: Operand) -> Operand:
    return in_turn(model, opposite(model, every_second(model, x, 1)), every_second(model, x, 0))


def with_turned(model: Model, x: Operand, other: Operand, *table: int) -> Operand:
    cos, sin = angles(model, *table)
    return add(model, "add", add(model, "mul", x, cos), add(model, "mul", other, sin))


def eva(model: Model, x: Operand) -> Operand:
    return with_turned(model, x, turned(model, x), 1, 1, 5, 8)


def one_angle_for_a_row(model: Model, x: Operand) -> Operand:
    return with_turned(model, x, turned(model, x), 5, 1)


def of_a_part(model: Model, x: Operand) -> Operand:
    """What is turned is a slice itself, as behind the token of a class."""
    x = phase(model, x, (0, 0, 1, 2), (1, 1, 1, 1))
    return with_turned(model, x, turned(model, x), 4, 6)


@pytest.mark.parametrize("build", [eva, one_angle_for_a_row, of_a_part])
def test_forms(build: Build, backend: str) -> None:
    model = Model()
    model.output(build(model, model.input("x", float32(*SHAPE))))
    found = ops(same(model, lambda m: optimise(m)))  # type: ignore[arg-type, return-value]
    assert "rotary_embedding" in found and not {"concat", "mul", "add"} & {*found}
    rng = np.random.default_rng(0)
    given = [rng.normal(size=i.type.shape).astype(np.float32) for i in model.inputs]
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(*given), model.evaluate(given)[0], rtol=1e-5, atol=1e-5)


def the_first_negated(model: Model, x: Operand) -> Operand:
    """(b, -a) instead of (-b, a)."""
    a, b = (every_second(model, x, k) for k in (0, 1))
    return with_turned(model, x, in_turn(model, b, opposite(model, a)), 5, 8)


def not_exchanged(model: Model, x: Operand) -> Operand:
    a, b = (every_second(model, x, k) for k in (0, 1))
    return with_turned(model, x, in_turn(model, opposite(model, a), b), 5, 8)


def halves_in_turn(model: Model, x: Operand) -> Operand:
    a, b = model.add("split", [x], {"axis": -1, "sizes": (4, 4)})
    return with_turned(model, x, in_turn(model, opposite(model, b), a), 5, 8)


def of_another_tensor(model: Model, x: Operand) -> Operand:
    return with_turned(model, x, turned(model, add(model, "tanh", x)), 5, 8)


def of_another_shape(model: Model, x: Operand) -> Operand:
    """The reshape makes columns of rows."""
    a, b = (every_second(model, x, k) for k in (0, 1))
    parts = [add(model, "reshape", o, shape=(2, 3, 5, 4, 1)) for o in (opposite(model, b), a)]
    joined = add(model, "reshape", add(model, "concat", *parts, axis=-1), shape=(2, 3, 8, 5))
    moved = add(model, "transpose", joined, perm=(0, 1, 3, 2))
    return with_turned(model, x, moved, 5, 8)


def with_one_number(model: Model, x: Operand) -> Operand:
    """The cosine has no axis."""
    y = turned(model, x)
    return add(
        model, "add", add(model, "mul", x, 0.5), add(model, "mul", y, model.constant("s", np.float32(0.5)))
    )


STAYS = with_one_number, the_first_negated, not_exchanged, halves_in_turn, of_another_tensor, of_another_shape


@pytest.mark.parametrize("build", STAYS)
def test_what_stays(build: Build) -> None:
    expect_unchanged(fuse_rotary_embeddings, build, SHAPE)
