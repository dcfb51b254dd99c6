"""softmax of float32 on the host, for many runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpunn.kernel import ceil_div
from gpunn.ops.call import Call
from gpunn.ops.memory import BLOCK, empty
from gpunn.types import Array

# exp() of numbers up to HIGHEST is finite, and so are sums of MOST such terms. Beside a sum of LEAST, as many
# terms that are too small for float32 do not count. So the maximum of each row need not be subtracted.
HIGHEST = 64
LEAST = 1e-20
MOST = 1 << 24
FEW = 8  # rows, whose maxima take less time than what is around another call of numpy's

_ADD: Any = np.add.reduce  # the stubs take keepdims only as a literal
_HIGHEST: Any = np.maximum.reduce


def prepare_softmax(call: Call) -> Callable[[Array], Array]:
    """Return softmax of a call as a function of dense x."""
    axis, beta, dtype = call["axis"], np.asarray(call["beta"], call.x.dtype.numpy), call.x.dtype.numpy
    shape, length = call.x.shape, call.x.shape[axis]
    rows = math.prod(shape[:-1]), length
    if axis % len(shape) != len(shape) - 1 or rows[0] <= FEW or length > MOST:
        return lambda x: _relative(x, empty(shape, dtype), axis, beta)
    step, ones = max(1, ceil_div(BLOCK, length)), np.ones(length, dtype)

    def compute(x: Array) -> Array:
        result = empty(shape, dtype)
        source, target = x.reshape(rows), result.reshape(rows)
        for first in range(0, rows[0], step):
            _write_rows(source[first : first + step], target[first : first + step], beta, ones)
        return result

    return compute


def _relative(x: Array, terms: Array, axis: int, beta: Array) -> Array:
    """Write exp(beta (x - max)) / sum(exp(beta (x - max))) to `terms`; return these."""
    np.subtract(x, _HIGHEST(x, axis, None, None, True), out=terms)
    if beta != 1:
        np.multiply(terms, beta, out=terms)
    np.exp(terms, out=terms)
    terms /= _ADD(terms, axis, None, None, True)
    return terms


def _write_rows(x: Array, terms: Array, beta: Array, ones: Array) -> None:
    """Write softmax of each row. One maximum of all rows takes a fraction of the time of one of each."""
    scaled = x if beta == 1 else np.multiply(x, beta, out=terms)
    if _HIGHEST(scaled, None) <= HIGHEST:  # and none is NaN
        np.exp(scaled, out=terms)
        sums = terms.dot(ones)
        if np.minimum.reduce(sums) >= LEAST:
            np.divide(terms, sums[:, None], out=terms)
            return
    _relative(x, terms, 1, beta)
