"""Softmax of rows, as a loop whose rows have machine code of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.gates import exponential
from gpunn.ops.compiled.vectors import Code, Place
from gpunn.types import Array

# Added to an exponential, and subtracted again: what is so small that a quotient of it might be subnormal
# becomes 0. A CPU multiplies subnormal numbers up to a hundred times as slowly.
_NOTHING = 1e-28


def softmax(some: tuple[int, int], x: Array, beta: Any, out: Array) -> None:
    """Write e^(beta (x - m)) over the sum of these in some rows [C] of float32 x [R, C].

    m: the row's maximum.
    """
    for row in range(*some):
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
    code.each(source, length, lowest, compare)
    most = code.splat(code.reduced(lambda a, b: code.bounded("<", a, b), of.load(best)))
    factor = code.splat(beta)

    def exponentials(numbers: Any, place: Place, new: Any) -> None:
        terms = exponential(code, of.fmul(of.fsub(numbers, most), factor))
        terms = of.fsub(of.fadd(terms, nothing), nothing)
        added = terms if new is None else of.select(new, terms, kind(None))
        of.store(of.fadd(of.load(total), added), total)
        place(terms, target)

    of.store(kind(None), total)
    code.each(source, length, lowest, exponentials)
    share = of.fdiv(kind([1.0] * code.lanes), code.splat(code.reduced(of.fadd, of.load(total))))

    def divide(terms: Any, place: Place, new: Any) -> None:
        scaled = of.fmul(terms, share)
        place(scaled if new is None else of.select(new, scaled, terms), target)

    code.each(target, length, lowest, divide)
