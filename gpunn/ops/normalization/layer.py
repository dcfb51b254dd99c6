"""Layer, group and instance normalisation: layer_normalization, centred or, as RMSNorm, not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gpunn.kernel import Kernels, Unsupported, size_of
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.algebra import Algebra
from gpunn.ops.axes import Axes, alike
from gpunn.ops.call import Call
from gpunn.ops.check import (
    FLOATS,
    expect_axes,
    expect_bool,
    expect_dtype,
    expect_float,
    expect_ints,
    expect_unquantised,
)
from gpunn.ops.normalization import gradients
from gpunn.ops.normalization.host_rows import prepare_layer
from gpunn.ops.normalization.long_rows import row_kernels
from gpunn.ops.normalization.moments import Groups, groups_of, in_two_dispatches, takes_two
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType


def _infer(call: Call) -> TensorType:
    expect_unquantised(call, 0, *FLOATS)
    x = expect_dtype(call, 0, *FLOATS)
    expect_axes(call, expect_ints(call, "axes"), x.rank)
    expect_bool(call, "centred")
    epsilon = expect_float(call, "epsilon")
    if not 0 < epsilon < math.inf:
        call.fail(f"epsilon must be a positive number, got {epsilon}")
    return x


def _axes(call: Call) -> tuple[int, ...]:
    return expect_axes(call, call["axes"], call.x.rank)


def _length(call: Call) -> int:
    """Return how many elements a mean has."""
    return size_of(tuple(call.x.shape[axis] for axis in _axes(call)))


def _groups(call: Call) -> Groups | None:
    return groups_of(call.x.shape, _axes(call))


def _kernels(call: Call) -> Kernels:
    groups = _groups(call)
    if groups is None:
        raise Unsupported("means along dimensions that others divide more than once")
    run = groups.run if call.x.size else (1, 1)
    if run is None or (call.x.size and takes_two(call.device, groups)):
        return in_two_dispatches(call, groups)
    length, _ = run
    return row_kernels(
        call,
        "layer_normalization",
        run,
        lambda kernel, group: in_two_dispatches(call, groups),
        params={"share": 1 / max(length, 1), "epsilon": float(call["epsilon"])},
        constants={"CENTRED": int(call["centred"])},
    )


def _prepare(call: Call) -> Callable[[Array], Array] | None:
    groups = _groups(call)
    return None if groups is None else prepare_layer(call, groups)


def _errors(evaluation: Evaluation) -> Array:
    """Return how far results may be off: by the errors of the mean, of the variance, and of the quotient.

    A mean of n terms is off by n + 1 eps of the mean of their sizes, and so is each difference from it, by
    one eps more of its own. These and n + 2 eps of the variance itself are what the variance is off by; a
    result is off by half of that, relative to variance + epsilon. A GPU's sums, in parts of 512 terms or more
    by 64 invocations or more, have far fewer roundings one after the other, those of the parts included.
    """
    call, x = evaluation.call, evaluation.input(0)
    axes, n = _axes(call), _length(call)
    if not n:
        return np.zeros(())

    def mean(of: Array) -> Array:
        return np.asarray(np.mean(of, axis=axes, keepdims=True))

    centre = mean(x) if call["centred"] else 0.0
    away, wide = np.abs(x - centre), mean(np.square(x - centre)) + call["epsilon"]
    shift = (n + 1) * EPS * mean(np.abs(x)) + EPS * away if call["centred"] else np.zeros(())
    spread = mean(2 * away * shift + np.square(shift)) + (n + 4) * EPS * wide
    return np.asarray(shift / np.sqrt(wide) + np.abs(evaluation.results[0]) * (spread / wide / 2 + 6 * EPS))


@op(
    _infer,
    _kernels,
    precise=True,
    algebra=Algebra(axes=Axes(space=alike, axes=("axes",))),
    accuracy=Accuracy(formula=_errors),
    prepare=_prepare,
    gradient=gradients.LAYER,
)
def layer_normalization(
    x: Array, *, axes: Sequence[int] = (-1,), epsilon: float, centred: bool = True
) -> Array:
    """Compute (x - mean) / sqrt(variance + epsilon), with mean and variance along `axes`.

    Along the pixels this is instance normalisation, and along these and a dimension of each group's channels
    group normalisation. centred: False computes x / sqrt(mean of x^2 + epsilon), as RMSNorm does. Shapes:
    any; the result has x's shape. The axes may be negative, repeated, all, or none; a GPU takes those that
    others divide once. dtype: float32, float16. A scale and a bias are operations of their own behind it.
    Raises ModelError for other dtypes, an axis out of range, and unless 0 < epsilon. Accuracy: what n + 4
    roundings of the sums make of the result, for means of n elements. Ba, Kiros and Hinton 2016, Layer
    Normalization, section 3; Zhang and Sennrich 2019, Root Mean Square Layer Normalization, section 4; Wu and
    He 2018, Group Normalization, section 3; NeuralNetwork.proto of Core ML, LayerNormalizationLayerParams.
    """
    if not x.size:
        return x
    wide = x.astype(np.result_type(x, np.float32))
    which = tuple({axis % x.ndim for axis in axes})
    away = wide - np.mean(wide, axis=which, keepdims=True) if centred else wide
    spread = np.mean(np.square(away), axis=which, keepdims=True) + wide.dtype.type(epsilon)
    return np.asarray(away / np.sqrt(spread), x.dtype)


OPS: tuple[Op, ...] = (layer_normalization,)
