"""The logistic function, tanh, and products of x with such gates, on the host.

A function whose name begins with write_ writes what it makes of x to an array of the same shape, which may
be x. Compiled loops, where they are in use, write the same functions within the op's accuracy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpunn.ops.compiled import TOGETHER, real_loops
from gpunn.ops.compiled.gates import HARD, form_of
from gpunn.ops.compiled.sharing import OF_EXPONENTIALS, rows_divided
from gpunn.ops.memory import BLOCK, by_blocks
from gpunn.types import Array

# x logistic(x) stays at -1e-20 below this x, instead of coming still nearer to 0: the products of such small
# numbers with weights might be subnormal, and a CPU computes with subnormal numbers slowly.
LEAST = -50.0

Write = Callable[[Array, Array], None]  # a function whose name begins with write_

_LOGISTIC = form_of((-1,), of_one=True)
_SILU = form_of((-1,), least=LEAST)


def logistic(x: Array) -> Array:
    """Compute 1 / (1 + e^-x). NeuralNetworks.h, ANEURALNETWORKS_LOGISTIC."""
    return gated(write_logistic, x)


def write_logistic(x: Array, out: Array) -> None:
    """Write logistic(x)."""
    if by_loop(x, _LOGISTIC, out):
        return
    np.negative(x, out=out)
    np.exp(out, out=out)  # infinite far below 0, where the result is 0
    np.add(out, 1, out=out)
    np.divide(1, out, out=out)


def tanh(x: Array) -> Array:
    """Compute the hyperbolic tangent. NeuralNetworks.h, ANEURALNETWORKS_TANH."""
    return np.asarray(np.tanh(x))


def write_tanh(x: Array, out: Array) -> None:
    """Write tanh(x)."""
    np.tanh(x, out=out)


def silu(x: Array) -> Array:
    """Compute x logistic(x), also known as swish; about 0 if x is -inf.

    The gate: NeuralNetworks.h, ANEURALNETWORKS_LOGISTIC.
    """
    return gated(write_silu, x)


def write_silu(x: Array, out: Array) -> None:
    """Write silu(x)."""
    if by_loop(x, _SILU, out):
        return
    above = np.maximum(x, x.dtype.type(LEAST))  # so that -inf becomes no NaN
    np.negative(above, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.divide(above, out, out=out)


def hard_swish(x: Array) -> Array:
    """Compute x times (x + 3) / 6 between 0 and 1; 0 if x is -inf. TFLite schema, HARD_SWISH."""
    return gated(write_hard_swish, x)


def write_hard_swish(x: Array, out: Array) -> None:
    """Write hard_swish(x)."""
    if by_loop(x, HARD, out):
        return
    above = np.maximum(x, x.dtype.type(-3))  # so that -inf becomes no NaN
    gate = np.minimum(above, x.dtype.type(3))
    np.add(gate, 3, out=gate)
    np.divide(gate, 6, out=gate)
    np.multiply(above, gate, out=out)


LOOPED = (write_logistic, write_silu, write_hard_swish)  # of which float32 has a loop


def gated(write: Write, x: Array, out: Array | None = None) -> Array:
    """Return what `write` writes of x, which a loop goes through once, and numpy block by block."""
    at_once = real_loops() is not None and x.dtype == np.float32
    return by_blocks(write, x, block=max(1, x.size) if at_once else BLOCK, out=out)


def by_loop(x: Array, form: Array, out: Array) -> bool:
    """Write a function of a form of gpunn.ops.compiled.gates by a loop; return False where there is none."""
    loops, dense = real_loops(), x.flags.c_contiguous and out.flags.c_contiguous
    if loops is None or x.dtype != np.float32 or not dense:
        return False
    parts = rows_divided(x.size, x.size, TOGETHER, OF_EXPONENTIALS)
    loops.gated(parts, x.reshape(-1), form, out.reshape(-1))
    return True
