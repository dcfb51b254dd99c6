"""Softmax of rows, as a loop whose rows have machine code of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.gates import exponential
from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

# Added to an exponential, and subtracted again: what is so small that a quotient of it might be subnormal
# becomes 0. A CPU multiplies subnormal numbers up to a hundred times as slowly.
_NOTHING = 1e-28

Place = Callable[[Any, Any], None]  # stores a vector, or what a row has of it, at its place in a row


def softmax(x: Array, beta: Any, out: Array) -> None:
    """Write e^(beta (x - m)) over the sum of these in a row [C] of float32 x [R, C]; m: the row's maximum."""
    for row in range(len(x)):
        softmax_row(x, beta, row, out)


def softmax_row(x: Array, beta: Any, row: int, out: Array) -> None:
    """Write what softmax() writes, for a row."""
    terms = np.exp((x[row] - x[row].max()) * beta)
    out[row] = terms / terms.sum()


def softmax_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of softmax_row()."""
    x, beta, row, out = operands
    of, kind = code.builder, code.of(x.data.type.pointee)
    length = of.extract_value(x.shape, 1)
    source, target = (of.gep(a.data, [of.mul(row, length)]) for a in (x, out))
    lowest, nothing = kind([-np.inf] * code.lanes), kind([_NOTHING] * code.lanes)
    best, total = (code.utils.alloca_once(of, kind) for _ in range(2))

    def compare(numbers: Any, _: Place, __: Any) -> None:
        of.store(code.bounded("<", of.load(best), numbers), best)

    of.store(lowest, best)
    _each(code, source, length, lowest, compare)
    most = code.splat(code.reduced(lambda a, b: code.bounded("<", a, b), of.load(best)))
    factor = code.splat(beta)

    def exponentials(numbers: Any, place: Place, new: Any) -> None:
        terms = exponential(code, of.fmul(of.fsub(numbers, most), factor))
        terms = of.fsub(of.fadd(terms, nothing), nothing)
        added = terms if new is None else of.select(new, terms, kind(None))
        of.store(of.fadd(of.load(total), added), total)
        place(terms, target)

    of.store(kind(None), total)
    _each(code, source, length, lowest, exponentials)
    share = of.fdiv(kind([1.0] * code.lanes), code.splat(code.reduced(of.fadd, of.load(total))))

    def divide(terms: Any, place: Place, new: Any) -> None:
        scaled = of.fmul(terms, share)
        place(scaled if new is None else of.select(new, scaled, terms), target)

    _each(code, target, length, lowest, divide)


def _each(code: Code, place: Any, length: Any, fill: Any, write: Callable[[Any, Place, Any], None]) -> None:
    """Let `write` write the code for the vectors of a row.

    The last one begins among the numbers of the one before; `write` gets which of its numbers are new. A row
    that is shorter than a vector is one, in which what it lacks is as in `fill`.
    """
    of, lanes = code.builder, code.index(code.lanes)

    def one(first: Any, new: Any = None) -> None:
        numbers = code.load(of.gep(place, [first]), fill.type)
        write(numbers, lambda found, target: code.store(found, of.gep(target, [first])), new)

    with of.if_else(of.icmp_signed("<", length, lanes)) as (short, long):
        with short:
            numbers = code.load_first(place, fill, length)
            write(numbers, lambda found, target: code.store_first(found, target, length), None)
        with long:
            whole = of.udiv(length, lanes)
            with code.utils.for_range(of, whole) as step:
                one(of.mul(step.index, lanes))
            left = of.sub(length, of.mul(whole, lanes))
            with of.if_then(of.icmp_signed(">", left, code.index(0))):
                one(of.sub(length, lanes), code.last_lanes(left))
