"""The cell of BasicLSTM in TFLite's integer arithmetic: the integer facet of ops.lstm.basic_lstm.

Gates before their activations have 12 bits of fraction, after them 15, the cell state 11. TensorFlow Lite,
kernels/internal/optimized/optimized_ops.h, LstmCell, and kernels/lstm.cc, basic::Eval.
"""

from __future__ import annotations

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import expect_stored
from gpunn.ops.fixed_point.affine import divide_by_power, quantize_multiplier, rescale, scale_of, wrap32
from gpunn.ops.fixed_point.fixed16 import logistic, multiply, saturate, tanh
from gpunn.ops.op import Quantized
from gpunn.types import Array, DType, Quantization, TensorType

_DTYPES = dict(enumerate((DType.UINT8, DType.UINT8, DType.UINT8, DType.INT32, DType.INT16)))
_ACTIVATIONS = Quantization((2.0**-7,), (128,))  # what a stored input or output stands for
_STATE = Quantization((2.0**-11,), (0,))
_SUMS = Quantization((2.0**-12,), (0,))
_BIAS_TOLERANCE = 1e-3  # by which a bias's scale may miss input * weights: files state all three as float32


def expect_integers(call: Call) -> tuple[TensorType, ...]:
    """Return the types of the results, without their shapes; raise ModelError for operands of other types."""
    expect_stored(call, _DTYPES)
    return call.input(1), call.input(4), call.x, TensorType(DType.INT16, (), _SUMS)


def _check(call: Call) -> None:
    """Raise ModelError for scales and zero points that the arithmetic is not defined for."""
    if any(t.quantization != _ACTIVATIONS for t in (call.x, call.input(1), call.y)):
        call.fail("input, output state and output must have scale 1/128 and zero point 128")
    if any(t.quantization != _STATE for t in (call.input(4), call.outputs[1])):
        call.fail("the cell state must have scale 2^-11 and zero point 0, before and after")
    (bias, zero), product = scale_of(call, call.input(3)), scale_of(call, call.input(2))[0] / 128
    if zero or abs(bias - product) > _BIAS_TOLERANCE * product:
        call.fail(f"the bias must have the scale of input * weights, {product}, and zero point 0, got {bias}")


def _reference(
    call: Call, x: Array, output_state: Array, weights: Array, bias: Array, cell_state: Array
) -> tuple[Array, Array, Array, Array]:
    """Compute the op on integers; halves of the sums are rounded upwards, as in ruy."""
    operands = np.concatenate([x, output_state], axis=1)
    # 16-bit products: exact in float64, for which there is a quick matrix product.
    centred = weights.astype(np.float64) - scale_of(call, call.input(2))[1]
    sums = ((operands.astype(np.float64) - 128) @ centred.T).astype(np.int64) + bias
    factor = quantize_multiplier(scale_of(call, call.input(3))[0] / _SUMS.scale[0])
    sums = saturate(rescale(wrap32(sums), *factor, away=False))
    input_gate, cell_gate, forget_gate, output_gate = np.split(sums, 4, axis=1)
    added = divide_by_power(multiply(logistic(input_gate), tanh(cell_gate, 3)), 4)
    c = saturate(added + multiply(logistic(forget_gate), cell_state.astype(np.int64)))
    y = divide_by_power(multiply(logistic(output_gate), tanh(saturate(c << 1), 3)), 8)
    return (
        (np.clip(y, -128, 127) + 128).astype(np.uint8),
        c.astype(np.int16),
        operands,
        sums.astype(np.int16),
    )


INTEGER = Quantized(_reference, check=_check, mixed=True)
