"""Normalisations: softmax."""

from __future__ import annotations

import numpy as np

from gpunn.kernel import Kernel, Read, ceil_div, flat_threads, size_of
from gpunn.ops.check import FLOATS, expect_dtype, expect_float, expect_int
from gpunn.ops.op import Call, Op, op
from gpunn.types import Array, TensorType

_GROUP = 64
_SHORT = 64  # elements: up to here a row is one invocation's work


def _infer_softmax(call: Call) -> TensorType:
    x = expect_dtype(call, 0, *FLOATS)
    call.axis(expect_int(call, "axis", call["axis"]), x.rank)
    beta = expect_float(call, "beta")
    if not 0 < beta < float("inf"):
        call.fail(f"beta must be a positive number, got {beta}")
    return x


def _softmax_kernel(call: Call) -> Kernel:
    shape = call.x.shape
    axis = call.axis(call["axis"], len(shape))
    inner = size_of(shape[axis + 1 :])
    rows = call.x.size // max(shape[axis], 1)
    long = shape[axis] > _SHORT
    across, down = (_GROUP, 1) if long else (1, _GROUP)
    x, y, _ = flat_threads(ceil_div(rows, down) * across, across)
    return Kernel(
        body="softmax",
        threads=(x, y * down, 1),
        workgroup=(across, down, 1),
        reads=(Read("x", 0),),
        params={"rows": rows, "length": shape[axis], "inner": inner, "beta": float(call["beta"])},
        reason="one workgroup per row" if long else "one invocation per row",
    )


@op(_infer_softmax, _softmax_kernel)
def softmax(x: Array, *, axis: int = -1, beta: float = 1.0) -> Array:
    """exp(beta (x - max)) / sum(exp(beta (x - max))), maximum and sum taken along `axis`.

    Shapes: any of rank 1 or more; the result has x's. dtype: float32 or float16. A row that holds NaN
    or +inf, or nothing but -inf, is NaN throughout. Raises ModelError for other dtypes, for an axis out
    of range, and unless 0 < beta. Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32).
    NeuralNetworks.h, ANEURALNETWORKS_SOFTMAX (last axis of ranks 2 and 4 there); TFLite schema,
    SoftmaxOptions.
    """
    if not x.size:
        return x
    shifted = np.exp(x.dtype.type(beta) * (x - np.max(x, axis=axis, keepdims=True)))
    return np.asarray(shifted / np.sum(shifted, axis=axis, keepdims=True))


OPS: tuple[Op, ...] = (softmax,)
