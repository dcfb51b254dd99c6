"""The steps of a gated recurrent unit, written one after the other, become one recurrence.

The sums of x and the product with the state h have a piece each for the reset gate r and the update gate z,
which are logistic functions of both, and for the candidate n = tanh(x + r product). The new state is
h = (h - n) z + n. Where it is 0 at first, the first step has constants in the place of the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.passes.forms import ADD, LOGISTIC, MUL, SUB, TANH, before_reshapes, pairs, written_by
from gpunn.passes.unrolled import (
    Finder,
    Layer,
    Recurrence,
    Step,
    begun,
    first_states,
    fuse_steps,
    states_of,
)

_GATES = 3
_RESET, _UPDATE, _CANDIDATE = range(_GATES)


def fuse_unrolled_grus(model: Graph) -> Graph:
    """Put a recurrence in the place of the steps of a GRU, and slices of its result in that of states."""
    return fuse_steps(model, _Gru)


class _Gru(Finder):
    """Finds the steps of gated recurrent units."""

    def step(self, last: Operation) -> Step | None:
        """Return the step whose state an operation computes, (h - n) z + n."""
        if last.definition is not ADD or last.activation is not None:
            return None
        for weighted, n in pairs(last):
            product, candidate = written_by(self.writers, weighted, MUL), written_by(self.writers, n, TANH)
            for difference, update in () if product is None or candidate is None else pairs(product):
                away = written_by(self.writers, difference, SUB)
                if away is None or away.inputs[1] is not n:
                    continue
                for terms in self._terms(update, n):
                    found = self._with_terms(last, away.inputs[0], *zip(*terms, strict=True))
                    if found is not None:
                        return found
        return None

    def _terms(self, update: Operand, n: Operand) -> Iterator[tuple[tuple[Operand, Operand], ...]]:
        """Yield what may be the sums of x and those with h of the three gates, in their order."""
        candidate = written_by(self.writers, n, TANH)
        total = None if candidate is None else written_by(self.writers, candidate.inputs[0], ADD)
        for x, gated in () if total is None else pairs(total):
            both = written_by(self.writers, gated, MUL)
            for reset, product in () if both is None else pairs(both):
                for first in self._gate(reset):
                    yield from ((first, second, (x, product)) for second in self._gate(update))

    def _gate(self, operand: Operand) -> Iterator[tuple[Operand, Operand]]:
        """Yield what a gate may be the logistic function of the sum of."""
        gate = written_by(self.writers, operand, LOGISTIC)
        total = None if gate is None else written_by(self.writers, gate.inputs[0], ADD)
        yield from () if total is None else pairs(total)

    def _with_terms(
        self, last: Operation, h: Operand | None, sums: Sequence[Operand], products: Sequence[Operand]
    ) -> Step | None:
        """Return a step with these sums of x, and these products with the state h before, or constants."""
        whole = self._parted(sums)
        x = None if whole is None else before_reshapes(self.writers, whole)
        if x is None or h is None:
            return None
        if h.value is not None:
            first = not h.value.any() and all(constant.value is not None for constant in products)
            return Step(x, None, tuple(products), (), last.outputs, last) if first else None
        product = written_by(self.writers, self._parted(products), fully_connected)
        same = product is not None and product.inputs[0] is h
        return Step(x, product, (), (h,), last.outputs, last) if same else None

    def _parted(self, parts: Sequence[Operand]) -> Operand | None:
        """Return what has these pieces for its gates, in their order."""
        found = [self.piece(part, _GATES) for part in parts]
        whole = None if found[0] is None else found[0][0]
        return whole if found == [(whole, number) for number in range(_GATES)] else None

    def recurrence(self, steps: Sequence[Step], layer: Layer) -> Recurrence | None:
        """Return what computes the states of all steps."""
        to, total, inside = begun(steps, layer), layer.x, None
        (before,) = first_states(to, layer, 1)
        if layer.bias is not None and layer.bias.value is not None:
            bias, units = layer.bias.value, layer.units
            outside = np.concatenate([bias[:-units], np.zeros(units, np.float32)])
            total, inside = to.add("add", total, to.constant(outside)), to.constant(bias[-units:].copy())
        operands = total, layer.filter, before, inside
        _, y = to.results("gru_reset_after", *operands, time_major=True, reverse=layer.reverse)
        exchange = states_of(to, y, steps, layer)
        return Recurrence(to.writing(exchange), [*exchange.values()])
