"""LSTM in TFLite's integer arithmetic.

Inputs and outputs are int8, gates and cell state 16-bit fixed-point numbers: 12 bits of fraction before a
gate's activation, 15 after it. TensorFlow Lite, kernels/lstm_eval.cc, EvalInteger8x8_16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import expect_stored
from gpunn.ops.fixed_point.affine import (
    divide_by_power,
    inverse_root,
    quantize_multiplier,
    ratio,
    rescale,
    scale_of,
    times,
    wrap32,
)
from gpunn.ops.fixed_point.fixed16 import ONE, logistic, saturate, tanh
from gpunn.ops.recurrent.rnn import in_time, out_of_time
from gpunn.types import Array, DType, Quantization, Shape, TensorType

_SUMS = 2.0**-12  # the scale of a gate before its activation
_GATE = Quantization((2.0**-15,), (0,))  # and after it
_DTYPES = {
    **dict.fromkeys((*range(9), 16, 18), DType.INT8),
    **dict.fromkeys((9, 10, 11, 19, *range(20, 24)), DType.INT16),
    **dict.fromkeys((12, 13, 14, 15, 17), DType.INT32),
}
_SYMMETRIC = (*range(1, 12), 16, *range(19, 24))
FORGET, CELL, OUTPUT = 1, 2, 3  # gates by number; 0 is the input gate
_HIDDEN = 4  # the intermediate tensor of what is projected
_PEEPHOLE = {0: 9, 1: 10, 3: 11}


def expect_integers(call: Call) -> None:
    """Raise ModelError unless the operands have the element types of the integer form, and scales."""
    expect_stored(call, _DTYPES)
    if call["activation"] != "tanh":
        call.fail(f"on quantised tensors activation must be tanh, got {call['activation']!r}")


def gates_type(shape: Shape) -> TensorType:
    """Return the type of the scratch result: gates as fixed-point numbers."""
    return TensorType(DType.INT16, shape, _GATE)


def intermediate(call: Call, index: int, dtype: DType) -> tuple[float, int]:
    """Return scale and zero point of an intermediate tensor."""
    try:
        scale, zero = call["intermediates"][index]
        quantization = Quantization((float(scale),), (int(zero),))
    except (TypeError, ValueError, IndexError):
        call.fail(f"attribute intermediates must have a scale and a zero point of tensor {index}")
    return scale_of(call, TensorType(dtype, (), quantization))


def _hidden(call: Call) -> tuple[float, int]:
    """Return scale and zero point of the projection's input; without projection, of the output."""
    if not call.has(16):
        return scale_of(call, call.input(18))
    scale, zero = intermediate(call, _HIDDEN, DType.INT8)
    return scale, -zero  # with that sign TFLite's kernel reads it


def _sums(call: Call) -> tuple[float, ...]:
    """Return the scale of each gate before its activation, or before its normalisation."""
    if not call.has(20 + FORGET):
        return (_SUMS,) * 4
    return tuple(intermediate(call, gate, DType.INT16)[0] for gate in range(4))


def _fraction_bits(call: Call) -> int:
    """Return the fraction bits of the cell state, whose scale is a power of two."""
    fraction, exponent = math.frexp(scale_of(call, call.input(19))[0])
    if fraction != 0.5 or not -15 <= exponent - 1 <= -9:
        call.fail("the scale of the cell state must be a power of two from 2^-15 to 2^-9")
    return 1 - exponent


def check(call: Call) -> None:
    """Raise ModelError for scales and zero points that the arithmetic is not defined for."""
    check_states(call)
    _hidden(call)
    _sums(call)
    _fraction_bits(call)


def check_states(call: Call) -> None:
    """Raise ModelError for scales and zero points that neither integer form is defined for."""
    if any(scale_of(call, call.input(k))[1] for k in filter(call.has, _SYMMETRIC)):
        call.fail("weights and cell state must have zero points of 0")
    expected = call.input(18).quantization, call.input(19).quantization, call.input(18).quantization
    if tuple(t.quantization for t in call.outputs[1:]) != expected:
        call.fail("the states must have one quantisation before and after, and the result that of the output")


@dataclass(frozen=True, slots=True)
class Integers:
    """The operands of a call, and the arithmetic of its steps."""

    call: Call
    values: tuple[Array | None, ...]

    @property
    def normal(self) -> bool:
        """Tell whether gates are normalised."""
        return self.call.has(20 + FORGET)

    def value(self, index: int) -> Array:
        """Return a mandatory operand."""
        found = self.values[index] if index < len(self.values) else None
        assert found is not None
        return found.astype(np.int64)

    def scale(self, index: int) -> float:
        """Return an operand's scale."""
        return scale_of(self.call, self.call.input(index))[0]

    def product(self, x: Array, zero: int, weights: int) -> Array:
        """Compute (x - zero) . w^T. 16-bit products are exact in float64, which has a fast matrix product."""
        w = self.value(weights).astype(np.float64)
        return np.asarray(((x - zero).astype(np.float64) @ w.T).astype(np.int64))

    def share(self, gate: int, steps: Array) -> Array:
        """Compute the part of a gate's sums that comes from the inputs of all steps [T, B, I]."""
        scale, zero = scale_of(self.call, self.call.x)
        sums = self.product(steps.reshape(-1, steps.shape[2]), zero, 1 + gate)
        if not self.normal:
            sums = sums + self.value(12 + gate)
        factor = ratio(times(self.scale(1 + gate), scale), _sums(self.call)[gate])
        found = saturate(by(sums, factor))
        return np.asarray(found.reshape(*steps.shape[:2], found.shape[1]))

    def sums(self, gate: int, share: Array, h: Array, c: Array) -> Array:
        """Compute a gate before its activation; each part is rounded and clamped separately."""
        (scale, zero), unit = scale_of(self.call, self.call.input(18)), _sums(self.call)[gate]
        factor = ratio(times(self.scale(5 + gate), scale), unit)
        total = saturate(share + by(self.product(h, zero, 5 + gate), factor))
        peephole = _PEEPHOLE.get(gate, -1)
        if gate != CELL and self.call.has(peephole):
            factor = ratio(times(self.scale(19), self.scale(peephole)), unit)
            total = saturate(total + by(self.value(peephole) * c, factor))
        return self.normalised(gate, total) if self.normal else total

    def normalised(self, gate: int, sums: Array) -> Array:
        """Subtract the mean of a gate's sums, divide by their standard deviation, apply coefficients and
        bias.

        Quotients have 10 bits of fraction and are truncated. TensorFlow Lite,
        kernels/internal/portable_tensor_utils.cc, PortableApplyLayerNorm.
        """
        scale, units = self.scale(20 + gate), max(1, sums.shape[1])
        total = sums.sum(axis=1, keepdims=True) << 10
        mean = np.sign(total) * (abs(total) // units)
        variance = (sums * sums).sum(axis=1, keepdims=True) * (2**20 // units) - mean * mean
        least = max(1, int(min(times(10_000, scale), 2**31 - 1)))
        m, shift = inverse_root(np.where(variance < 2**20, least, variance >> 20))
        total = wrap32(rescale((sums << 10) - mean, m, shift) * self.value(20 + gate) + self.value(12 + gate))
        factor, places = quantize_multiplier(scale)
        return saturate(rescale(divide_by_power(total, 10), factor, places + 12))

    def logistic(self, x: Array) -> Array:
        """Compute the logistic function of numbers with 12 bits of fraction."""
        return logistic(x)

    def tanh(self, x: Array, bits: int) -> Array:
        """Compute tanh of numbers with `bits` bits before the point."""
        return tanh(x, bits)

    def output(self, output_gate: Array, c: Array) -> Array:
        """Compute the output of a step: the cell state through the output gate, projected."""
        scale, zero = _hidden(self.call)
        values = output_gate * self.tanh(c, 15 - _fraction_bits(self.call))
        y: Array = np.clip(by(values, ratio(2.0**-30, scale)) + zero, -128, 127)
        if not self.call.has(16):
            return y
        sums = self.product(y, zero, 16) + (self.value(17) if self.call.has(17) else 0)
        scale_y, zero_y = scale_of(self.call, self.call.input(18))
        factor = ratio(times(self.scale(16), scale), scale_y)
        y = np.clip(by(sums, factor) + zero_y, -128, 127)
        return clip(y, self.call["proj_clip"], scale_y, 127)


def by(x: Array, factor: float) -> Array:
    """Multiply x by a factor as TFLite's kernels multiply integers."""
    return rescale(wrap32(x), *quantize_multiplier(factor))


def clip(x: Array, bound: float, scale: float, most: int) -> Array:
    """Clip x to a real bound, which is rounded to a stored integer towards 0; a bound of 0 is off."""
    if not bound > 0:
        return x
    stored = int(min(ratio(bound, scale), most))
    return np.clip(x, -stored, stored)


def run(how: Integers) -> tuple[Array, ...]:
    """Run the op on integers."""
    call = how.call
    time_major, reverse = call["time_major"], call["reverse"]
    steps = in_time(how.value(0), time_major, reverse)
    first = 0 if call.has(1) else FORGET
    shares = [how.share(gate, steps) for gate in range(first, 4)]
    h, c, bits = how.value(18), how.value(19), _fraction_bits(call)
    hidden = np.empty((len(steps), *h.shape), np.int64)
    gates = np.zeros((len(h), (4 - first) * c.shape[1]), np.int64)
    for step in range(len(steps)):
        sums = [how.sums(first + k, share[step], h, c) for k, share in enumerate(shares[:-1])]
        cell_gate, forget_gate = how.tanh(sums.pop(), 3), how.logistic(sums.pop())
        input_gate = how.logistic(sums.pop()) if sums else ONE - forget_gate
        c = saturate(
            divide_by_power(forget_gate * c, 15) + divide_by_power(input_gate * cell_gate, 30 - bits)
        )
        c = clip(c, call["cell_clip"], how.scale(19), ONE)
        output_gate = how.logistic(how.sums(OUTPUT, shares[-1][step], h, c))
        h = hidden[step] = how.output(output_gate, c)
        gates = np.concatenate(
            [*([] if first else [input_gate]), cell_gate, forget_gate, output_gate], axis=1
        )
    y = out_of_time(hidden, how.value(0), time_major, reverse)
    return gates.astype(np.int16), h.astype(np.int8), c.astype(np.int16), y.astype(np.int8)
