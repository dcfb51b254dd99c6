"""Products with a filter, made ready for many runs on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpunn.ops.call import Call
from gpunn.ops.contraction.channelwise import add_bias, long_row
from gpunn.types import Array

Made = TypeVar("Made")
Sums = Callable[[Array], Array]  # computes sums of products from the first operand


def constants_only(call: Call) -> bool:
    """Tell whether filter and bias are constants, so that all that follows from them can be kept."""
    return call.constant[1] and (not call.has(2) or call.constant[2])


def kept(call: Call, make: Callable[[Array, Array | None], Made]) -> Callable[[Array, Array | None], Made]:
    """Return what makes something of a filter and a bias, and keeps it for the next run of constants."""
    known: list[tuple[Array, Array | None, Made]] = []

    def made(filter: Array, bias: Array | None) -> Made:
        for of_filter, of_bias, found in known:
            if of_filter is filter and of_bias is bias:
                return found
        found = make(filter, bias)
        if constants_only(call):
            known[:] = [(filter, bias, found)]
        return found

    return made


def prepared(call: Call, sums: Callable[[Array], Sums]) -> Callable[..., Array]:
    """Return a function of x, filter and bias for many runs of a call; `sums` makes the sums of a filter."""

    def make(filter: Array, bias: Array | None) -> tuple[Sums, Array | None]:
        return sums(filter), None if bias is None else long_row(bias)

    made = kept(call, make)

    def compute(x: Array, filter: Array, bias: Array | None = None) -> Array:
        summed, row = made(filter, bias)
        return add_bias(summed(x), row)

    return compute
