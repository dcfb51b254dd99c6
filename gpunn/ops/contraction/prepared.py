"""Products with a filter, made ready for many runs on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import Loops, current
from gpunn.ops.contraction.blocks import Sums, Terms
from gpunn.ops.contraction.channelwise import FEW_RESULTS, add_bias, by_long_rows, long_row
from gpunn.ops.elementwise.unary import activating
from gpunn.ops.fixed_point.affine import CLAMPS
from gpunn.ops.memory import empty
from gpunn.types import Array, Shape

FEW_PIXELS = 1024  # of results for which another copy of a filter is worth its memory
MOST_WEIGHTS = 1 << 20  # of such a filter
SMALL_PRODUCT = 1 << 20  # multiplications; OpenBLAS computes those up to 100^3 without packing

Made = TypeVar("Made")
Sum = Callable[[Array, Terms], Sums]  # makes the sums of a filter
Ends = tuple[np.float32, np.float32]
UNBOUNDED: Ends = (np.float32(-np.inf), np.float32(np.inf))
Write = Callable[[Array, Array], None]  # computes from x, into the result
Whole = Callable[[Loops, Array, Array, Ends], Write | None]  # of a filter, a bias, and ends of the results


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


def prepared(call: Call, sums: Sum, whole: Whole | None = None) -> Callable[..., Array]:
    """Return a function of x, filter and bias for many runs of a call; `sums` makes the sums of a filter.

    The function applies the activation of the call, too. whole: makes all of it of a compiled loop.
    """
    activation = call.attrs.get("activation")
    ends = clamp_ends(activation)
    shape = call.y.shape

    def make(filter: Array, bias: Array | None) -> Write:
        loops = current() if filter.dtype == np.float32 and ends is not None else None
        if loops is not None and ends is not None:
            numbers = np.zeros(shape[-1], np.float32) if bias is None else np.ascontiguousarray(bias)
            made_whole = None if whole is None else whole(loops, filter, numbers, ends)
            if made_whole is not None:
                return made_whole
            compiled = loops.finish
            return _writing(
                sums(filter, Terms(filter.dtype)), shape, lambda part: compiled(part, numbers, *ends)
            )
        finish = _finisher(bias, activation, filter.dtype, call.y.size <= FEW_RESULTS)
        return _writing(sums(filter, Terms(filter.dtype)), shape, finish)

    made = kept(call, make)

    def compute(x: Array, filter: Array, bias: Array | None = None) -> Array:
        result = empty(shape, x.dtype)
        made(filter, bias)(x, result)
        return result

    return by_long_rows(compute, call.y.size)


def _finisher(
    bias: Array | None, activation: str | None, dtype: np.dtype[Any], few: bool
) -> Callable[[Array], None]:
    """Return what adds a bias [C] to a block of sums [pixels, C], and applies an activation."""
    row = None if bias is None or few else long_row(bias)
    activate = activating(activation, dtype)

    def finish(part: Array) -> None:
        if few and bias is not None:
            part += bias
        add_bias(part, row)
        if activation is not None:
            found = activate(part)
            if found is not part:
                part[...] = found

    return finish


def _writing(sums: Sums, shape: Shape, finish: Callable[[Array], None]) -> Write:
    """Return what writes sums of a shape, and finishes each block of them."""
    rows = math.prod(shape[:-1]), shape[-1]
    at_once = sums.at_once(rows[0])

    def write(x: Array, result: Array) -> None:
        pixels = result.reshape(rows)
        if at_once is not None:
            at_once(x, pixels)
            finish(pixels)
            return
        for _, _, part in sums(x, lambda first, last: pixels[first:last]):
            finish(part)

    return write


def clamp_ends(activation: str | None) -> Ends | None:
    """Return the least and the greatest result of an activation that is a clamp, or of none."""
    if activation is None:
        return UNBOUNDED
    if activation not in CLAMPS:
        return None
    low, high = CLAMPS[activation]
    return np.float32(-np.inf if low is None else low), np.float32(np.inf if high is None else high)
