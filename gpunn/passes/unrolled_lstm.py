"""The steps of an LSTM, written one after the other, become one recurrence.

Of four pieces of a step's sums, the input gate i, the forget gate f and the output gate o are logistic
functions, and the cell gate g is a hyperbolic tangent. The new states are c = f c + i g and h = o tanh(c).
Where the states are 0 at first, the first step has no product, and no forget gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.ops.op import Op
from gpunn.passes.forms import ADD, LOGISTIC, MUL, TANH, pairs, written_by
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

_GATES = 4
_INPUT, _FORGET, _CELL, _OUTPUT = range(_GATES)
_READS_OF_CELL = 2  # of a state c: the state h, and the next step


def fuse_unrolled_lstms(model: Graph) -> Graph:
    """Put a recurrence in the place of the steps of an LSTM, and slices of its result in that of states."""
    return fuse_steps(model, _Lstm)


class _Lstm(Finder):
    """Finds the steps of LSTMs."""

    def step(self, last: Operation) -> Step | None:
        """Return the step whose state h an operation computes, o tanh(c)."""
        if last.definition is not MUL or last.activation is not None:
            return None
        for gate, turned in pairs(last):
            tangent, opened = written_by(self.writers, turned, TANH), self._gate(gate, LOGISTIC)
            c = None if tangent is None else tangent.inputs[0]
            if c is None or opened is None or opened[1] != _OUTPUT:
                continue
            sums, _ = opened
            for kept, entry in self._terms(c):
                before = self._kept(kept, sums)
                if self._enters(entry, sums) and (kept is None) == (before is None):
                    return self._with_sums(last, c, sums, before)
        return None

    def _with_sums(self, last: Operation, c: Operand, sums: Operand, before: Operand | None) -> Step | None:
        """Return a step with its sums as those of x and what is added; before: the state c, if any."""
        total, states = written_by(self.writers, sums, ADD), (last.outputs[0], c)
        for more, x in () if total is None else pairs(total):
            product = written_by(self.writers, more, fully_connected)
            if product is not None and before is not None:
                h = product.inputs[0]
                assert h is not None
                return Step(x, product, (), (h, before), states, last)
            if more.value is not None and before is None:
                return Step(x, None, (more,), (), states, last)
        return Step(sums, None, (), (), states, last) if before is None else None

    def _terms(self, c: Operand) -> Iterator[tuple[Operand | None, Operand]]:
        """Yield what may be f c and i g of a new state c."""
        total = written_by(self.writers, c, ADD)
        yield from ((None, c),) if total is None else pairs(total)

    def _kept(self, operand: Operand | None, sums: Operand) -> Operand | None:
        """Return the state c before, if an operand is f c."""
        product = written_by(self.writers, operand, MUL)
        for gate, state in () if product is None else pairs(product):
            if self._gate(gate, LOGISTIC) == (sums, _FORGET):
                return state
        return None

    def _enters(self, operand: Operand, sums: Operand) -> bool:
        """Tell whether an operand is i g."""
        product = written_by(self.writers, operand, MUL)
        wanted = (sums, _INPUT), (sums, _CELL)
        found = () if product is None else pairs(product)
        return any((self._gate(a, LOGISTIC), self._gate(b, TANH)) == wanted for a, b in found)

    def _gate(self, operand: Operand, definition: Op) -> tuple[Operand, int] | None:
        """Return of which sums an operand is a gate with that activation, and which of the four."""
        computed = written_by(self.writers, operand, definition)
        return None if computed is None else self.piece(computed.inputs[0], _GATES)

    def recurrence(self, steps: Sequence[Step], layer: Layer) -> Recurrence | None:
        """Return what computes all states h, and the last state c if others read that."""
        cell = steps[-1].states[1]
        if any(self.readers[step.states[1]] != _READS_OF_CELL for step in steps[:-1]):
            return None
        to = begun(steps, layer)
        before = first_states(to, layer, 2)
        total = layer.x if layer.bias is None else to.add("add", layer.x, layer.bias)
        operands = total, layer.filter, *before
        _, c, y = to.results("lstm_recurrence", *operands, time_major=True, reverse=layer.reverse)
        exchange = states_of(to, y, steps, layer)
        if self.readers[cell] > 1:
            exchange[to.add("reshape", c, shape=cell.type.shape)] = cell
        return Recurrence(to.writing(exchange), [*exchange.values()])
