"""Cells of recurrent layers: what computes the states behind a step from x and the states before.

A gate is an activation of products of x and of the state h with constant weights, and of biases (affine.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, before_reshapes
from gpunn.ops import OPS
from gpunn.ops.op import Op
from gpunn.passes.affine import ADD_N, SUMS, Affine, Affines, Weights, stacked
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import LOGISTIC, MUL, SUB, TANH, negated, number, pairs, written_behind_reshapes
from gpunn.types import Array, DType

_RELU, _MUL_N = (OPS[name] for name in ("relu", "mul_n"))
_PRODUCTS, _FUNCTIONS = (MUL, _MUL_N), (TANH, LOGISTIC, _RELU)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A cell: the op for all steps, and its attributes; x; the states before and behind, h first.

    gates: their sums, in the op's order. inside: the bias that the op itself adds, if any. A step on zeros
    has no states before, and may lack gates.
    """

    op: str
    attrs: Mapping[str, object]
    x: Operand
    before: tuple[Operand, ...]
    behind: tuple[Operand, ...]
    gates: tuple[Affine | None, ...]
    inside: Array | None = None

    @property
    def state(self) -> Operand:
        """Return the state h behind a step."""
        return self.behind[0]

    @property
    def units(self) -> int:
        """Return the number of units of a state."""
        return self._sums[0].products[self.before[0]].shape[1]

    @property
    def of_x(self) -> tuple[Weights, ...]:
        """Return the weights of x."""
        return stacked([gate.products[self.x] for gate in self._sums])

    @property
    def of_h(self) -> tuple[Weights, ...]:
        """Return the weights of h."""
        return stacked([gate.products[self.before[0]] for gate in self._sums])

    @property
    def bias(self) -> Array:
        """Return the bias of all gates."""
        return np.concatenate([gate.bias for gate in self._sums])

    @property
    def _sums(self) -> list[Affine]:
        return [gate for gate in self.gates if gate is not None]

    @property
    def whole(self) -> bool:
        """Tell whether each gate has a number for each unit, none of which is broadcast, and h a product."""
        of_h = [gate.products[self.before[0]] for gate in self._sums]
        if any(part.filter is None or part.shape[0] != self.units for part in of_h):
            return False
        of_x = self.of_x
        known = all(part.filter is not None for part in of_x) or (len(of_x) == 1 and of_x[0].is_identity)
        return known and all(len(gate.bias) == self.units for gate in self._sums)

    def follows(self, previous: Cell) -> bool:
        """Tell whether this may be the step behind another: it has the same weights."""
        if (self.op, self.attrs) != (previous.op, previous.attrs):
            return False
        sources = {previous.x: self.x, **dict(zip(previous.before[:1], self.before[:1], strict=False))}
        for found, gate in zip(previous.gates, self.gates, strict=True):
            if found is not None and gate is not None:
                wanted = {source: gate.products[own] for source, own in sources.items()}
                if found.products != wanted or not np.array_equal(found.bias, gate.bias):
                    return False
        inside, other = (np.zeros(self.units) if c.inside is None else c.inside for c in (self, previous))
        return np.array_equal(inside, other)


@dataclass(frozen=True, slots=True)
class Cells:
    """Finds the cells whose states operands of a graph are."""

    affines: Affines

    @property
    def writers(self) -> Writers:
        """Return the operations that compute operands."""
        return self.affines.writers

    def of(self, state: Operand | None) -> Iterator[Cell]:
        """Yield the cells of which an operand may be the state h behind a step; also those on zeros."""
        last = self.writers.get(before_reshapes(self.writers, state))
        if last is None or last.integer or last.outputs[0].type.dtype is not DType.FLOAT32:
            return
        definition, found = last.definition, list[Iterator[Cell]]()
        if last.activation is not None or definition in _FUNCTIONS:
            found = [self._plain(last)]
        elif definition in _PRODUCTS:
            found = [self._lstm(last), self._gru(last)]
        elif definition in SUMS:
            found = [self._gru(last)]
        yield from (cell for cells in found for cell in cells if not cell.before or cell.whole)

    def _plain(self, last: Operation) -> Iterator[Cell]:
        """Yield h = f(x w + h r + b)."""
        total, activation = None, last.activation
        if activation is None:
            total, activation = self.affines.of(last.inputs[0]), last.op
        elif last.definition in SUMS:
            total = self.affines.sum(last)
        for x, before in () if total is None else _ends(total):
            yield Cell("recurrence", {"activation": activation}, x, before, last.outputs, (total,))

    def _lstm(self, last: Operation) -> Iterator[Cell]:
        """Yield h = o tanh(c) with c = f c + i tanh(g), where i, f and o are logistic functions."""
        for opened, turned in self._factors(last):
            tangent = written_behind_reshapes(self.writers, turned, TANH)
            output = None if tangent is None else self._gate(opened, LOGISTIC)
            behind = None if tangent is None else before_reshapes(self.writers, tangent.inputs[0])
            if output is None or behind is None:
                continue
            for factors, c in self._memory(behind):
                gates = (*map(self._gate, factors, (LOGISTIC, LOGISTIC, TANH)), output)
                complete = gates.count(None) == factors.count(None)
                for x, h in _ends(output) if complete else ():
                    if len(h) == len(c) and all(gate is None or gate.only(x, *h) for gate in gates):
                        yield Cell("lstm_recurrence", {}, x, h + c, (last.outputs[0], behind), gates)

    def _memory(self, c: Operand) -> Iterator[tuple[tuple[Operand | None, ...], tuple[Operand, ...]]]:
        """Yield i, f and g of c = f c + i g, and the c before; without both in a step on zeros."""
        for entering, new in self._factors(self.writers.get(c)):
            yield (entering, None, new), ()
        total = written_behind_reshapes(self.writers, c, *SUMS)
        for kept, entry in () if total is None else _both(total):
            for (forgetting, before), (entering, new) in self._products(kept, entry):
                yield (entering, forgetting, new), self._unless_zero(before)

    def _gru(self, last: Operation) -> Iterator[Cell]:
        """Yield h = (1 - z) n + z h, also as (h - n) z + n, with the reset before its product or behind."""
        for state, n, gate in self._mixtures(last):
            update, candidate = self._gate(gate, LOGISTIC), written_behind_reshapes(self.writers, n, TANH)
            if update is None or candidate is None:
                continue
            for x, h in _ends(update):
                if h == self._unless_zero(state):
                    for op, gates, inside in self._with_reset(update, candidate.inputs[0], x, h):
                        yield Cell(op, {}, x, h, last.outputs, gates, inside)

    def _with_reset(
        self, update: Affine, sums: Operand | None, x: Operand, before: tuple[Operand, ...]
    ) -> Iterator[tuple[str, tuple[Affine | None, ...], Array | None]]:
        """Yield the op, gates and bias inside of GRUs with this update gate and sums of the candidate."""
        whole = self.affines.of(sums)
        if whole is not None and not before and whole.only(x):
            yield "gru_recurrence", (update, None, whole), None
            yield "gru_reset_after", (None, update, whole), None
        for gated in [] if whole is None else [o for o in whole.products if o is not x]:
            for reset, state in self._factors(self.writers.get(gated)):
                gate = self._gate(reset, LOGISTIC)
                if gate is None or whole is None or self._unless_zero(state) != before:
                    continue
                if gate.only(x, *before) and whole.only(x, gated):
                    new = {x: whole.products[x], **dict.fromkeys(before, whole.products[gated])}
                    yield "gru_recurrence", (update, gate, Affine(new, whole.bias)), None
        total = written_behind_reshapes(self.writers, sums, *SUMS)
        for outside, product in () if total is None else _both(total):
            of_x = self.affines.of(outside)
            for reset, inner in self._factors(self.writers.get(product)):
                gate, of_h = self._gate(reset, LOGISTIC), self.affines.of(inner)
                if gate is None or of_x is None or of_h is None or not gate.only(x, *before):
                    continue
                if of_x.only(x) and of_h.only(*before):
                    new = {**of_x.products, **of_h.products}
                    yield "gru_reset_after", (gate, update, Affine(new, of_x.bias)), of_h.bias

    def _mixtures(self, last: Operation) -> Iterator[tuple[Operand | None, Operand, Operand]]:
        """Yield h, if it is not 0, n and z, if an operation may compute (1 - z) n + z h."""
        for rest, n in self._factors(last):
            yield from ((None, n, gate) for gate in self._rest_of(rest))
        for first, second in _both(last) if last.definition in SUMS else ():
            for difference, gate in self._factors(self.writers.get(first)):
                away = written_behind_reshapes(self.writers, difference, SUB)
                if away is not None and away.inputs[0] is not None and away.inputs[1] is second:
                    yield away.inputs[0], second, gate
            for (rest, n), (gate, h) in self._products(first, second):
                if gate in self._rest_of(rest):
                    yield h, n, gate

    def _rest_of(self, rest: Operand) -> Iterator[Operand]:
        """Yield the gates of which an operand is 1 - gate."""
        difference = written_behind_reshapes(self.writers, rest, SUB)
        total = written_behind_reshapes(self.writers, rest, *SUMS)
        if difference is not None and number(difference.inputs[0]) == 1 and difference.inputs[1] is not None:
            yield difference.inputs[1]
        for less, one in () if total is None else _both(total):
            if number(one) == 1:
                yield from negated(self.writers, less)

    def _unless_zero(self, state: Operand | None) -> tuple[Operand, ...]:
        """Return what a state was before reshapes; nothing if it is 0."""
        source = before_reshapes(self.writers, state)
        zero = source is None or (source.value is not None and not source.value.any())
        return () if source is None or zero else (source,)

    def _factors(self, product: Operation | None) -> Iterator[tuple[Operand, Operand]]:
        """Yield both factors of a product, in each order."""
        if product is not None and product.definition in _PRODUCTS and product.activation is None:
            yield from _both(product)

    def _products(
        self, first: Operand, second: Operand
    ) -> Iterator[tuple[tuple[Operand, Operand], tuple[Operand, Operand]]]:
        """Yield the factors of two products, in each order."""
        products = [written_behind_reshapes(self.writers, o, *_PRODUCTS) for o in (first, second)]
        yield from ((a, b) for a in self._factors(products[0]) for b in self._factors(products[1]))

    def _gate(self, operand: Operand | None, op: Op) -> Affine | None:
        """Return what an operand is the activation of."""
        function = written_behind_reshapes(self.writers, operand, op)
        return None if function is None else self.affines.of(function.inputs[0])


def _both(operation: Operation) -> Iterator[tuple[Operand, Operand]]:
    """Yield both operands of a sum or a product in each order, if it has two."""
    if len(operation.inputs) == 2:
        yield from pairs(operation)
        if operation.definition in (ADD_N, _MUL_N):
            yield from (pair[::-1] for pair in pairs(operation))


def _ends(affine: Affine) -> Iterator[tuple[Operand, tuple[Operand, ...]]]:
    """Yield the operands that a sum has products of as x and h, in each order; a single one as x."""
    sources = tuple(affine.products)
    if len(sources) == 1:
        yield sources[0], ()
    elif len(sources) == 2:
        yield from ((a, (b,)) for a, b in (sources, sources[::-1]))


def recurrence(
    to: GraphExpansion, cell: Cell, x: Operand, before: Sequence[Operand], time_major: bool, reverse: bool
) -> tuple[Operand, ...]:
    """Add what a cell computes from all x [.., .., elements]: the last states, and y with all h.

    before: the first states [sequences, units]. The first axis of x is of steps, or of sequences.
    """
    sums, bias, (*around, size) = x, cell.bias.astype(np.float32), x.type.shape
    if not cell.of_x[0].is_identity:
        rows = to.add("reshape", x, shape=(-1, size))
        sums = to.add("fully_connected", rows, _filter(to, cell.of_x), to.constant(bias))
        sums = to.add("reshape", sums, shape=(*around, len(bias)))
    elif bias.any():
        sums = to.add("add", x, to.constant(bias))
    inside = [] if cell.inside is None else [to.constant(cell.inside.astype(np.float32))]
    operands = sums, _filter(to, cell.of_h), *before, *inside
    return to.results(cell.op, *operands, time_major=time_major, reverse=reverse, **cell.attrs)


def _filter(to: GraphExpansion, parts: Sequence[Weights]) -> Operand:
    """Return weights as an operand: a filter itself, if they are all of its."""
    first = parts[0].filter
    if len(parts) == 1 and first is not None and first.type.shape == parts[0].shape:
        return first
    return to.constant(np.concatenate([part.value() for part in parts]))
