"""Ops that are written in other ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.kernel import Unsupported
from gpunn.model import Model
from gpunn.ops.call import Call, like
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.op import Op, op
from gpunn.passes import optimise
from gpunn.passes.expand import expand
from gpunn.types import Array, DType, TensorType, float32
from tests.passes.same import ops, same


def _halves(call: Call) -> tuple[TensorType, ...]:
    return call.x, call.x


def _write_halves(call: Call, to: Expansion, x: Tensor) -> tuple[Tensor, ...]:
    half = to.constant(np.array(call["share"], np.float32))
    left = to.add("mul", x, half)
    return left, to.add("sub", x, left)


@op(_halves, expand=_write_halves)
def halves(x: Array, *, share: float = 0.5) -> tuple[Array, Array]:
    return x * share, x - x * share


def _write_twice(call: Call, to: Expansion, x: Tensor) -> Tensor:
    room = to.add("dilate", x, steps=(2,))  # which is written in other ops itself
    if call.x.shape == (1,):
        raise Unsupported("one element")
    return to.add("strided_slice", room, begin=(0,), end=(None,), strides=(2,))


@op(like, expand=_write_twice, host_reason="one element stays")
def there_and_back(x: Array) -> Array:
    return x


def model_of(op: Op, *shape: int, **attrs: Any) -> Model:
    model = Model()
    model.output(*model.add(op, [model.input("x", float32(*shape))], attrs, origin="file: operation 3"))
    return model


def test_results_and_origins_stay() -> None:
    model = model_of(halves, 3, share=0.25)
    written = expand(model)
    assert [o.op for o in written.operations] == ["mul", "sub"]
    assert {o.origin for o in written.operations} == {"file: operation 3"}
    assert written.outputs == model.outputs == [o.outputs[0] for o in written.operations]
    assert [o.op for o in model.operations] == ["halves"]


def test_on_a_backend(backend: str) -> None:
    x = np.array([1, 2, -4], np.float32)
    with model_of(halves, 3, share=0.25).compile(backend) as compiled:
        left, right = compiled(x)
        assert [p.operation.op for p in compiled.placement] == ["mul", "sub"]
    np.testing.assert_array_equal(left, x / 4)
    np.testing.assert_array_equal(right, x - x / 4)


def test_added_ops_are_expanded_and_fused() -> None:
    written = expand(model_of(there_and_back, 3))
    assert "dilate" not in [o.op for o in written.operations]
    model = model_of(halves, 3)
    model.outputs[1:] = model.add("relu", [model.outputs[1]])
    assert [(o.op, o.attrs.get("activation")) for o in optimise(model).operations] == [
        ("mul", None),
        ("sub", "relu"),
    ]


def test_an_expansion_that_refuses_runs_on_the_host(backend: str) -> None:
    with model_of(there_and_back, 1).compile(backend) as compiled:
        assert compiled(np.array([3], np.float32)) == [3]
        (placement,) = compiled.placement
        assert (placement.operation.op, placement.backend) == ("there_and_back", "cpu")
        assert backend == "cpu" or placement.reason == "one element stays"


def test_constants_are_folded() -> None:
    model = Model()
    fixed = model.constant("fixed", np.arange(3, dtype=np.float32))
    (dilated,) = model.add("dilate", [fixed], {"steps": (2,)})
    model.output(*model.add("add", [model.input("x", float32(5)), dilated]))
    (only,) = optimise(model).operations
    assert only.op == "add"
    np.testing.assert_array_equal(only.inputs[1].value, [0, 0, 1, 0, 2])  # type: ignore[union-attr]


def test_ops_in_bodies_are_expanded(backend: str) -> None:
    body, condition, model = Model(), Model(), Model()
    body.output(*body.add("neg", body.add(halves, [body.input("x", float32(2))])[:1]))
    below = condition.constant("least", np.float32(1))
    (large,) = condition.add("reduce_max", [condition.input("x", float32(2))], {"axes": (0,)})
    condition.output(*condition.add("greater", [large, below]))
    state = model.input("x", float32(2))
    model.output(*model.add("while_loop", [state], {"condition": condition, "body": body}))
    assert TensorType(DType.FLOAT32, (2,)) == model.outputs[0].type
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(np.array([8, 4], np.float32)), [-4, -2])
        assert "halves" not in {p.operation.op for p in compiled.placement}


def test_an_expansion_must_compute_its_results() -> None:
    @op(like, expand=lambda call, to, x: x)
    def nothing(x: Array) -> Array:
        return x

    with pytest.raises(AssertionError, match="nothing"):
        expand(model_of(nothing, 2))


@pytest.mark.parametrize(
    ("exponent", "dtype", "found"),
    [
        (np.array(2), np.float32, ["square"]),
        (np.array([[2]]), np.float32, ["square"]),
        (np.array(2), np.int32, ["pow"]),
        (np.array(3), np.float32, ["pow"]),
        (np.array([2, 2, 2]), np.float32, ["pow"]),
        (np.array([[[2]]]), np.float32, ["pow"]),  # the result has another rank
    ],
)
def test_powers_of_real_numbers_with_exponent_2_are_squares(
    exponent: Array, dtype: Any, found: list[str]
) -> None:
    model = Model()
    x = model.input("x", TensorType(DType.of(np.dtype(dtype)), (2, 3)))
    model.output(*model.add("pow", [x, model.constant("e", exponent.astype(dtype))]))
    assert ops(same(model, expand)) == found


@pytest.mark.parametrize(
    ("shape", "multiples", "found"),
    [((1, 3), (4, 1), "broadcast_to"), ((2, 3), (2, 1), "tile"), ((1, 1), (0, 5), "broadcast_to")],
)
def test_copies_along_dimensions_of_1_are_broadcasts(shape: Any, multiples: Any, found: str) -> None:
    model = Model()
    model.output(*model.add("tile", [model.input("x", float32(*shape))], {"multiples": multiples}))
    assert ops(same(model, expand)) == [found]
