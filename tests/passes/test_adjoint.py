"""fold_adjoints: products of matrices transpose by themselves what is transposed before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.adjoint import fold_adjoints
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops, same


def add(model: Model, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs)[0]


def moved(model: Model, x: Operand, *perm: int) -> Operand:
    return add(model, "transpose", x, perm=perm)


def given(model: Model, *shape: int, name: str = "x") -> Operand:
    return add(model, "tanh", model.input(name, float32(*shape)))


@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)])
def test_each_operand(transposed: tuple[bool, bool], adjoint: tuple[bool, bool]) -> None:
    model, matrices = Model(), list[Operand]()
    for name, shape, turned, taken in zip("ab", ((3, 4), (4, 5)), transposed, adjoint, strict=True):
        x = given(model, 2, *(shape[::-1] if turned != taken else shape), name=name)
        matrices.append(moved(model, x, 0, 2, 1) if turned else x)
    model.output(add(model, "batch_matmul", *matrices, adj_a=adjoint[0], adj_b=adjoint[1]))
    same(model, fold_adjoints)
    product = same(model, optimise).operations[-1]
    assert ops(optimise(model)) == ["tanh", "tanh", "batch_matmul"]
    expected = [turned != taken for turned, taken in zip(transposed, adjoint, strict=True)]
    assert [product.attrs["adj_a"], product.attrs["adj_b"]] == expected


def with_reshapes_behind(model: Model) -> None:
    """As converters of PyTorch write a product of stacks of any rank."""
    q, k = given(model, 6, 5, 4, name="q"), moved(model, given(model, 1, 2, 3, 5, 4, name="k"), 0, 1, 2, 4, 3)
    k = add(model, "reshape", add(model, "reshape", k, shape=(2, 3, 20)), shape=(6, 4, 5))
    model.output(add(model, "batch_matmul", q, k))


def of_scaled_integers(model: Model) -> None:
    type = TensorType(DType.INT8, (2, 4, 5), Quantization((0.1,), (3,)))
    k = add(model, "transpose", model.input("k", type), perm=(0, 2, 1))
    quantization = [Quantization((0.5,), (-1,))]
    model.output(*model.add("batch_matmul", [model.input("q", type), k], quantization=quantization))


@pytest.mark.parametrize("build", [with_reshapes_behind, of_scaled_integers])
def test_nothing_is_left(build: Callable[[Model], None]) -> None:
    model = Model()
    build(model)
    changed = same(model, optimise)
    assert "transpose" not in ops(changed)
    assert changed.operations[-1].attrs["adj_b"]


def test_other_axes_are_still_moved() -> None:
    model = Model()
    q, k = given(model, 2, 3, 5, 4, name="q"), given(model, 2, 5, 3, 4, name="k")
    model.output(add(model, "batch_matmul", q, moved(model, k, 0, 2, 3, 1)))
    changed = same(model, optimise)
    (move,) = (o for o in changed.operations if o.op == "transpose")
    assert move.attrs["perm"] == (0, 2, 1, 3)


def columns_that_stay(model: Model) -> None:
    k = moved(model, given(model, 3, 2, 4, 5), 1, 0, 2, 3)
    model.output(add(model, "batch_matmul", k, k, adj_b=True))


def of_a_matrix_that_is_reshaped(model: Model) -> None:
    k = add(model, "reshape", moved(model, given(model, 2, 4, 6), 0, 2, 1), shape=(2, 8, 3))
    model.output(add(model, "batch_matmul", k, given(model, 2, 3, 5, name="y")))


def moved_for_others_too(model: Model) -> None:
    k = moved(model, given(model, 2, 5, 3, 4), 0, 2, 3, 1)
    model.output(add(model, "batch_matmul", given(model, 2, 3, 5, 4, name="y"), k), k)


@pytest.mark.parametrize("build", [columns_that_stay, of_a_matrix_that_is_reshaped, moved_for_others_too])
def test_what_stays(build: Callable[[Model], None]) -> None:
    model = Model()
    build(model)
    assert fold_adjoints(model) is model


def test_what_others_read_transposed_stays_for_them() -> None:
    model = Model()
    x = given(model, 2, 5, 4)
    k = moved(model, x, 0, 2, 1)
    model.output(add(model, "batch_matmul", x, k), k)
    changed = same(model, fold_adjoints)
    assert "transpose" in ops(changed)
    assert changed.operations[-1].attrs["adj_b"]
