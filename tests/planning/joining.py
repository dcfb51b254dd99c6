"""Models that join tensors, and what both backends give of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gpunn.compilation import assembly
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.planning.places import bound_once
from gpunn.planning.plan import Plan
from gpunn.types import Array, float32
from tests.evaluator import random_inputs
from tests.planning.appending import add, constant, pointwise, whole


def clamped(model: Model, x: Operand) -> Operand:
    """An operation with the same result on both backends."""
    (y,) = model.add("relu6", [x])
    return y


def concat(model: Model, *parts: Operand, axis: int = 1, **attrs: str) -> Operand:
    (y,) = model.add("concat", parts, {"axis": axis, **attrs})
    return y


JOINS = ("concat", "stack")
PIECES = ("split", "strided_slice", "unstack")


def copied(
    model: Model, inputs: Sequence[Array] | None = None, ops: Sequence[str] = JOINS, atol: float = 0.0
) -> int:
    """Run a model on both backends, compare the results, and count the dispatches of what only copies.

    The results have the same bits, unless they may differ by `atol`.
    """
    given = random_inputs(model) if inputs is None else inputs
    plans: list[Plan] = []
    with pytest.MonkeyPatch.context() as patch:
        make_plan = assembly.make_plan
        patch.setattr(assembly, "make_plan", lambda *a: plans.append(make_plan(*a)) or plans[-1])
        with model.compile("webgpu") as gpu, model.compile("cpu") as cpu:
            names = [i.name for i in model.inputs]
            expected = cpu.run(dict(zip(names, given, strict=True)))
            for name, found in gpu.run(dict(zip(names, given, strict=True))).items():
                np.testing.assert_allclose(found, expected[name], rtol=0, atol=atol, strict=True)
            copies = [p for p in gpu.placement if p.operation.op in ops]
            assert copies
            assert all(p.kernels or p.reason for p in copies)
    for plan in plans:
        for placement in (p for segment in plan.segments for p in segment.placements):
            for kernel in placement.kernels:
                once = bound_once(placement.operation, kernel, plan.root)
                assert once, "WebGPU lets a dispatch bind what it writes only once"
    return sum(len(p.kernels) for p in copies)


Reader = Callable[[Model, Operand], Operand]


def read_apart(shape: tuple[int, ...], reader: Reader, other: int = 4) -> Model:
    """A part behind one of `other` channels, and what a reader makes of it."""
    model = Model("read apart")
    part = clamped(model, model.input("x", float32(*shape)))
    rest = clamped(model, model.input("y", float32(*shape[:-1], other)))
    model.output(concat(model, rest, part, axis=-1), reader(model, part))
    return model


def values(model: Model) -> list[Array]:
    """Small whole numbers, so that all results are exact."""
    return [
        whole(*each.type.shape, dtype=each.type.dtype.numpy, seed=k) for k, each in enumerate(model.inputs)
    ]


def negated(model: Model, x: Operand) -> Operand:
    return add(model, "neg", x)


def normalised(model: Model, x: Operand) -> Operand:
    scaled = add(model, "mul", x, constant(model, x.type.shape[3], seed=5))
    return add(model, "add", scaled, constant(model, x.type.shape[3], seed=6), activation="relu6")


def squared(model: Model, x: Operand) -> Operand:
    return add(model, "mul", x, x)


def of_another_shape(model: Model, x: Operand) -> Operand:
    return negated(model, add(model, "reshape", x, shape=(-1,)))


def pooled(model: Model, x: Operand) -> Operand:
    return add(model, "max_pool2d", x, size=(2, 2), stride=(2, 2), padding="same")


def product(model: Model, x: Operand) -> Operand:
    return pointwise(model, x, 9)


def of_channels(model: Model, x: Operand) -> Operand:
    return pointwise(model, x, x.type.shape[3])


def of_rows(model: Model, x: Operand) -> Operand:
    rows = add(model, "reshape", x, shape=(-1, x.type.shape[3]))
    return add(model, "fully_connected", rows, constant(model, 8, x.type.shape[3]))


def prepended(model: Model, x: Operand) -> Operand:
    return pointwise(model, normalised(model, x), 8)


def appended(model: Model, x: Operand) -> Operand:
    return add(model, "add", pointwise(model, negated(model, x), x.type.shape[3]), x)


def gated(model: Model, x: Operand) -> Operand:
    """Each sample has a gate of its own."""
    gate = add(model, "reduce_sum", negated(model, x), axes=(1, 2), keep_dims=True)
    return pointwise(model, add(model, "mul", x, gate), 8)


def read_by_several(model: Model, x: Operand) -> Operand:
    other = add(model, "sub", of_channels(model, normalised(model, x)), x)
    return add(model, "add", appended(model, x), clamped(model, other))


def in_two_tensors(model: Model, x: Operand) -> Operand:
    return negated(model, concat(model, negated(model, x), x, axis=0))
