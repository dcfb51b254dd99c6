"""fuse_rotary_embeddings: the forms that converters write become one operation, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.rotary import fuse_rotary_embeddings
from gpunn.types import float32
from tests.passes.same import expect_unchanged, ops, same
from tests.passes.test_layer_norm import add, weights

SHAPE = (2, 3, 5, 8)
Build = Callable[[Model, Operand], Operand]


def halves(model: Model, x: Operand, axis: int = -1) -> tuple[Operand, ...]:
    axis %= x.type.rank
    middle = x.type.shape[axis] // 2
    ranges = ((0, middle), (middle, 2 * middle))
    return tuple(
        add(
            model,
            "strided_slice",
            x,
            begin=tuple(low if d == axis else 0 for d in range(x.type.rank)),
            end=tuple(high if d == axis else n for d, n in enumerate(x.type.shape)),
            strides=(1,) * x.type.rank,
            shrink_axes=(),
        )
        for low, high in ranges
    )


def angles(model: Model, *shape: int) -> tuple[Operand, Operand]:
    """Cosines that are constants, and sines that are computed."""
    computed = add(model, "sin", model.input("angles", float32(*shape)))
    return weights(model, *shape), computed


def opposite(model: Model, x: Operand) -> Operand:
    return add(model, "mul", x, -1.0)


def turned(model: Model, x: Operand, axis: int = -1, negate: Any = opposite, **attrs: Any) -> Operand:
    """concat(-b, a)."""
    a, b = halves(model, x, axis)
    return add(model, "concat", negate(model, b), a, axis=axis, **attrs)


def hugging_face(model: Model, x: Operand) -> Operand:
    cos, sin = angles(model, 1, 1, 5, 8)
    return add(model, "add", add(model, "mul", x, cos), add(model, "mul", turned(model, x), sin))


def the_other_way_round(model: Model, x: Operand) -> Operand:
    cos, sin = angles(model, 5, 8)
    negated = turned(model, x, negate=lambda model, b: add(model, "neg", b))
    return add(model, "add", add(model, "mul", sin, negated), add(model, "mul", cos, x))


def along_another_axis(model: Model, x: Operand) -> Operand:
    x = add(model, "transpose", x, perm=(0, 1, 3, 2))
    cos, sin = angles(model, 8, 1)
    return add(model, "add", add(model, "mul", x, cos), add(model, "mul", turned(model, x, 2), sin))


def of_pieces(model: Model, x: Operand) -> Operand:
    """As LiteRT Torch writes it: split, and both halves computed."""
    a, b = model.add("split", [x], {"sizes": (4, 4), "axis": -1})
    cos, sin = angles(model, 1, 1, 5, 4)
    first = add(model, "sub", add(model, "mul", a, cos), add(model, "mul", b, sin))
    second = add(model, "add", add(model, "mul", b, cos), add(model, "mul", sin, a))
    return add(model, "concat", first, second, axis=-1)


FORMS = hugging_face, the_other_way_round, along_another_axis, of_pieces


@pytest.mark.parametrize("build", FORMS)
def test_forms(build: Build, backend: str) -> None:
    model = Model()
    model.output(build(model, model.input("x", float32(*SHAPE))))
    found = same(model, lambda m: optimise(m))  # type: ignore[arg-type, return-value]
    assert [o for o in ops(found) if o not in ("sin", "transpose")] == ["rotary_embedding"]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=i.type.shape).astype(np.float32) for i in model.inputs]
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(*given), model.evaluate(given)[0], rtol=1e-5, atol=1e-5)


def test_x_has_other_readers() -> None:
    model = Model()
    x = add(model, "tanh", model.input("x", float32(*SHAPE)))
    model.output(hugging_face(model, x), x)
    assert ops(same(model, fuse_rotary_embeddings))[-1] == "rotary_embedding"


def of_a_product(model: Model, x: Operand, **changed: Any) -> Operand:
    """x cos + concat(-b, a) sin with something else in one place."""
    cos, sin = angles(model, 5, 8)
    near = add(model, "mul", changed.get("other", x), cos, activation=changed.get("activation"))
    far = add(model, "mul", changed.get("turned") or turned(model, x), sin)
    return add(model, "add", near, far)


def of_another_tensor(model: Model, x: Operand) -> Operand:
    return of_a_product(model, x, other=add(model, "tanh", x))


def clamped(model: Model, x: Operand) -> Operand:
    return of_a_product(model, x, activation="relu")


def without_a_sign(model: Model, x: Operand) -> Operand:
    return of_a_product(model, x, turned=turned(model, x, negate=lambda model, b: b))


def with_another_sign(model: Model, x: Operand) -> Operand:
    return of_a_product(model, x, turned=turned(model, x, negate=lambda m, b: add(m, "mul", b, -2.0)))


def the_first_half_negated(model: Model, x: Operand) -> Operand:
    a, b = halves(model, x)
    return of_a_product(model, x, turned=add(model, "concat", b, opposite(model, a), axis=-1))


def in_order(model: Model, x: Operand) -> Operand:
    a, b = halves(model, x)
    return of_a_product(model, x, turned=add(model, "concat", opposite(model, a), b, axis=-1))


def of_other_parts(model: Model, x: Operand) -> Operand:
    a, b = model.add("split", [x], {"sizes": (3, 5), "axis": -1})
    return of_a_product(model, x, turned=add(model, "concat", opposite(model, b), a, axis=-1))


def read_elsewhere(model: Model, x: Operand) -> Operand:
    joined = turned(model, x)
    return add(model, "add", of_a_product(model, x, turned=joined), joined)


def with_more_samples(model: Model, x: Operand) -> Operand:
    """The cosines repeat x."""
    (one,) = model.add("split", [x], {"sizes": (1, 1), "axis": 0})[:1]
    cos, sin = angles(model, 2, 1, 5, 8)
    return add(model, "add", add(model, "mul", one, cos), add(model, "mul", turned(model, one), sin))


def with_two_angles(model: Model, x: Operand) -> Operand:
    a, b = halves(model, x)
    (cos, sin), (other, _) = angles(model, 5, 4), angles(model, 5, 4)
    first = add(model, "sub", add(model, "mul", a, cos), add(model, "mul", b, sin))
    second = add(model, "add", add(model, "mul", b, other), add(model, "mul", a, sin))
    return add(model, "concat", first, second, axis=-1)


def joined_along_another_axis(model: Model, x: Operand) -> Operand:
    a, b = halves(model, x)
    cos, sin = angles(model, 5, 4)
    first = add(model, "sub", add(model, "mul", a, cos), add(model, "mul", b, sin))
    second = add(model, "add", add(model, "mul", b, cos), add(model, "mul", a, sin))
    return add(model, "concat", first, second, axis=2)


STAYS = (
    *(of_another_tensor, clamped, without_a_sign, with_another_sign, the_first_half_negated, in_order),
    *(of_other_parts, read_elsewhere, with_more_samples, with_two_angles, joined_along_another_axis),
)


@pytest.mark.parametrize("build", STAYS)
def test_what_stays(build: Build) -> None:
    expect_unchanged(fuse_rotary_embeddings, build, SHAPE)
