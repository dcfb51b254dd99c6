"""A loop over the steps of a gated recurrent unit becomes one recurrence.

coremltools writes the layers of PyTorch so. A round reads the row of x for its step, and from a list with a
row for each state the one that the round before has added; it adds its own, in the place of zeros or to them.
Of the products with x and with the state h there is one for each gate: r and z are logistic functions of
their sums, n = tanh(x + r product), and the new state is (1 - z) n + z h.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops import OPS
from gpunn.ops.contraction.matmul import fully_connected
from gpunn.ops.control import while_loop
from gpunn.ops.movement.basic import concat
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.fold import fold_constants
from gpunn.passes.forms import (
    ADD,
    MUL,
    SUB,
    Writers,
    before_reshapes,
    negated,
    number,
    pairs,
    readers_of,
    writers_of,
    written_by,
)
from gpunn.passes.loops import counted, is_plain, values_in_rounds
from gpunn.passes.prune import bypass_identities, prune_unread
from gpunn.passes.rewrite import with_others
from gpunn.passes.unrolled import LOGISTIC, TANH
from gpunn.types import Array, DType

_SCATTER, _GATHER, _ADD_N, _MUL_N = (OPS[name] for name in ("scatter_slices", "gather", "add_n", "mul_n"))
_SUMS, _PRODUCTS = (ADD, _ADD_N), (MUL, _MUL_N)

_Products = tuple[Operation, Operation, Operation]  # of the reset gate, the update gate, and the candidate


class _Weights(NamedTuple):
    """The filters of three products, one after the other, and their biases: of x, and of the state."""

    of_x: Array
    bias_of_x: Array
    of_h: Array
    bias_of_h: Array


class _Steps(NamedTuple):
    """The work of a loop: its list, the first row that it writes; x, the first row that it reads; weights.

    adds: it adds to what is in a row of the list.
    """

    list: int
    behind: int
    x: int
    first: int
    weights: _Weights
    adds: bool


def fuse_gru_loops(model: Graph) -> Graph:
    """Put a recurrence in the place of loops that compute the states of a GRU one after the other."""
    if all(o.definition is not while_loop for o in model.operations):
        return model
    folded = fold_constants(model)
    writers, readers = writers_of(folded), readers_of(folded)
    found: dict[Operation, list[Operation]] = {}
    for operation in folded.operations:
        loop = counted(operation) if operation.definition is while_loop and is_plain(operation) else None
        if loop is None or loop.attrs["condition"] is not None or not loop.attrs["rounds"]:
            continue
        steps = _steps_of(loop)
        read = {k for k, result in enumerate(loop.outputs) if readers[result]}
        made = None if steps is None or read != {steps.list} else _recurrence(writers, loop, steps)
        if made is not None:
            found[operation] = made
    return prune_unread(with_others(folded, found)) if found else model


def _steps_of(loop: Operation) -> _Steps | None:
    """Return what a loop computes, if it computes the states of a GRU."""
    body = bypass_identities(loop.attrs["body"])
    writers, readers = writers_of(body), readers_of(body)
    lists = [
        (k, scatter)
        for k, (given, kept) in enumerate(zip(body.inputs, body.outputs, strict=True))
        if (scatter := writers.get(kept)) is not None and _adds_row(scatter, given) and readers[given] == 2
    ]
    for k, scatter in lists:
        _, place, rows = scatter.inputs
        for of_x, of_h, h in _cells(writers, before_reshapes(writers, rows)):
            taken = [_row(writers, operand) for operand in (_common_input(writers, of_x), h)]
            weights = _weights(of_x, of_h)
            if None in taken or _common_input(writers, of_h) is not h or weights is None or place is None:
                continue
            (x, from_x), (state, from_list) = (t for t in taken if t is not None)
            fixed = x in body.inputs and body.outputs[body.inputs.index(x)] is x
            first = _in_order(loop, body, (from_x, from_list, place)) if fixed else None
            if first is not None and state is body.inputs[k]:
                adds = scatter.attrs["function"] is not None
                return _Steps(k, first[2], body.inputs.index(x), first[0], weights, adds)
    return None


def _adds_row(scatter: Operation, x: Operand) -> bool:
    """Tell whether an operation writes one row to a tensor [rows, batch, units], or adds it to that row."""
    if scatter.definition is not _SCATTER or scatter.inputs[0] is not x or x.type.rank != 3:
        return False
    attrs, (_, place, row) = scatter.attrs, scatter.inputs
    assert place is not None and row is not None
    rows = tuple(attrs["inserted_window_dims"]) == tuple(attrs["scatter_dims_to_operand_dims"]) == (0,)
    whole = place.type.size == 1 and row.type.size * x.type.shape[0] == x.type.size
    return rows and whole and attrs["function"] in (None, "sum") and x.type.dtype is DType.FLOAT32


def _cells(writers: Writers, state: Operand | None) -> Iterator[tuple[_Products, _Products, Operand]]:
    """Yield the products of x and of h, and h, if an operand is the state behind a step."""
    total = written_by(writers, state, *_SUMS)
    for new, old in () if total is None else _both(total):
        gated, kept = written_by(writers, new, *_PRODUCTS), written_by(writers, old, *_PRODUCTS)
        if gated is None or kept is None:
            continue
        for (rest, n), (update, h) in ((a, b) for a in _both(gated) for b in _both(kept)):
            if not _is_rest(writers, rest, update):
                continue
            for products in _gates(writers, update, n):
                of_x, of_h = zip(*products, strict=True)
                yield of_x, of_h, before_reshapes(writers, h) or h


def _both(operation: Operation) -> Iterator[tuple[Operand, Operand]]:
    """Yield both operands of a sum or a product in each order, if it has two."""
    if len(operation.inputs) == 2:
        yield from pairs(operation)
        if operation.definition in (_ADD_N, _MUL_N):
            yield from (pair[::-1] for pair in pairs(operation))


def _is_rest(writers: Writers, rest: Operand, gate: Operand) -> bool:
    """Tell whether an operand is 1 - gate."""
    difference, total = written_by(writers, rest, SUB), written_by(writers, rest, *_SUMS)
    if difference is not None:
        return number(difference.inputs[0]) == 1 and difference.inputs[1] is gate
    return total is not None and any(
        number(one) == 1 and gate in negated(writers, less) for less, one in _both(total)
    )


def _gates(
    writers: Writers, update: Operand, n: Operand
) -> Iterator[tuple[tuple[Operation, Operation], ...]]:
    """Yield the products of x and of h of the reset gate, the update gate, and the candidate n."""
    candidate = written_by(writers, n, TANH)
    total = None if candidate is None else written_by(writers, candidate.inputs[0], *_SUMS)
    for x, gated in () if total is None else _both(total):
        both, of_x = written_by(writers, gated, *_PRODUCTS), _product(writers, x)
        for reset, h in () if both is None or of_x is None else _both(both):
            of_h = _product(writers, h)
            for first in _sums(writers, reset) if of_h is not None else ():
                for second in _sums(writers, update):
                    assert of_x is not None and of_h is not None
                    yield first, second, (of_x, of_h)


def _sums(writers: Writers, gate: Operand) -> Iterator[tuple[Operation, Operation]]:
    """Yield the two products of which a gate is the logistic function of the sum, in each order."""
    function = written_by(writers, gate, LOGISTIC)
    total = None if function is None else written_by(writers, function.inputs[0], *_SUMS)
    for a, b in () if total is None else _both(total):
        first, second = _product(writers, a), _product(writers, b)
        if first is not None and second is not None:
            yield first, second


def _product(writers: Writers, operand: Operand) -> Operation | None:
    """Return the product with constant weights that computes an operand."""
    return written_by(writers, before_reshapes(writers, operand), fully_connected)


def _common_input(writers: Writers, products: Sequence[Operation]) -> Operand | None:
    """Return what all of the products are of."""
    first, *others = (before_reshapes(writers, product.inputs[0]) for product in products)
    return first if all(other is first for other in others) else None


def _row(writers: Writers, operand: Operand | None) -> tuple[Operand, Operand] | None:
    """Return of which tensor [rows, batch, elements] an operand is a row, and of which number."""
    taken = written_by(writers, operand, _GATHER)
    if taken is None or taken.attrs["axis"] != 0 or taken.attrs["batch_dims"] != 0:
        return None
    x, place = taken.inputs
    if x is None or place is None or place.type.size != 1 or x.type.rank != 3:
        return None
    return x, place


def _weights(of_x: _Products, of_h: _Products) -> _Weights | None:
    """Return the weights of products; None unless they are constant, and of gates with as many units."""
    found: list[Array] = []
    for products in (of_x, of_h):
        filters, biases = [], []
        for product in products:
            _, filter, *rest = product.inputs
            bias = rest[0] if rest else None
            if filter is None or filter.value is None or filter.hybrid or product.integer:
                return None
            if filter.value.dtype != np.float32 or (bias is not None and bias.value is None):
                return None
            filters.append(filter.value)
            given = None if bias is None else bias.value
            biases.append(np.zeros(len(filter.value), np.float32) if given is None else given)
        if len({filter.shape for filter in filters}) > 1:
            return None
        found += (np.concatenate(filters), np.concatenate(biases))
    made = _Weights(*found)
    return made if made.of_h.shape == (len(made.of_x), len(made.of_x) // 3) else None


def _in_order(loop: Operation, body: Graph, places: Sequence[Operand]) -> list[int] | None:
    """Return the first numbers of the rows that rounds read and write, if the next round has the next ones.

    places: of x, of the state before, and of the state behind, which lies next to that.
    """
    plain = Operation(loop.op, loop.inputs, loop.outputs, {**loop.attrs, "body": body}, loop.origin)
    values = values_in_rounds(plain, places, loop.attrs["rounds"])
    if values is None:
        return None
    found = np.array([[v.item() for v in values_of_round] for values_of_round in values])
    expected = found[0] + np.arange(len(found))[:, None]
    in_order = (found == expected).all() and found[0, 2] == found[0, 1] + 1
    return [int(v) for v in found[0]] if in_order and (found >= 0).all() else None


def _recurrence(writers: Writers, loop: Operation, steps: _Steps) -> list[Operation] | None:
    """Return what computes the list of a loop; None if it adds to what is no zero, or leaves the rows."""
    x, states, rounds = loop.inputs[steps.x], loop.inputs[steps.list], loop.attrs["rounds"]
    if x is None or states is None:
        return None
    (count, batch, units), end = states.type.shape, steps.first + rounds
    behind = steps.behind + rounds
    wide = (x.type.shape[1], x.type.shape[2]) == (batch, steps.weights.of_x.shape[1])
    if end > x.type.shape[0] or behind > count or not wide or 3 * units != len(steps.weights.of_h):
        return None
    if steps.adds and not _are_zeros(writers, states, steps.behind, behind):
        return None
    result = loop.outputs[steps.list]
    to = GraphExpansion.of([o for o in (x, states) if o.value is None], result.name, loop.origin)

    def rows(of: Operand, begin: int, end: int) -> Operand:
        zeros, ones = (0,) * 2, (1,) * 3
        until = (end, *of.type.shape[1:])
        return to.add("strided_slice", of, begin=(begin, *zeros), end=until, strides=ones)

    weights, inside = steps.weights, steps.weights.bias_of_h.copy()
    inside[: 2 * units] = 0
    outside = weights.bias_of_x.astype(np.float64) + (weights.bias_of_h - inside)
    flat = to.add("reshape", rows(x, steps.first, end), shape=(rounds * batch, x.type.shape[2]))
    sums = to.add("fully_connected", flat, to.constant(weights.of_x), to.constant(outside.astype(np.float32)))
    sums = to.add("reshape", sums, shape=(rounds, batch, 3 * units))
    before = to.add("reshape", rows(states, steps.behind - 1, steps.behind), shape=(batch, units))
    operands = sums, to.constant(weights.of_h), before, to.constant(inside[2 * units :].copy())
    _, y = to.results("gru_reset_after", *operands, time_major=True)
    parts = [rows(states, 0, steps.behind), y, *([rows(states, behind, count)] if behind < count else [])]
    return to.writing({to.add("concat", *parts, axis=0): result})


def _are_zeros(writers: Writers, states: Operand, begin: int, end: int) -> bool:
    """Tell whether a tensor has zeros in these rows: it is a constant, or has a constant part there."""
    if states.value is not None:
        return not states.value[begin:end].any()
    joined, row = written_by(writers, states, concat), 0
    if joined is None or joined.attrs["axis"] % states.type.rank:
        return False
    for part in joined.inputs:
        assert part is not None
        if row < end and row + part.type.shape[0] > begin:
            some = None if part.value is None else part.value[max(begin - row, 0) : end - row]
            if some is None or some.any():
                return False
        row += part.type.shape[0]
    return True
