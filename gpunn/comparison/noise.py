"""The effect of rounding over many layers, by trial.

The model is computed exactly CHAINS times with added noise: every result gets noise, evenly distributed
within the spread that its operation's arithmetic has (gpunn.comparison.tolerance). The tolerance of a tensor
that a side computed from its own inputs is MARGIN times the largest difference that this noise makes. The
noise is larger than real rounding errors, because it assumes that every rounding is a full one. The margin is
for effects that a few draws miss. Operations in the bodies of loops and branches get their noise in each
round.

The tolerance is infinite if a loop with noise does not end in twice the rounds of the exact one. It is
infinite, too, if an element is finite without noise and NaN or infinite with it, or the other way round:
rounding decides what a side computes there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.comparison.exact import renamed, start
from gpunn.comparison.sides import Arithmetic
from gpunn.comparison.tolerance import bounds
from gpunn.graph.exact import evaluate, widen
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import OpenBody
from gpunn.graph.tolerance import Bound, stored
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import Array

CHAINS = 2
MARGIN = 5.0


class Chains:
    """Exact computations of the model with added noise, in the size of an arithmetic's rounding errors."""

    def __init__(
        self,
        arithmetic: Arithmetic,
        starts: Sequence[Mapping[Operand, Array]],
        variants: Mapping[Operation, Operation],
        seed: int = 0,
    ) -> None:
        """Take `starts`, for each sample the model's inputs in the form of the exact walk, and `variants`,
        see Walk.
        """
        self.arithmetic = arithmetic
        self._variants = variants
        self._generator = np.random.default_rng(seed)
        self._values = [[dict(start) for _ in range(CHAINS)] for start in starts]

    def step(
        self, sample: int, operation: Operation, exact: Mapping[Operand, Array], results: tuple[Array, ...]
    ) -> list[float]:
        """Compute one more operation; return a tolerance for each result."""
        variant = self._variants.get(operation, operation)
        inputs = [o for o in operation.inputs if o is not None and o.value is None]
        found = [0.0] * len(results)
        for values in self._values[sample]:
            same = variant is operation and all(values[o] is exact[o] for o in inputs)
            given = renamed(operation, variant, values)
            try:
                moved = self._moved(variant, given, results if same else None)
            except _EndlessError:
                values.update(zip(operation.outputs, results, strict=True))
                return [math.inf] * len(results)
            for number, operand in enumerate(operation.outputs):
                values[operand] = moved[number]
                found[number] = max(found[number], MARGIN * _distance(moved[number], results[number]))
        return found

    def _moved(
        self, operation: Operation, values: Mapping[Operand, Array], results: tuple[Array, ...] | None
    ) -> tuple[Array, ...]:
        """Compute an operation with noise; `results` are those without, if they are known."""
        if has_bodies(operation):
            rounds = _Rounds()
            _by_bodies(operation, values, rounds, lambda _, __, exact: exact)
            return _by_bodies(operation, values, _Rounds(2 * rounds.count + 16), self._with_noise)
        return self._with_noise(operation, values, results or evaluate(operation, values))

    def _with_noise(
        self, operation: Operation, values: Mapping[Operand, Array], results: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        limits = bounds(operation, values, results, self.arithmetic)
        return tuple(map(self._noisy, operation.outputs, results, limits))

    def _noisy(self, operand: Operand, value: Array, bound: Bound) -> Array:
        if not bound.spread.any():
            return value
        if stored(operand.type):
            low, high = LIMITS[operand.type.dtype]
            steps = int(bound.spread)
            drawn = self._generator.integers(-steps, steps, value.shape, endpoint=True)
            moved: Array = np.clip(value.astype(np.int64) + drawn, low, high).astype(value.dtype)
            return moved
        noise: Array = self._generator.uniform(-1, 1, value.shape)
        if value.dtype.kind == "c":
            noise = noise + 1j * self._generator.uniform(-1, 1, value.shape)
        return np.asarray(value + bound.spread * noise)

    def free(self, operands: Sequence[Operand]) -> None:
        """Free operands that no later operation reads."""
        for chains in self._values:
            for values in chains:
                for operand in operands:
                    values.pop(operand, None)


class _EndlessError(Exception):
    """A loop with noise does not end as the exact one does."""


@dataclass(slots=True)
class _Rounds:
    """A count of the bodies that ran, of which there may be `most`."""

    most: float = math.inf
    count: int = 0

    def begin(self) -> None:
        """Count one more. Raises _EndlessError if it is one too many."""
        self.count += 1
        if self.count > self.most:
            raise _EndlessError


# Changes the results of an operation on values.
_Change = Callable[[Operation, Mapping[Operand, Array], tuple[Array, ...]], tuple[Array, ...]]


def has_bodies(operation: Operation) -> bool:
    """Tell whether there are graphs among the attributes of an operation."""
    return any(isinstance(value, (Graph, OpenBody)) for value in operation.attrs.values())


def _by_bodies(
    operation: Operation, values: Mapping[Operand, Array], rounds: _Rounds, change: _Change
) -> tuple[Array, ...]:
    """Compute an operation, with the results of those in its bodies changed; count the bodies that run."""
    if not has_bodies(operation):
        return change(operation, values, evaluate(operation, values))

    def run(graph: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
        known = start(graph, inputs)
        for inner in graph.operations:
            known.update(zip(inner.outputs, _by_bodies(inner, known, rounds, change), strict=True))
        return tuple(known[o] if o.value is None else widen(o.value) for o in graph.outputs)

    attrs = {
        name: _ChangedBody(v if isinstance(v, Graph) else v.model, run=run, begin=rounds.begin)
        if isinstance(v, (Graph, OpenBody))
        else v
        for name, v in operation.attrs.items()
    }
    return evaluate(replace(operation, attrs=attrs), values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangedBody(OpenBody):
    """A body that is computed by another function; `begin` is called before."""

    run: Callable[[Graph, Sequence[Array]], tuple[Array, ...]]
    begin: Callable[[], None]

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        self.begin()
        return self.computed(inputs, self.run)


def _distance(a: Array, b: Array) -> float:
    """Return the largest difference of two tensors; infinite where only one of two elements is finite.

    Elements that are the same infinity in both, or NaN in both, have no difference.
    """
    if a is b:
        return 0.0
    with np.errstate(all="ignore"):
        difference = np.abs(widen(a) - widen(b)) if a.dtype.kind == "c" else np.abs(a.astype(np.float64) - b)
    difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, difference)
    return float(np.where(np.isnan(difference), np.inf, difference).max(initial=0.0))
