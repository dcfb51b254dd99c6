"""SVDF in TFLite's integer arithmetic: the integer facet of ops.recurrent.svdf."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpunn.kernel import Function, Kernel, Param
from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import (
    LIMITS,
    activation_bounds,
    quantize_multiplier,
    ratio,
    rescale,
    scale_of,
    store,
    times,
    wrap32,
)
from gpunn.ops.op import Quantized
from gpunn.types import Array, DType

DTYPES = dict(enumerate((DType.INT8, DType.INT8, DType.INT16, DType.INT32, DType.INT16)))


def _scales(call: Call) -> tuple[float, float]:
    """Return the factors for products with the features and for sums over time."""
    x, features, time, state = (scale_of(call, call.input(k))[0] for k in (0, 1, 2, 4))
    y, _ = scale_of(call, call.outputs[1])
    return ratio(times(x, features), state), ratio(times(state, time), y)


def _check(call: Call) -> None:
    """Raise ModelError unless each tensor has one scale, and weights and states have zero points of 0."""
    _scales(call)
    if any(scale_of(call, call.input(k))[1] for k in (1, 2, 4)):
        call.fail("weights and state must have zero points of 0")
    if call.outputs[0].quantization != call.input(4).quantization:
        call.fail("the state must have one quantisation before and after")
    if call.outputs[1].dtype is DType.INT8:
        activation_bounds(call, call.outputs[1])


def _reference(
    call: Call, x: Array, features: Array, time: Array, bias: Array | None, state: Array
) -> tuple[Array, Array]:
    """Compute the op on integers: the newest entry and the sum are rescaled and clamped to 16 and 8 bits.

    TensorFlow Lite, kernels/internal/reference/svdf.h, EvalIntegerSVDF.
    """
    (zero_x, zero_y), (first, second) = (
        (scale_of(call, t)[1] for t in (call.x, call.outputs[1])),
        _scales(call),
    )
    # 16-bit products: exact in float64, for which there is a quick matrix product.
    centred, weights = x.astype(np.float64) - zero_x, features.astype(np.float64)
    newest = rescale(wrap32((centred @ weights.T).astype(np.int64)), *quantize_multiplier(first))
    newest = np.clip(newest, *LIMITS[DType.INT16])
    filters, memory = time.shape
    old = state.reshape(len(x), filters, memory)[:, :, :-1].astype(np.int64)
    kept = np.concatenate([old, newest[:, :, None]], axis=2)
    sums = np.sum(kept * time, axis=2).reshape(len(x), -1, call["rank"]).sum(axis=2)
    if bias is not None:
        sums = sums + bias
    y = rescale(wrap32(sums), *quantize_multiplier(second)) + zero_y
    moved = np.concatenate([kept[:, :, 1:], np.zeros_like(kept[:, :, :1])], axis=2)
    y_type = call.outputs[1]
    return moved.reshape(state.shape).astype(state.dtype), store(y, y_type, activation_bounds(call, y_type))


def of_integers(call: Call, real: Kernel) -> Kernel:
    """Convert the kernel for real numbers to one for integers."""
    zeros = [scale_of(call, t)[1] for t in (call.x, call.outputs[1])]
    factors = [quantize_multiplier(factor) for factor in _scales(call)]
    low, high = (bound - zeros[1] for bound in activation_bounds(call, call.outputs[1]))
    least, most = LIMITS[DType.INT16]
    functions = {
        "enter": Function(("x",), "x - p.first.z"),
        "entry": Function(("sum",), f"clamp(rescale(sum, p.first.x, p.first.y, true), {least}, {most})"),
        "apply": Function(
            ("x",), "clamp(rescale(x, p.second.x, p.second.y, true), p.bounds.x, p.bounds.y) + p.second.z"
        ),
    }
    params: dict[str, Param] = {
        name: (*factor, zero, 0)
        for name, factor, zero in zip(("first", "second"), factors, zeros, strict=True)
    }
    params["bounds"] = (low, high, 0, 0)
    return replace(
        real,
        functions=functions,
        params={**real.params, **params},
        libraries=("affine",),
        reason=f"integers: {real.reason}",
    )


INTEGER = Quantized(_reference, check=_check, mixed=True)
