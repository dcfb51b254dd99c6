"""Sums of products with constant weights and of constants: what gates of recurrent layers are functions of.

Converters divide them in many ways: one product of all that is multiplied, side by side, or one for each; one
for all gates, of which each takes a piece; biases in products, or added to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpunn.graph.operation import Operand, Operation
from gpunn.graph.writers import Writers, before_reshapes
from gpunn.ops import OPS
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.ops.movement.basic import concat
from gpunn.ops.movement.split import split
from gpunn.ops.movement.strided_slice import selection, strided_slice
from gpunn.passes.forms import ADD, number, written_by
from gpunn.types import Array, DType

ADD_N = OPS["add_n"]
SUMS = ADD, ADD_N


class Weights(NamedTuple):
    """Rows and columns of a filter; of the identity without one, for what is added as it is."""

    filter: Operand | None
    rows: range
    columns: range

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of sums, and of elements that are multiplied."""
        return len(self.rows), len(self.columns)

    def of(self, rows: range) -> Weights:
        """Return those of some of the sums."""
        return self._replace(rows=self.rows[rows.start : rows.stop])

    @property
    def is_identity(self) -> bool:
        """Tell whether the sums are what is multiplied."""
        return self.filter is None and self.rows == self.columns

    def value(self) -> Array:
        """Return the weights [sums, elements], which have a filter."""
        assert self.filter is not None and self.filter.value is not None
        rows, columns = (slice(r.start, r.stop) for r in (self.rows, self.columns))
        return self.filter.value[rows, columns]


def stacked(weights: Sequence[Weights]) -> tuple[Weights, ...]:
    """Return weights one after the other, as few as possible."""
    found: list[Weights] = []
    for part in weights:
        last = found[-1] if found else part
        joined = range(last.rows.start, part.rows.stop)
        if found and last == part._replace(rows=last.rows) and last.rows.stop == part.rows.start:
            found[-1] = part._replace(rows=joined)
        else:
            found.append(part)
    return tuple(found)


class Affine(NamedTuple):
    """A sum of products, of each source with its weights, and of a bias in float64."""

    products: dict[Operand, Weights]
    bias: Array

    def only(self, *sources: Operand) -> bool:
        """Tell whether these, and no others, are multiplied."""
        return self.products.keys() == {*sources}


@dataclass(frozen=True, slots=True)
class Affines:
    """Finds sums of products in the rows of operands of a graph, each once.

    same: the filters that others are equal to.
    """

    writers: Writers
    same: Mapping[Operand, Operand] = field(default_factory=dict)
    _found: dict[Operand, Affine] = field(default_factory=dict)

    def of(self, operand: Operand | None) -> Affine | None:
        """Return the sum that an operand is in each row; what nothing is known of is its own source."""
        before = before_reshapes(self.writers, operand)
        if operand is None or before is None or operand.type.shape[-1:] != before.type.shape[-1:]:
            return None
        if not before.type.rank or not before.type.size or before.type.dtype is not DType.FLOAT32:
            return None
        if before.value is not None:
            rows = before.value.reshape(-1, before.type.shape[-1]).astype(np.float64)
            return Affine({}, rows[0]) if (rows == rows[0]).all() else None
        if before not in self._found:
            writer = self.writers.get(before)
            found = None if writer is None else self._computed(writer, before)
            self._found[before] = found or _as_it_is(before)
        return self._found[before]

    def _computed(self, writer: Operation, result: Operand) -> Affine | None:
        """Return the sum that an operation computes, or takes a piece of; None if it does something else."""
        if writer.activation is not None or writer.integer:
            return None
        if writer.definition in SUMS:
            return self.sum(writer)
        if writer.definition is fully_connected:
            return self._product(writer)
        piece = _piece(writer, result)
        whole = None if piece is None else self.of(writer.inputs[0])
        if piece is None or whole is None or len(whole.bias) < piece.stop:
            return None
        parts = {source: weights.of(piece) for source, weights in whole.products.items()}
        return Affine(parts, whole.bias[piece.start : piece.stop])

    def sum(self, total: Operation) -> Affine | None:
        """Return the sum of all operands of an operation; None if one source has several products."""
        products: dict[Operand, Weights] = {}
        bias = np.zeros(total.outputs[0].type.shape[-1])
        for operand in total.inputs:
            if (value := number(operand)) is not None:
                bias = bias + value
                continue
            part = self.of(operand)
            if part is None or len(part.bias) != len(bias) or part.products.keys() & products.keys():
                return None
            bias = bias + part.bias
            products.update(part.products)
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
        count = filter.type.shape[0]
        added = np.zeros(count) + (0 if bias is None or bias.value is None else bias.value)
        return Affine(self._by_source(source, self.same.get(filter, filter), range(count)), added)

    def _by_source(self, source: Operand, filter: Operand, rows: range) -> dict[Operand, Weights]:
        """Return what is multiplied, with its weights: the parts of x and h side by side, if these are."""
        whole = {source: Weights(filter, rows, range(filter.type.shape[1]))}
        joined, last = written_by(self.writers, source, concat), source.type.rank - 1
        if joined is None or joined.call().axis(joined.attrs["axis"], last + 1) != last:
            return whole
        found, first = dict[Operand, Weights](), 0
        for operand in joined.inputs:
            part = before_reshapes(self.writers, operand)
            if operand is None or part is None or part in found:
                return whole
            end = first + operand.type.shape[-1]
            if part.value is None or part.value.any():
                found[part] = Weights(filter, rows, range(first, end))
            first = end
        return found


def _as_it_is(source: Operand) -> Affine:
    """Return the sum of one source alone."""
    elements = range(source.type.shape[-1])
    return Affine({source: Weights(None, elements, elements)}, np.zeros(len(elements)))


def _piece(taken: Operation, operand: Operand) -> range | None:
    """Return which part of the last axis of its first operand an operation takes; None for others."""
    x = taken.inputs[0]
    if x is None or not x.type.rank:
        return None
    if taken.definition is split:
        axis = taken.call().axis(taken.attrs["axis"], x.type.rank)
        first = sum(o.type.shape[-1] for o in taken.outputs[: taken.outputs.index(operand)])
        return range(first, first + operand.type.shape[-1]) if axis == x.type.rank - 1 else None
    if taken.definition is not strided_slice or taken.attrs["shrink_axes"]:
        return None
    *rows, last = selection(taken.call())
    whole = [range(n) for n in x.type.shape[:-1]] == rows
    return last if whole and last.step == 1 and len(last) else None
