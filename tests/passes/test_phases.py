"""join_phases: concatenations of all phases of a tensor become a transposition, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.phases import join_phases
from gpunn.passes.prune import prune_unread
from gpunn.types import DType, Quantization, Shape, TensorType, float32
from tests.passes.same import expect_unchanged, ops, same
from tests.passes.test_layer_norm import add

SHAPE = (2, 4, 6, 3)
Build = Callable[[Model, Operand], Operand]


def phase(model: Model, x: Operand, offsets: Shape, steps: Shape, end: Shape | None = None) -> Operand:
    attrs = {"begin": offsets, "end": end or x.type.shape, "strides": steps, "shrink_axes": ()}
    return add(model, "strided_slice", x, **attrs)


def joined(model: Model, parts: Sequence[Operand], axis: int) -> Operand:
    return model.add("concat", [*parts], {"axis": axis})[0]


def swin(model: Model, x: Operand) -> Operand:
    """Rows change soonest, and each phase is a slice of one of rows."""
    rows = [phase(model, x, (0, k, 0, 0), (1, 2, 1, 1)) for k in range(2)]
    return joined(model, [phase(model, o, (0, 0, k, 0), (1, 1, 2, 1)) for k in range(2) for o in rows], 3)


def columns_first(model: Model, x: Operand) -> Operand:
    """As space_to_depth has them."""
    places = [(0, row, column, 0) for row in range(2) for column in range(3)]
    return joined(model, [phase(model, x, place, (1, 2, 3, 1)) for place in places], -1)


def focus(model: Model, x: Operand) -> Operand:
    """With the channels before the pixels."""
    x = add(model, "reshape", x, shape=(2, 3, 4, 6))
    places = [(0, 0, row, column) for column in range(2) for row in range(2)]
    return joined(model, [phase(model, x, place, (1, 1, 2, 2)) for place in places], 1)


def every_third_column(model: Model, x: Operand) -> Operand:
    return joined(model, [phase(model, x, (0, 0, k, 0), (1, 1, 3, 1)) for k in range(3)], 0)


def slices_of_slices_of_one_axis(model: Model, x: Operand) -> Operand:
    """Every second row of every second one is every fourth one."""
    twice = [phase(model, x, (0, k, 0, 0), (1, 2, 1, 1)) for k in range(2)]
    parts = [phase(model, twice[k % 2], (0, k // 2, 0, 0), (1, 2, 1, 1)) for k in range(4)]
    return joined(model, parts, 2)


FORMS = swin, columns_first, focus, every_third_column, slices_of_slices_of_one_axis


@pytest.mark.parametrize("build", FORMS)
def test_forms(build: Build, backend: str) -> None:
    model = Model()
    model.output(build(model, model.input("x", float32(*SHAPE))))
    found = prune_unread(same(model, join_phases))
    assert set(ops(found)) == {"reshape", "transpose"}
    given = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(given), model.evaluate([given])[0])


def test_stored_integers() -> None:
    model = Model()
    model.output(swin(model, model.input("x", TensorType(DType.INT8, SHAPE, Quantization((0.1,), (3,))))))
    assert "concat" not in ops(same(model, join_phases))


def test_one_copy_takes_the_place_of_four(gpu: str) -> None:
    model = Model()
    model.output(swin(model, add(model, "tanh", model.input("x", float32(*SHAPE)))))
    found = optimise(model)
    assert ops(found) == ["tanh", "reshape", "transpose", "reshape"]
    with model.compile(gpu) as compiled:
        assert [row.operation.op for row in compiled.plan_rows()] in (["tanh", "transpose"], ["tanh"])


def in_another_order(model: Model, x: Operand) -> Operand:
    places = [(0, 0), (0, 1), (1, 1), (1, 0)]
    return joined(model, [phase(model, x, (0, a, b, 0), (1, 2, 2, 1)) for a, b in places], 3)


def one_twice(model: Model, x: Operand) -> Operand:
    return joined(model, [phase(model, x, (0, k, 0, 0), (1, 2, 1, 1)) for k in (0, 0)], 3)


def three_of_four(model: Model, x: Operand) -> Operand:
    places = [(0, 0), (0, 1), (1, 0)]
    return joined(model, [phase(model, x, (0, a, b, 0), (1, 2, 2, 1)) for a, b in places], 3)


def not_to_the_end(model: Model, x: Operand) -> Operand:
    return joined(model, [phase(model, x, (0, 0, k, 0), (1, 1, 2, 1), (2, 4, 4, 3)) for k in range(2)], 3)


def of_two_tensors(model: Model, x: Operand) -> Operand:
    others = x, add(model, "tanh", x)
    return joined(model, [phase(model, o, (0, k, 0, 0), (1, 2, 1, 1)) for k, o in enumerate(others)], 3)


def along_the_same_axis(model: Model, x: Operand) -> Operand:
    return joined(model, [phase(model, x, (0, k, 0, 0), (1, 2, 1, 1)) for k in range(2)], 1)


def that_does_not_divide(model: Model, x: Operand) -> Operand:
    parts = [phase(model, x, (0, 0, k, 0), (1, 1, 4, 1), (2, 4, k + 1, 3)) for k in range(4)]
    return joined(model, parts, 3)


def backwards(model: Model, x: Operand) -> Operand:
    last = {"end": (None,) * 4, "shrink_axes": (), "strides": (1, 1, -2, 1)}
    parts = [add(model, "strided_slice", x, begin=(0, 0, 5 - k, 0), **last) for k in range(2)]
    return joined(model, parts, 3)


def read_elsewhere(model: Model, x: Operand) -> Operand:
    parts = [phase(model, x, (0, k, 0, 0), (1, 2, 1, 1)) for k in range(2)]
    return joined(model, [joined(model, parts, 3), parts[0]], 3)


STAYS = (
    *(in_another_order, one_twice, three_of_four, not_to_the_end, of_two_tensors, along_the_same_axis),
    *(that_does_not_divide, backwards, read_elsewhere),
)


@pytest.mark.parametrize("build", STAYS)
def test_what_stays(build: Build) -> None:
    expect_unchanged(join_phases, build, SHAPE)
