"""SVDF in TFLite's integer arithmetic: the integer facet of ops.recurrent.svdf."""

from __future__ import annotations

from collections.abc import Sequence
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

_TIME, _STATE = 2, 4  # the operands that are both int16, or both int8


def dtypes(call: Call) -> dict[int, DType]:
    """Return the element types of the operands; the state may be int8, as in TFLite Micro."""
    state = DType.INT8 if call.has(_STATE) and call.input(_STATE).dtype is DType.INT8 else DType.INT16
    return dict(enumerate((DType.INT8, DType.INT8, state, DType.INT32, state)))


def _scales(call: Call) -> tuple[float, float]:
    """Return the factors for products with the features and for sums over time."""
    x, features, time, state = (scale_of(call, call.input(k))[0] for k in (0, 1, 2, 4))
    y, _ = scale_of(call, call.outputs[1])
    return ratio(times(x, features), state), ratio(times(state, time), y)


def _check(call: Call) -> None:
    """Raise ModelError unless each tensor has one scale, and weights and states of int16 zero points of 0."""
    _scales(call)
    zeros = {k: scale_of(call, call.input(k))[1] for k in (1, _TIME, _STATE)}
    if zeros[1] or zeros[_TIME] or (zeros[_STATE] and call.input(_STATE).dtype is DType.INT16):
        call.fail("weights and a state of int16 must have zero points of 0")
    if call.outputs[0].quantization != call.input(4).quantization:
        call.fail("the state must have one quantisation before and after")
    if call.outputs[1].dtype is DType.INT8:
        activation_bounds(call, call.outputs[1])


def _zeros(call: Call) -> tuple[int, int, int]:
    """Return the zero points of x, the state and the result."""
    x, state, y = (scale_of(call, t)[1] for t in (call.x, call.input(_STATE), call.outputs[1]))
    return x, state, y


def _reference(
    call: Call, x: Array, features: Array, time: Array, bias: Array | None, state: Array
) -> tuple[Array, Array]:
    """Compute the op on integers: the newest entry and the sum are rescaled and clamped to their types.

    TensorFlow Lite, kernels/internal/reference/svdf.h, EvalIntegerSVDF. With a state of int8: TensorFlow Lite
    Micro, kernels/svdf_common.cc, EvalIntegerSvdfReference.
    """
    zero_x, zero_state, zero_y = _zeros(call)
    first, second = _scales(call)
    # 16-bit products: exact in float64, for which there is a quick matrix product.
    centred, weights = x.astype(np.float64) - zero_x, features.astype(np.float64)
    newest = rescale(wrap32((centred @ weights.T).astype(np.int64)), *quantize_multiplier(first))
    newest = np.clip(newest + zero_state, *LIMITS[call.input(_STATE).dtype])
    filters, memory = time.shape
    old = state.reshape(len(x), filters, memory)[:, :, :-1].astype(np.int64)
    kept = np.concatenate([old, newest[:, :, None]], axis=2)
    sums = np.sum((kept - zero_state) * time, axis=2).reshape(len(x), -1, call["rank"]).sum(axis=2)
    if bias is not None:
        sums = sums + bias
    y = rescale(wrap32(sums), *quantize_multiplier(second)) + zero_y
    moved = np.concatenate([kept[:, :, 1:], np.full_like(kept[:, :, :1], zero_state)], axis=2)
    y_type = call.outputs[1]
    return moved.reshape(state.shape).astype(state.dtype), store(y, y_type, activation_bounds(call, y_type))


def of_integers(call: Call, kernels: Sequence[Kernel]) -> list[Kernel]:
    """Convert the kernels for real numbers to kernels for integers."""
    x, state, y = _zeros(call)
    factors = [quantize_multiplier(factor) for factor in _scales(call)]
    low, high = (bound - y for bound in activation_bounds(call, call.outputs[1]))
    least, most = LIMITS[call.input(_STATE).dtype]
    entry = f"clamp(rescale(sum, p.entry.x, p.entry.y, true), {least} - p.entry.w, {most} - p.entry.w)"
    functions = {
        "enter": Function(("x",), "x - p.entry.z"),
        "entry": Function(("sum",), f"{entry} + p.entry.w"),
        "recall": Function(("v",), "v - p.entry.w"),
        "apply": Function(
            ("x",), "clamp(rescale(x, p.result.x, p.result.y, true), p.bounds.x, p.bounds.y) + p.result.z"
        ),
    }
    params: dict[str, Param] = {
        "entry": (*factors[0], x, state),
        "result": (*factors[1], y, 0),
        "bounds": (low, high, 0, 0),
    }
    return [
        replace(
            kernel,
            functions={**kernel.functions, **functions},
            params={**kernel.params, **params},
            libraries=("affine",),
            reason=f"integers: {kernel.reason}",
        )
        for kernel in kernels
    ]


INTEGER = Quantized(_reference, check=_check, mixed=True)
