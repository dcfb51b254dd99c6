"""Cells of recurrent layers: what computes the states behind a step from x and the states before.

A gate is an activation of products of x and of the state h with constant weights, and of biases, however a
converter has divided these: one product for all gates, of which each takes a piece, or one for each gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpunn.graph.operation import Operand, Operation
from gpunn.ops import OPS
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.ops.movement.basic import concat
from gpunn.ops.movement.split import split
from gpunn.ops.movement.strided_slice import selection, strided_slice
from gpunn.passes.forms import ADD, LOGISTIC, MUL, SUB, TANH, Writers, before_reshapes, negated, number, pairs
from gpunn.types import Array, DType

_RELU, _ADD_N, _MUL_N = (OPS[name] for name in ("relu", "add_n", "mul_n"))
_SUMS, _PRODUCTS = (ADD, _ADD_N), (MUL, _MUL_N)
_GATES = {"recurrence": 1, "gru_recurrence": 3, "gru_reset_after": 3, "lstm_recurrence": 4}


class Affine(NamedTuple):
    """A sum of products [units], of each source with weights [units, elements], and of a bias, in float64."""

    products: dict[Operand, Array]
    bias: Array

    def only(self, *sources: Operand) -> bool:
        """Tell whether these, and no others, are multiplied."""
        return self.products.keys() == {*sources}


class Cell(NamedTuple):
    """A cell: the op for all steps, and its attributes; x; the states before and behind, h first.

    of_x, of_h: the filters [gates x units, elements] in the op's order; bias, and one inside the op, if any.
    """

    op: str
    attrs: Mapping[str, object]
    x: Operand
    before: tuple[Operand, ...]
    behind: tuple[Operand, ...]
    of_x: Array
    of_h: Array
    bias: Array
    inside: Array | None = None

    @property
    def state(self) -> Operand:
        """Return the state h behind a step."""
        return self.behind[0]

    @property
    def whole(self) -> bool:
        """Tell whether each gate has a number for each unit, and none is broadcast."""
        return len(self.of_h) == _GATES[self.op] * self.units and len(self.bias) == len(self.of_x)

    @property
    def units(self) -> int:
        """Return the number of units of a state."""
        return int(self.of_h.shape[1])


@dataclass(frozen=True, slots=True)
class Cells:
    """Finds the cells whose states operands of a graph are."""

    writers: Writers

    def of(self, state: Operand | None) -> Iterator[Cell]:
        """Yield the cells of which an operand may be the state h behind a step."""
        last = self.writers.get(before_reshapes(self.writers, state))
        if last is None or last.integer or last.outputs[0].type.dtype is not DType.FLOAT32:
            return
        ways = (self._plain, *(() if last.activation else (self._lstm, self._gru)))
        yield from (cell for way in ways for cell in way(last) if cell.whole)

    def _plain(self, last: Operation) -> Iterator[Cell]:
        """Yield h = f(x w + h r + b)."""
        total, activation = None, last.activation
        if activation is None and last.definition in (TANH, LOGISTIC, _RELU):
            total, activation = self._affine(last.inputs[0]), last.op
        elif activation is not None and last.definition in _SUMS:
            total = self._sum(last)
        for x, h in () if total is None else _two(total):
            assert total is not None
            stacked = _stacked([total], x, h)
            yield Cell("recurrence", {"activation": activation}, x, (h,), last.outputs, *stacked)

    def _lstm(self, last: Operation) -> Iterator[Cell]:
        """Yield h = o tanh(c) with c = f c + i tanh(g), where i, f and o are logistic functions."""
        for opened, turned in self._factors(last):
            tangent, output = self._written(turned, TANH), self._gate(opened, LOGISTIC)
            behind = None if tangent is None else tangent.inputs[0]
            total = self._written(behind, *_SUMS)
            for kept, entry in () if total is None else _both(total):
                for (forgetting, c), (entering, new) in self._products(kept, entry):
                    sums = [self._gate(g, LOGISTIC) for g in (entering, forgetting)]
                    gates = [*sums, self._gate(new, TANH), output]
                    found = [gate for gate in gates if gate is not None]
                    assert behind is not None
                    for x, h in _two(found[0]) if len(found) == len(gates) else ():
                        if all(gate.only(x, h) for gate in found):
                            stacked = _stacked(found, x, h)
                            states = h, before_reshapes(self.writers, c) or c
                            yield Cell("lstm_recurrence", {}, x, states, (last.outputs[0], behind), *stacked)

    def _gru(self, last: Operation) -> Iterator[Cell]:
        """Yield h = (1 - z) n + z h, also as (h - n) z + n, with the reset before its product or behind."""
        for h, n, gate in self._mixtures(last):
            update, candidate = self._gate(gate, LOGISTIC), self._written(n, TANH)
            source = before_reshapes(self.writers, h)
            if update is None or candidate is None or source is None:
                continue
            for x in update.products:
                if update.only(x, source):
                    yield from self._with_reset(last, update, candidate.inputs[0], x, source)

    def _with_reset(
        self, last: Operation, update: Affine, sums: Operand | None, x: Operand, h: Operand
    ) -> Iterator[Cell]:
        """Yield a GRU with this update gate, and sums of the candidate."""
        whole = self._affine(sums)
        for gated in () if whole is None else [o for o in whole.products if o is not x]:
            for reset, state in self._factors(self.writers.get(gated)):
                gate = self._gate(reset, LOGISTIC)
                if gate is None or whole is None or before_reshapes(self.writers, state) is not h:
                    continue
                if gate.only(x, h) and whole.only(x, gated):
                    new = Affine({x: whole.products[x], h: whole.products[gated]}, whole.bias)
                    stacked = _stacked([update, gate, new], x, h)
                    yield Cell("gru_recurrence", {}, x, (h,), last.outputs, *stacked)
        total = self._written(sums, *_SUMS)
        for outside, product in () if total is None else _both(total):
            of_x = self._affine(outside)
            for reset, inner in self._factors(self.writers.get(product)):
                gate, of_h = self._gate(reset, LOGISTIC), self._affine(inner)
                if gate is None or of_x is None or of_h is None or not gate.only(x, h):
                    continue
                if of_x.only(x) and of_h.only(h):
                    new = Affine({**of_x.products, **of_h.products}, of_x.bias)
                    stacked = _stacked([gate, update, new], x, h)
                    yield Cell("gru_reset_after", {}, x, (h,), last.outputs, *stacked, inside=of_h.bias)

    def _mixtures(self, last: Operation) -> Iterator[tuple[Operand, Operand, Operand]]:
        """Yield h, n and z, if an operation may compute (1 - z) n + z h."""
        for first, second in _both(last) if last.definition in _SUMS else ():
            for difference, gate in self._factors(self.writers.get(first)):
                away = self._written(difference, SUB)
                if away is not None and away.inputs[0] is not None and away.inputs[1] is second:
                    yield away.inputs[0], second, gate
            for (rest, n), (gate, h) in self._products(first, second):
                if self._is_rest(rest, gate):
                    yield h, n, gate

    def _is_rest(self, rest: Operand, gate: Operand) -> bool:
        """Tell whether an operand is 1 - gate."""
        difference, total = self._written(rest, SUB), self._written(rest, *_SUMS)
        if difference is not None:
            return number(difference.inputs[0]) == 1 and difference.inputs[1] is gate
        return total is not None and any(
            number(one) == 1 and gate in negated(self.writers, less) for less, one in _both(total)
        )

    def _written(self, operand: Operand | None, *ops: object) -> Operation | None:
        """Return the operation of one of these ops that computes an operand, or what that is a reshape of."""
        found = self.writers.get(before_reshapes(self.writers, operand))
        return found if found is not None and found.definition in ops and found.activation is None else None

    def _factors(self, product: Operation | None) -> Iterator[tuple[Operand, Operand]]:
        """Yield both factors of a product, in each order."""
        if product is not None and product.definition in _PRODUCTS and product.activation is None:
            yield from _both(product)

    def _products(
        self, first: Operand, second: Operand
    ) -> Iterator[tuple[tuple[Operand, Operand], tuple[Operand, Operand]]]:
        """Yield the factors of two products, in each order."""
        products = [self._written(o, *_PRODUCTS) for o in (first, second)]
        yield from ((a, b) for a in self._factors(products[0]) for b in self._factors(products[1]))

    def _gate(self, operand: Operand, op: object) -> Affine | None:
        """Return what an operand is the activation of."""
        function = self._written(operand, op)
        return None if function is None else self._affine(function.inputs[0])

    def _affine(self, operand: Operand | None) -> Affine | None:
        """Return the sum of products that an operand is in each row; None if it is something else."""
        before = before_reshapes(self.writers, operand)
        if operand is None or before is None or operand.type.shape[-1:] != before.type.shape[-1:]:
            return None
        operand = before
        if not operand.type.rank:
            return None
        if operand.value is not None:
            rows = operand.type.size == operand.type.shape[-1]
            return Affine({}, operand.value.reshape(-1).astype(np.float64)) if rows else None
        writer = self.writers.get(operand)
        if writer is None or writer.activation is not None or writer.integer:
            return None
        if writer.definition in _SUMS:
            return self._sum(writer)
        if writer.definition is fully_connected:
            return self._product(writer)
        piece = _piece(writer, operand)
        whole = None if piece is None else self._affine(writer.inputs[0])
        if piece is None or whole is None or len(whole.bias) < piece.stop:
            return None
        parts = {source: weights[piece] for source, weights in whole.products.items()}
        return Affine(parts, whole.bias[piece])

    def _sum(self, total: Operation) -> Affine | None:
        """Return the sum of what all operands of a sum are."""
        products: dict[Operand, Array] = {}
        bias = np.zeros(total.outputs[0].type.shape[-1])
        for operand in total.inputs:
            if (value := number(operand)) is not None:
                bias = bias + value
                continue
            part = self._affine(operand)
            if part is None or len(part.bias) != len(bias):
                return None
            bias = bias + part.bias
            for source, weights in part.products.items():
                products[source] = products[source] + weights if source in products else weights
        return Affine(products, bias)

    def _product(self, product: Operation) -> Affine | None:
        """Return a product with constant weights."""
        x, filter, *rest = product.inputs
        bias, source = rest[0] if rest else None, before_reshapes(self.writers, x)
        if x is not None and source is not None and x.type.shape[-1:] != source.type.shape[-1:]:
            source = x  # which has other rows
        known = filter is not None and filter.value is not None and not filter.hybrid
        if source is None or filter is None or not known or (bias is not None and bias.value is None):
            return None
        if product.outputs[0].hybrid or filter.type.dtype is not DType.FLOAT32:
            return None
        assert filter.value is not None
        weights = filter.value.astype(np.float64)
        added = np.zeros(len(weights)) + (0 if bias is None or bias.value is None else bias.value)
        return Affine(self._by_source(source, weights), added)

    def _by_source(self, source: Operand, weights: Array) -> dict[Operand, Array]:
        """Return what is multiplied, with its weights: the parts of x and h side by side, if these are."""
        joined, found, last = self._written(source, concat), dict[Operand, Array](), source.type.rank - 1
        if joined is None or joined.call().axis(joined.attrs["axis"], source.type.rank) != last:
            return {source: weights}
        first = 0
        for operand in joined.inputs:
            part = before_reshapes(self.writers, operand)
            if operand is None or part is None or part in found:
                return {source: weights}
            found[part] = weights[:, first : first + operand.type.shape[-1]]
            first += operand.type.shape[-1]
        return found


def _both(operation: Operation) -> Iterator[tuple[Operand, Operand]]:
    """Yield both operands of a sum or a product in each order, if it has two."""
    if len(operation.inputs) == 2:
        yield from pairs(operation)
        if operation.definition in (_ADD_N, _MUL_N):
            yield from (pair[::-1] for pair in pairs(operation))


def _two(affine: Affine) -> Iterator[tuple[Operand, Operand]]:
    """Yield the two operands that a sum has products of, in each order; x may be any of them."""
    if len(affine.products) == 2:
        a, b = affine.products
        yield from ((a, b), (b, a))


def _stacked(gates: Sequence[Affine], x: Operand, h: Operand) -> tuple[Array, Array, Array]:
    """Return the weights of x and of h, and the biases, of all gates, one after the other."""
    of_x, of_h = (np.concatenate([gate.products[source] for gate in gates]) for source in (x, h))
    return of_x, of_h, np.concatenate([gate.bias for gate in gates])


def _piece(taken: Operation, operand: Operand) -> slice | None:
    """Return which part of the last axis of its first operand an operation takes; None for others."""
    x = taken.inputs[0]
    if x is None or not x.type.rank:
        return None
    if taken.definition is split:
        axis = taken.call().axis(taken.attrs["axis"], x.type.rank)
        first = sum(o.type.shape[-1] for o in taken.outputs[: taken.outputs.index(operand)])
        return slice(first, first + operand.type.shape[-1]) if axis == x.type.rank - 1 else None
    if taken.definition is not strided_slice or taken.attrs["shrink_axes"]:
        return None
    *rows, last = selection(taken.call())
    whole = [range(n) for n in x.type.shape[:-1]] == rows
    return slice(last.start, last.stop) if whole and last.step == 1 and len(last) else None
