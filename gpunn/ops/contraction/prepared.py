"""Products with a filter, made ready for many runs on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.contraction.blocks import Sums, Terms
from gpunn.ops.contraction.channelwise import add_bias, by_long_rows, long_row
from gpunn.ops.elementwise.unary import activate
from gpunn.ops.memory import empty
from gpunn.types import Array

FEW_PIXELS = 1024  # of results for which another copy of a filter is worth its memory
MOST_WEIGHTS = 1 << 20  # of such a filter
SMALL_PRODUCT = 1 << 20  # multiplications; OpenBLAS computes those up to 100^3 without packing

Made = TypeVar("Made")
Sum = Callable[[Array, Terms], Sums]  # makes the sums of a filter


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


def matrix_of(call: Call, filter: Array) -> Array:
    """Return a filter [O, K] as the matrix [K, O] that the pixels of a result are multiplied with.

    For few pixels a constant one becomes dense, which BLAS reads in less time. The bits are the same:
    OpenBLAS has another order of summation for a dense matrix only in products up to SMALL_PRODUCT.
    """
    pixels = math.prod(call.y.shape[:-1])
    exact = call.x.quantization is not None
    same = exact or (filter.dtype == np.float32 and pixels * filter.size > SMALL_PRODUCT)
    small = pixels <= FEW_PIXELS and filter.size <= MOST_WEIGHTS
    if constants_only(call) and same and small and pixels > 1:
        return np.ascontiguousarray(filter.T)
    return filter.T


def prepared(call: Call, sums: Sum) -> Callable[..., Array]:
    """Return a function of x, filter and bias for many runs of a call; `sums` makes the sums of a filter.

    The function applies the activation of the call, too.
    """
    activation = call.attrs.get("activation")
    shape = call.y.shape

    def make(filter: Array, bias: Array | None) -> tuple[Sums, Array | None]:
        return sums(filter, Terms(filter.dtype)), None if bias is None else long_row(bias)

    made = kept(call, make)

    def compute(x: Array, filter: Array, bias: Array | None = None) -> Array:
        write, row = made(filter, bias)
        result = empty(shape, x.dtype)
        pixels = result.reshape(math.prod(shape[:-1]), shape[-1])
        for _, _, part in write(x, lambda first, last: pixels[first:last]):
            add_bias(part, row)
            found = activate(part, activation)
            if found is not part:
                part[...] = found
        return result

    return by_long_rows(compute)
