"""Normalisations of float32 on the host, for many runs: rows in blocks, and groups of channels.

numpy takes many times as long for the maximum of each of many rows as for one of all. So rows whose numbers
are of a moderate size are not divided by, and not reduced by, the largest of each. Others are computed as the
references do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.call import Call
from gpunn.ops.compiled import real_loops
from gpunn.ops.compiled.capture import of_loops
from gpunn.ops.compiled.sharing import OF_EXPONENTIALS, rows_divided
from gpunn.ops.memory import BLOCK, empty
from gpunn.ops.normalization.moments import Groups
from gpunn.types import Array, DType

# exp() of numbers up to HIGHEST is finite, and so are sums of MOST such terms. Beside a sum of LEAST, as many
# terms that are too small for float32 do not count. So it is with squares, in sums from LEAST to LARGEST.
HIGHEST = 64
LEAST = 1e-20
LARGEST = 1e30
# The logarithm of a sum of terms up to exp(MODERATE), and of LEAST_LOG or more, rounds by 1e-6 at most.
MODERATE = 15
LEAST_LOG = math.exp(-MODERATE)
MOST = 1 << 24
LOWEST = -87  # exp() of less is subnormal, with which a CPU's arithmetic takes up to a hundred times as long
NOTHING = np.float32(1e-28)  # beside LEAST, and so is a number that rounds away beside this one
WIDE = 512  # elements in a line, of which numpy takes no longer for each than in longer ones
SHORTEST = 16  # elements of a row that is worth a row of a compiled loop, where there are many
FEW = 8  # rows, whose maxima take less time than what is around another call of numpy's

Meaning = Callable[..., Array]
WriteRows = Callable[[Array, Array, Array], None]  # from some rows, into as many; with a one for each column

_ADD: Any = np.add.reduce  # the stubs take keepdims only as a literal
_HIGHEST: Any = np.maximum.reduce
_LOWEST: Any = np.minimum.reduce


def prepare_softmax(call: Call) -> Callable[[Array], Array]:
    """Return softmax of a call as a function of dense x."""
    axis, beta, dtype = call["axis"], np.asarray(call["beta"], call.x.dtype.numpy), call.x.dtype.numpy
    shape, in_rows = call.x.shape, _of_rows(call)
    few = math.prod(shape[:-1]) <= FEW
    loop = in_rows and call.x.dtype is DType.FLOAT32 and (few or shape[-1] >= SHORTEST)

    def compute(x: Array) -> Array:
        loops = real_loops() if loop else None
        if loops is not None:
            result = empty(shape, dtype)
            rows = x.reshape(-1, shape[-1])
            parts = rows_divided(len(rows), x.size, each=OF_EXPONENTIALS)
            loops.softmax(parts, rows, beta[()], result.reshape(rows.shape))
            return of_loops(result)
        if not in_rows or few:
            return _relative(x, empty(shape, dtype), axis, beta)
        return _in_blocks(partial(_write_softmax, beta), x)

    return compute


def prepare_log_softmax(meaning: Meaning, call: Call) -> Callable[[Array], Array] | None:
    """Return log_softmax of a call as a function of dense x; None for another axis than the last, or few
    rows.
    """
    if not _of_rows(call) or math.prod(call.x.shape[:-1]) <= FEW:
        return None
    return partial(_in_blocks, partial(_write_log_softmax, meaning))


def prepare_l2(meaning: Meaning, call: Call) -> Callable[[Array], Array] | None:
    """Return l2_normalization of a call as a function of dense x; None for very long vectors."""
    shape, axis = call.x.shape, call["axis"] % call.x.rank
    if shape[axis] > MOST or call.x.dtype is not DType.FLOAT32:
        return None
    if axis != call.x.rank - 1:
        return partial(_l2_apart, meaning, math.prod(shape[:axis]), axis)
    in_blocks = partial(_in_blocks, partial(_write_l2, meaning))

    def compute(x: Array) -> Array:
        found = _by_loop(x, x.shape[-1], 0.0)
        if found is None:
            return in_blocks(x)
        result, sums = found
        return result if _usual(sums) else in_blocks(x)

    return compute


def _usual(sums: Array) -> bool:
    """Tell whether square roots of sums of squares are as good as those of relative ones."""
    return bool(_LOWEST(sums, None) >= LEAST and _HIGHEST(sums, None) <= LARGEST)  # and none is NaN


def _l2_apart(meaning: Meaning, outer: int, axis: int, x: Array) -> Array:
    """Return l2_normalization of vectors whose elements do not lie side by side."""
    parts = x.reshape(outer, x.shape[axis], -1)
    sums = np.einsum("oli,oli->oi", parts, parts)
    if not _usual(sums):
        return meaning(x, axis=axis)
    result = empty(parts.shape, x.dtype)
    np.divide(parts, np.sqrt(sums)[:, None], out=result)
    return result.reshape(x.shape)


def prepare_layer(call: Call, groups: Groups) -> Callable[[Array], Array] | None:
    """Return layer_normalization of a call as a function of dense x; None for no elements or very many."""
    epsilon, centred = np.float32(call["epsilon"]), call["centred"]
    if not 0 < groups.outer * groups.inner <= MOST or not call.x.size:
        return None
    if groups.outer == 1:
        return partial(_in_rows, groups.inner, epsilon, centred)
    return partial(_in_groups, groups, epsilon, centred)


def _of_rows(call: Call) -> bool:
    """Tell whether rows lie along the last axis, and have few enough elements."""
    shape = call.x.shape
    return call["axis"] % len(shape) == len(shape) - 1 and shape[-1] <= MOST


def _in_blocks(write: WriteRows, x: Array, length: int = 0) -> Array:
    """Return what is written of the rows of x, some rows at a time, which stay in the CPU's cache.

    length: of a row, if that is not the last dimension.
    """
    length = length or x.shape[-1]
    result, ones = empty(x.shape, x.dtype), np.ones(length, x.dtype)
    source, target = x.reshape(-1, length), result.reshape(-1, length)
    step = max(1, ceil_div(BLOCK, length))
    for first in range(0, len(source), step):
        write(source[first : first + step], target[first : first + step], ones)
    return result


def _relative(x: Array, terms: Array, axis: int, beta: Array) -> Array:
    """Write exp(beta (x - max)) / sum(exp(beta (x - max))) to `terms`; return these."""
    np.subtract(x, _HIGHEST(x, axis, None, None, True), out=terms)
    if beta != 1:
        np.multiply(terms, beta, out=terms)
    _exponentials(terms, terms)
    terms /= _ADD(terms, axis, None, None, True)
    return terms


def _exponentials(x: Array, out: Array) -> None:
    """Write exp(x), and 0 where that is subnormal, as where a mask took 100 from scores."""
    if _LOWEST(x, None) < LOWEST:  # and none is NaN
        np.exp(np.maximum(x, LOWEST, out=out), out=out)
        np.add(out, NOTHING, out=out)
        np.subtract(out, NOTHING, out=out)
    else:
        np.exp(x, out=out)


def _write_softmax(beta: Array, x: Array, terms: Array, ones: Array) -> None:
    scaled = x if beta == 1 else np.multiply(x, beta, out=terms)
    if _HIGHEST(scaled, None) <= HIGHEST:  # and none is NaN
        _exponentials(scaled, terms)
        sums = terms.dot(ones)
        if _LOWEST(sums) >= LEAST:
            np.divide(terms, sums[:, None], out=terms)
            return
    _relative(x, terms, 1, beta)


def _write_log_softmax(meaning: Meaning, x: Array, out: Array, ones: Array) -> None:
    if _HIGHEST(x, None) <= MODERATE:  # and none is NaN
        sums = np.exp(x, out=out).dot(ones)
        if _LOWEST(sums) >= LEAST_LOG:
            np.subtract(x, np.log(sums)[:, None], out=out)
            return
    out[...] = meaning(x, axis=1)


def _by_loop(
    x: Array, length: int, epsilon: np.float32 | float, centred: bool = False, share: float = 1.0
) -> tuple[Array, Array] | None:
    """Return the rows of x normalised, and what their square roots are of; None without a loop."""
    loops = real_loops() if x.dtype == np.float32 and x.size else None
    if loops is None:
        return None
    rows, result = x.reshape(-1, length), empty(x.shape, x.dtype)
    spreads = empty((len(rows),), x.dtype)
    numbers = int(centred), np.float32(share), np.float32(epsilon)
    parts = rows_divided(len(rows), x.size)
    loops.row_norms(parts, rows, *numbers, spreads, result.reshape(rows.shape))
    return result, spreads


def _in_rows(length: int, epsilon: np.float32, centred: bool, x: Array) -> Array:
    """Return layer_normalization for means of elements that lie side by side."""
    found = _by_loop(x, length, epsilon, centred, 1 / length)
    if found is None:
        return _in_blocks(partial(_write_layer, epsilon, centred), x, length)
    return of_loops(found[0])


def _write_l2(meaning: Meaning, x: Array, out: Array, ones: Array) -> None:
    sums = np.multiply(x, x, out=out).dot(ones)
    if _usual(sums):
        np.divide(x, np.sqrt(sums)[:, None], out=out)
    else:
        out[...] = meaning(x, axis=1)


def _write_layer(epsilon: np.float32, centred: bool, x: Array, out: Array, ones: Array) -> None:
    share, away = np.float32(1 / len(ones)), x
    if centred:
        away = np.subtract(x, (x.dot(ones) * share)[:, None], out=out)
    spread = np.einsum("ij,ij->i", away, away) * share + epsilon
    np.divide(away, np.sqrt(spread)[:, None], out=out)


def _in_groups(groups: Groups, epsilon: np.float32, centred: bool, x: Array) -> Array:
    """Return layer_normalization for means of several runs of elements.

    Several lines, of all groups, count as one: numpy takes long for short ones.
    """
    batch, outer, count, inner = groups
    most = max(1, min(outer, WIDE // (count * inner)))
    together = next(n for n in range(most, 0, -1) if outer % n == 0)
    lines = x.reshape(batch, outer // together, together * count * inner)
    ones, share = np.ones((1, lines.shape[1]), np.float32), np.float32(1 / (outer * inner))

    def means(sums: Array) -> Array:
        parts = sums.reshape(batch, together, count, inner)
        return np.asarray(_ADD(parts, (1, 3), None, None, True) * share)

    def beside(means: Array) -> Array:
        return np.broadcast_to(means, (batch, together, count, inner)).reshape(batch, 1, -1)

    result, away = empty(lines.shape, x.dtype), lines
    if centred:
        away = np.subtract(lines, beside(means(np.matmul(ones, lines))), out=result)
    squares = np.einsum("bij,bij->bj", away, away)
    deviations = np.sqrt(means(squares) + epsilon)
    return np.divide(away, beside(deviations), out=result).reshape(x.shape)
