"""The gradients of normalisations."""

from __future__ import annotations

import math

import numpy as np

from gpunn.ops.gradient import Backward, Symbol, by_operand


def _total(back: Backward, x: Symbol) -> Symbol:
    """Return the sum along the attribute `axis`, which stays as 1."""
    return x.summed([back["axis"] % len(x.shape)], keep_dims=True)


def _softmax(back: Backward) -> Symbol:
    g, y = back.g, back.y
    found = y * (g - _total(back, g * y))
    return found if back["beta"] == 1 else found * float(back["beta"])


def _log_softmax(back: Backward) -> Symbol:
    """Return g - softmax(x) sum(g): with cross entropy this is softmax less target, without a logarithm."""
    return back.g - back.y.of("exp") * _total(back, back.g)


def _l2(back: Backward) -> Symbol:
    """Return (g - y sum(g y)) / |x|, and 0 for a vector of zeros."""
    squares = _total(back, back.x * back.x)
    inverse = squares.of("equal", 0.0).of("select", back.g.symbol(0.0), squares.of("rsqrt"))
    return (back.g - back.y * _total(back, back.g * back.y)) * inverse


def _neighbours(back: Backward, x: Symbol) -> Symbol:
    """Return the sum over `radius` neighbours on both sides along the attribute `axis`."""
    axis = back["axis"] % len(x.shape)
    length = x.shape[axis]
    reach = min(back["radius"], length - 1)
    outer = math.prod(x.shape[:axis])
    rows = x.reshaped((outer, length, 1, -1 if outer * length else 0))
    size = 2 * reach + 1
    average = rows.of("average_pool2d", size=(size, 1), padding=((reach, reach), (0, 0)))
    places = np.arange(length)
    counts = np.minimum(places + reach, length - 1) - np.maximum(places - reach, 0) + 1
    return (average * average.constant(counts.reshape(-1, 1, 1))).reshaped(x.shape)


def _local_response(back: Backward) -> Symbol | None:
    """Return g / s^beta - 2 alpha beta x sum(g y / s), with s = bias + alpha sum(x^2) over the neighbours."""
    if not back.call.x.size:
        return None
    bias, alpha, beta = (float(back[name]) for name in ("bias", "alpha", "beta"))
    base = _neighbours(back, back.x * back.x) * alpha + bias
    direct = back.g * base.of("pow", -beta)
    return direct - back.x * _neighbours(back, back.g * back.y / base) * (2 * alpha * beta)


def _layer(back: Backward) -> Symbol | None:
    """Return (g - mean(g) - y mean(g y)) / spread; mean(g) only where a mean was taken out."""
    x = back.x
    axes = sorted({axis % len(x.shape) for axis in back["axes"]})
    share = 1 / max(math.prod(x.shape[axis] for axis in axes), 1)

    def mean(of: Symbol) -> Symbol:
        found: Symbol = of.summed(axes, keep_dims=True) * share
        return found

    if not back.call.x.size:
        return None
    away = x - mean(x) if back["centred"] else x
    inverse = (mean(away * away) + float(back["epsilon"])).of("rsqrt")
    found = back.g - back.y * mean(back.g * back.y)
    if back["centred"]:
        found = found - mean(back.g)
    result: Symbol = found * inverse
    return result


SOFTMAX = by_operand(_softmax)
LOG_SOFTMAX = by_operand(_log_softmax)
L2 = by_operand(_l2)
LAYER = by_operand(_layer)
LOCAL_RESPONSE = by_operand(_local_response)
