"""The effect of rounding over many layers, by trial.

The model is computed exactly CHAINS times with added noise: every result gets noise, evenly distributed
within the spread that its operation's arithmetic has (gpunn.comparison.tolerance). The tolerance of a tensor
that a side computed from its own inputs is MARGIN times the largest difference that this noise makes. The
noise is larger than real rounding errors, because it assumes that every rounding is a full one. The margin is
for effects that a few draws miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpunn.comparison.exact import evaluate, renamed, widen
from gpunn.comparison.sides import Arithmetic, stored
from gpunn.comparison.tolerance import Bound, bounds
from gpunn.graph.operation import Operand, Operation
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
            moved = results if same else evaluate(variant, given)
            limits = bounds(variant, given, moved, self.arithmetic)
            for number, operand in enumerate(operation.outputs):
                noisy = self._noisy(operand, moved[number], limits[number])
                values[operand] = noisy
                found[number] = max(found[number], MARGIN * _distance(noisy, results[number]))
        return found

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


def _distance(a: Array, b: Array) -> float:
    """Return the largest difference of two tensors over the elements where both are finite."""
    if a is b:
        return 0.0
    with np.errstate(all="ignore"):
        difference = np.abs(widen(a) - widen(b)) if a.dtype.kind == "c" else np.abs(a.astype(np.float64) - b)
    return float(difference[np.isfinite(difference)].max(initial=0.0))
