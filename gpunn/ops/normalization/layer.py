"""Layer normalisation: layer_normalization, with the mean taken out or, as RMSNorm, without."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpunn.kernel import Function, Kernel, Kernels, Write
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import ALONG_AXIS
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_bool, expect_dtype, expect_float, expect_int, expect_unquantised
from gpunn.ops.kernels.cooperative import CooperativeGroup
from gpunn.ops.normalization import gradients
from gpunn.ops.normalization.host_rows import prepare_layer
from gpunn.ops.normalization.long_rows import finished, folded, of_rows, row_kernels
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType


def _infer(call: Call) -> TensorType:
    expect_unquantised(call, 0, *FLOATS)
    x = expect_dtype(call, 0, *FLOATS)
    call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    expect_bool(call, "centred")
    epsilon = expect_float(call, "epsilon")
    if not 0 < epsilon < math.inf:
        call.fail(f"epsilon must be a positive number, got {epsilon}")
    return x


def _length(call: Call) -> int:
    return call.x.shape[call.axis(call["axis"], call.x.rank)]


def _kernels(call: Call) -> Kernels:
    length = _length(call)
    return row_kernels(
        call,
        "layer_normalization",
        lambda kernel, group: _of_long_rows(call, kernel, group, length),
        params={"share": 1 / max(length, 1), "epsilon": float(call["epsilon"])},
        constants={"CENTRED": int(call["centred"])},
    )


def _of_long_rows(call: Call, kernel: Kernel, group: CooperativeGroup, length: int) -> list[Kernel]:
    """Make the kernels for rows that one dispatch does not take: for the means, the spreads, the results."""
    total = of_rows(call, group.results) if call["centred"] else None
    squares = of_rows(call, group.results)
    functions = {
        "lowest": Function((), "T(0)"),  # for maxima, of which there are none
        "measure": Function(("x",), "x"),
        "relative": Function(("x", "top"), "x - top * T(p.share)"),
        "term": Function(("r",), "r * r"),
        "settle": Function(("sum",), "sqrt(sum * T(p.share) + T(p.epsilon))"),
        "finish": Function(("r", "sum", "settled"), "r / settled"),
    }
    kernel = replace(kernel, functions=functions)
    numbers = replace(kernel, functions={**functions, "term": Function(("r",), "r")})
    means = [] if total is None else folded(call, numbers, group, length, Write(output=total), LARGEST=0)
    spreads = folded(call, kernel, group, length, Write(output=squares), top=total, LARGEST=0)
    return [*means, *spreads, finished(call, kernel, total, squares)]


def _errors(evaluation: Evaluation) -> Array:
    """Return how far results may be off: by the errors of the mean, of the variance, and of the quotient.

    A mean of n terms is off by n + 1 eps of the mean of their sizes, and so is each difference from it, by
    one eps more of its own. These and n + 2 eps of the variance itself are what the variance is off by; a
    result is off by half of that, relative to variance + epsilon.
    """
    call, x = evaluation.call, evaluation.input(0)
    axis, n = call["axis"], _length(call)
    if not n:
        return np.zeros(())

    def mean(of: Array) -> Array:
        return np.asarray(np.mean(of, axis=axis, keepdims=True))

    centre = mean(x) if call["centred"] else 0.0
    away, wide = np.abs(x - centre), mean(np.square(x - centre)) + call["epsilon"]
    shift = (n + 1) * EPS * mean(np.abs(x)) + EPS * away if call["centred"] else np.zeros(())
    spread = mean(2 * away * shift + np.square(shift)) + (n + 4) * EPS * wide
    return np.asarray(shift / np.sqrt(wide) + np.abs(evaluation.results[0]) * (spread / wide / 2 + 6 * EPS))


@op(
    _infer,
    _kernels,
    precise=True,
    algebra=Algebra(axes=ALONG_AXIS),
    accuracy=Accuracy(formula=_errors),
    prepare=prepare_layer,
    gradient=gradients.LAYER,
)
def layer_normalization(x: Array, *, axis: int = -1, epsilon: float, centred: bool = True) -> Array:
    """Compute (x - mean) / sqrt(variance + epsilon), with mean and variance along `axis`.

    centred: False computes x / sqrt(mean of x^2 + epsilon), as RMSNorm does. Shapes: any of rank 1 or more;
    the result has x's shape. dtype: float32, float16. A scale and a bias are operations of their own behind
    it. Raises ModelError for other dtypes, an axis out of range, and unless 0 < epsilon. Accuracy: what n + 4
    roundings of the sums make of the result, n the length of the axis. Ba, Kiros and Hinton 2016, Layer
    Normalization, section 3; Zhang and Sennrich 2019, Root Mean Square Layer Normalization, section 4;
    NeuralNetwork.proto of Core ML, LayerNormalizationLayerParams.
    """
    if not x.size:
        return x
    wide = x.astype(np.result_type(x, np.float32))
    away = wide - np.mean(wide, axis=axis, keepdims=True) if centred else wide
    spread = np.mean(np.square(away), axis=axis, keepdims=True) + wide.dtype.type(epsilon)
    return np.asarray(away / np.sqrt(spread), x.dtype)


OPS: tuple[Op, ...] = (layer_normalization,)
