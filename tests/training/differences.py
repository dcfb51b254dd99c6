"""Gradients by central differences in float64, with what they may be off by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.ops.check import FLOATS
from gpunn.types import Array, float32
from tests import evaluator
from tests.ops.harness import type_of

STEP = 1e-4
EPS = 2.0**-52
ROUNDINGS = 100  # of a term of the loss, at most, in the ops of the tests
CONSTANTS = 4 * 2.0**-24  # a gradient has up to so many constants, which are float32: 1 / 3, sqrt(1 / 2)


def distinct(seed: int, *shape: int, low: float = -4, high: float = 4) -> Array:
    """Return float32 numbers in a range, in any order, with gaps around 0 and between any two.

    So no two are equal, and none is where a function has a kink, even after a step.
    """
    count = int(np.prod(shape, dtype=int))
    step = (high - low) / max(count, 1)
    places = np.random.default_rng(seed).permutation(count) + 0.3 + 0.05 * (seed % 8)
    return np.asarray(low + step * places, np.float32).reshape(shape)


def loss_of(op: str, inputs: Sequence[Array | None], attrs: Mapping[str, Any]) -> tuple[Model, list[Array]]:
    """Return a model with one output: the sum of an op's real results, each times a weight; and its inputs.

    Real inputs of the op are inputs of the model, and so are the weights, behind them; others are constants.
    """
    model, fed = Model(op), [v for v in inputs if v is not None and v.dtype.kind == "f"]
    operands = [
        None
        if value is None
        else model.input(f"x{k}", type_of(value))
        if value.dtype.kind == "f"
        else model.constant(f"constant {k}", value)
        for k, value in enumerate(inputs)
    ]
    parts: list[Operand] = []
    for k, result in enumerate(model.add(op, operands, attrs)):
        if result.type.dtype not in FLOATS:
            continue
        fed.append(distinct(90 + k, *result.type.shape, low=-1, high=1))
        weight = model.input(f"weight {k}", float32(*result.type.shape))
        (product,) = model.add("mul", [result, weight])
        parts += model.add("reduce_sum", [product], {"axes": tuple(range(result.type.rank))})
    model.output(*model.add("add_n", parts))
    return model, fed


def differences(model: Model, inputs: Sequence[Array], wanted: int) -> Iterator[tuple[Array, Array]]:
    """Yield the gradients of the only output with respect to the first `wanted` inputs, and their errors.

    The error of a difference goes with the square of the step: with half of it, it is a third of what the two
    differ by, of which all is allowed. And each evaluation rounds, and so do constants of the gradient, whose
    terms are about 1 where weights are at most 1.
    """
    exact = [np.asarray(x, np.float64) for x in inputs]

    def loss(index: int, place: tuple[int, ...], step: float) -> float:
        moved = [x.copy() if k == index else x for k, x in enumerate(exact)]
        moved[index][place] += step
        return float(evaluator.run(model, moved)[0].item())

    magnitude = sum(float(np.abs(x).sum()) for x in exact[wanted:]) * max(
        1, *(np.abs(x).max(initial=0) for x in exact)
    )
    count = ROUNDINGS + sum(x.size for x in exact[wanted:])
    for index in range(wanted):
        found, error = np.zeros(exact[index].shape), np.zeros(exact[index].shape)
        for place in np.ndindex(exact[index].shape):
            coarse, fine = (
                (loss(index, place, h) - loss(index, place, -h)) / (2 * h) for h in (STEP, STEP / 2)
            )
            found[place] = fine
            error[place] = (
                abs(coarse - fine) + 2 * count * EPS * magnitude / STEP + CONSTANTS * (1 + abs(fine))
            )
        yield found, error
