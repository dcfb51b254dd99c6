"""Layer and L2 normalisation of rows, as a loop whose rows have machine code of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Code, Place
from gpunn.types import Array


def row_norms(
    some: tuple[int, int], x: Array, centred: int, share: Any, epsilon: Any, spreads: Array, out: Array
) -> None:
    """Write (x - mean) / sqrt(spread) of some rows [C] of float32 x [R, C], and their spreads [R].

    spread: `share` times the sum of (x - mean)^2, plus epsilon. mean: 0 unless `centred`, which is 0 or 1.
    """
    for row in range(*some):
        normalize_row(x, centred, share, epsilon, row, spreads, out)


def normalize_row(
    x: Array, centred: int, share: Any, epsilon: Any, row: int, spreads: Array, out: Array
) -> None:
    """Write what row_norms() writes, for a row."""
    away = x[row] - x[row].mean() if centred else x[row]
    spreads[row] = share * np.square(away).sum() + epsilon
    out[row] = away * (np.float32(1) / np.sqrt(spreads[row]))


def normalize_row_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of normalize_row()."""
    x, centred, share, epsilon, row, spreads, out = operands
    of, kind = code.builder, code.of(x.data.type.pointee)
    length, zeros = of.extract_value(x.shape, 1), kind(None)
    source, target = (of.gep(a.data, [of.mul(row, length)]) for a in (x, out))
    mean, total = (code.utils.alloca_once(of, kind) for _ in range(2))

    def sum_of(function: Callable[[Any], Any]) -> Any:
        def add(numbers: Any, _: Place, new: Any) -> None:
            terms = function(numbers)
            added = terms if new is None else of.select(new, terms, zeros)
            of.store(of.fadd(of.load(total), added), total)

        of.store(zeros, total)
        code.each(source, length, zeros, add)
        return code.reduced(of.fadd, of.load(total))

    of.store(zeros, mean)
    with of.if_then(of.icmp_signed("!=", centred, code.index(0))):
        of.store(code.splat(of.fdiv(sum_of(lambda numbers: numbers), of.sitofp(length, share.type))), mean)
    middle = of.load(mean)

    def square(numbers: Any) -> Any:
        away = of.fsub(numbers, middle)
        return of.fmul(away, away)

    spread = of.fadd(of.fmul(sum_of(square), share), epsilon)
    of.store(spread, of.gep(spreads.data, [row]))
    factor = code.splat(of.fdiv(share.type(1.0), code.square_root(spread)))

    def scale(numbers: Any, place: Place, _: Any) -> None:
        place(of.fmul(of.fsub(numbers, middle), factor), target)

    code.each(source, length, zeros, scale)
