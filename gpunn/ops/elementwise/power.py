"""Powers: their meaning in numpy, how far off they may be, and those that are squares."""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Unsupported
from gpunn.ops.accuracy import EPS, GENERAL, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.types import Array


def power(a: Array, b: Array) -> Array:
    """Raise a to the power b; of integers, negative powers are truncated, and those of 0 are 0.

    TFLite schema, POW; NeuralNetwork.proto, PowBroadcastableLayerParams.
    """
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b))
    reciprocal = np.where(np.abs(a) == 1, np.where(b % 2 == 0, 1, a), 0)
    return np.asarray(np.where(b < 0, reciprocal, np.power(a, np.maximum(b, 0))), a.dtype)


def error(evaluation: Evaluation) -> Array:
    """Compute 5 eps |b ln a| |y|, because b multiplies an error of the logarithm."""
    a, b = evaluation.input(0), evaluation.input(1)
    return np.asarray(GENERAL * EPS * np.abs(b * np.log(np.abs(a)) * evaluation.results[0]))


def squared(call: Call, to: Expansion, a: Tensor, b: Tensor) -> Tensor:
    """Write a power of real numbers whose exponent is the constant 2 as their square."""
    constant = b.value is not None and b.value.size == 1 and b.value.item() == 2
    if not constant or call.y.dtype not in FLOATS or call.y.shape != call.x.shape:
        raise Unsupported("powers of real numbers with the exponent 2 are squares")
    return to.add("square", a)
