"""if_else and while_loop: results worked out by hand, on every backend, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import DType, TensorType, float32
from tests.ops.harness import check

INT = TensorType(DType.INT32, ())
BOOL = TensorType(DType.BOOL, ())


def scaling(factor: float, *shape: int) -> Model:
    """x -> factor * x, and x."""
    model = Model(f"times {factor}")
    x = model.input("x", float32(*shape))
    model.output(*model.add("mul", [x, model.constant("factor", np.float32(factor))]), x)
    return model


def below(limit: int) -> Model:
    """(i, total) -> i < limit."""
    model = Model("below")
    i, _ = model.input("i", INT), model.input("total", INT)
    model.output(*model.add("less", [i, model.constant("limit", np.array(limit, np.int32))]))
    return model


def counting() -> Model:
    """(i, total) -> (i + 1, total + i)."""
    model = Model("counting")
    i, total = model.input("i", INT), model.input("total", INT)
    (after,) = model.add("add", [i, model.constant("one", np.array(1, np.int32))])
    model.output(after, *model.add("add", [total, i]))
    return model


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (1, 5, 3)])
@pytest.mark.parametrize("condition", [True, False])
def test_if_else(condition: bool, shape: tuple[int, ...], backend: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    attrs = {"then": scaling(2, *shape), "otherwise": scaling(-3, *shape)}
    host = "the host decides which branch runs" if backend == "webgpu" else ""
    y, same = check("if_else", [np.array(condition), x], attrs, backend=backend, host=host)
    np.testing.assert_allclose(y, x * (2 if condition else -3), rtol=1e-6)
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize(("limit", "total"), [(-1, 7), (0, 7), (1, 7), (5, 17)])
def test_while_loop(limit: int, total: int, backend: str) -> None:
    attrs = {"condition": below(limit), "body": counting()}
    host = "the host decides how often the body runs" if backend == "webgpu" else ""
    start = [np.array(0, np.int32), np.array(7, np.int32)]
    after, found = check("while_loop", start, attrs, backend=backend, host=host)
    assert (after, found) == (max(limit, 0), total)


@pytest.mark.parametrize("size", [1, 3])
def test_products_in_a_loop_are_as_precise_as_its_state(size: int) -> None:
    """In float64 a third of what a pixel is, three times; weights beside the centre are 0."""
    third = np.zeros((1, size, size, 1), np.float32)
    third[0, size // 2, size // 2] = 1 / 3
    condition, body = Model("condition"), Model("body")
    i, _ = condition.input("i", INT), condition.input("x", float32(1, 4, 4, 1))
    condition.output(*condition.add("less", [i, condition.constant("limit", np.array(3, np.int32))]))
    i, x = body.input("i", INT), body.input("x", float32(1, 4, 4, 1))
    (after,) = body.add("add", [i, body.constant("one", np.array(1, np.int32))])
    body.output(after, *body.add("conv2d", [x, body.constant("third", third)], {"padding": "same"}))
    model = Model("loop")
    state = [model.constant("zero", np.array(0, np.int32)), model.input("x", float32(1, 4, 4, 1))]
    model.output(model.add("while_loop", state, {"condition": condition, "body": body})[1])
    x64 = np.random.default_rng(0).standard_normal((1, 4, 4, 1))
    _, found = model.operations[0].evaluate([np.array(0, np.int32), x64])
    np.testing.assert_allclose(found, x64 * np.float64(np.float32(1 / 3)) ** 3, rtol=1e-15)
    assert gpunn.compare(model, 1, ["cpu"]).ok


@pytest.mark.parametrize(
    ("limit", "most", "more", "after"), [(5, 3, True, 3), (5, 5, False, 5), (2, 9, False, 2)]
)
def test_some_rounds(limit: int, most: int, more: bool, after: int, backend: str) -> None:
    attrs = {"condition": below(limit), "body": counting(), "most": most}
    start = [np.array(0, np.int32), np.array(7, np.int32)]
    found = check("some_rounds", start, attrs, backend=backend)
    assert [*map(int, found)] == [more, after, 7 + sum(range(after))]


def test_some_rounds_are_at_least_one() -> None:
    attrs = {"condition": below(3), "body": counting(), "most": 0}
    _refused("some_rounds", [INT, INT], attrs, "most must be 1 or more, got 0")


def test_loops_in_branches_and_branches_in_loops(backend: str) -> None:
    """Steps to 1 by n / 2 or 3 n + 1, decided by an if_else in the loop: 6 3 10 5 16 8 4 2 1."""

    def constant(model: Model, value: int) -> Any:
        return model.constant(str(value), np.array(value, np.int32))

    half, more = Model("half"), Model("more")
    half.output(*half.add("floor_div", [half.input("n", INT), constant(half, 2)]))
    (tripled,) = more.add("mul", [more.input("n", INT), constant(more, 3)])
    more.output(*more.add("add", [tripled, constant(more, 1)]))
    condition, body, main = Model("over 1"), Model("step"), Model("collatz")
    n, _ = condition.input("n", INT), condition.input("steps", INT)
    condition.output(*condition.add("greater", [n, constant(condition, 1)]))
    n, steps = body.input("n", INT), body.input("steps", INT)
    (odd,) = body.add("equal", [*body.add("floor_mod", [n, constant(body, 2)]), constant(body, 1)])
    (following,) = body.add("if_else", [odd, n], {"then": more, "otherwise": half})
    body.output(following, *body.add("add", [steps, constant(body, 1)]))
    start = [main.input("n", INT), constant(main, 0)]
    main.output(*main.add("while_loop", start, {"condition": condition, "body": body}))
    with main.compile(backend=backend) as compiled:
        assert compiled(np.array(6, np.int32)) == (1, 8)
        assert compiled(np.array(7, np.int32)) == (1, 16)
        assert compiled(np.array(1, np.int32)) == (1, 0)
        assert max(p.depth for p in compiled.placement) == 2
    np.testing.assert_array_equal(main.evaluate([np.array(6, np.int32)]), [1, 8])


def _refused(op: str, inputs: list[TensorType | None], attrs: dict[str, Any], reason: str) -> None:
    model = Model()
    operands = [None if t is None else model.input(f"i{k}", t) for k, t in enumerate(inputs)]
    with pytest.raises(ModelError, match=reason):
        model.add(op, operands, attrs, origin="here")


def test_wrong_branches_are_refused() -> None:
    two, three = scaling(2, 2), scaling(2, 3)
    same = {"then": two, "otherwise": two}
    _refused("if_else", [INT, float32(2)], same, r"here\): the condition must be one bool, got \(int32\[\]\)")
    _refused("if_else", [TensorType(DType.BOOL, (2,)), float32(2)], same, "must be one bool")
    _refused("if_else", [BOOL], same, r"'then' takes \(float32\[2\]\), expected \(\)")
    _refused("if_else", [BOOL, None], same, "input 1 must not be absent")
    _refused("if_else", [BOOL, float32(2)], {"then": two, "otherwise": three}, "'otherwise' takes")
    one = Model()
    one.output(one.input("x", float32(2)))
    _refused("if_else", [BOOL, float32(2)], {"then": two, "otherwise": one}, "'otherwise' gives")
    _refused("if_else", [BOOL], {"then": Model(), "otherwise": Model()}, "has no results")
    _refused("if_else", [BOOL, float32(2)], {"then": two}, "needs attribute otherwise")


def test_wrong_loops_are_refused() -> None:
    condition, body = below(3), counting()
    _refused("while_loop", [INT], {"condition": condition, "body": body}, "'condition' takes")
    _refused(
        "while_loop", [INT, INT], {"condition": body, "body": body}, "'condition' gives must be one bool"
    )
    _refused("while_loop", [INT, INT], {"condition": condition, "body": condition}, "'body' gives")
