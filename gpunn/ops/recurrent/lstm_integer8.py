"""The integer facet of ops.lstm.lstm: the form of lstm_integer.py, and a form with 8-bit products.

The second form has 12 intermediate tensors. It has neither input gate nor peepholes, and needs layer
normalisation and a projection with bias. The parts of a gate that come from x and from the output state are
rounded to 8 bits each before they are added. Normalisation, logistic and tanh are float32, truncated to 16
bits. The output state adds nothing to the output gate: TFLite's kernel never sets the multiplier for it,
which is 0. TensorFlow Lite, kernels/lstm_eval.cc, EvalInteger8x8_8, and
kernels/internal/portable_tensor_utils.cc.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.check import expect_entries
from gpunn.ops.fixed_point.affine import (
    divide_by_power,
    quantize_multiplier,
    ratio,
    rescale_int64,
    round_half_away,
    scale_of,
    times,
)
from gpunn.ops.fixed_point.fixed16 import ONE, saturate
from gpunn.ops.op import Quantized
from gpunn.ops.recurrent.lstm_integer import (
    OUTPUT,
    Integers,
    by,
    check,
    check_states,
    clip,
    intermediate,
    run,
)
from gpunn.types import Array, DType

_INTERMEDIATES = 12  # three a gate: joined, of x and of the output state
_FORBIDDEN, _NEEDED = (1, 5, 9, 10, 11, 12, 20), (16, 17, 21, 22, 23)
_CELL = 2.0**-15  # the scale of the cell state
_MOST = 2.0**14  # a factor of sums of 64 bits is below this


def _is_eight(call: Call) -> bool:
    return call["intermediates"] is not None and len(expect_entries(call, "intermediates")) == _INTERMEDIATES


def _check(call: Call) -> None:
    """Raise ModelError for scales and zero points that the arithmetic is not defined for."""
    if not _is_eight(call):
        return check(call)
    check_states(call)
    if any(map(call.has, _FORBIDDEN)) or not all(map(call.has, _NEEDED)):
        there, absent = "layer normalisation and a projection with bias", "an input gate nor peepholes"
        call.fail(f"with {_INTERMEDIATES} intermediate tensors there must be {there}, and neither {absent}")
    if scale_of(call, call.input(19))[0] != _CELL:
        call.fail(f"with {_INTERMEDIATES} intermediate tensors the scale of the cell state must be 2^-15")
    for index in range(3, _INTERMEDIATES):
        intermediate(call, index, DType.INT8 if index % 3 else DType.INT16)
    if not ratio(times(scale_of(call, call.input(16))[0], _CELL), scale_of(call, call.input(18))[0]) < _MOST:
        call.fail("the scale of the projection is too large for that of the output")


@dataclass(frozen=True, slots=True)
class _Eights(Integers):
    """The operands of a call, and the arithmetic of its steps if products have 8 bits."""

    def part(self, weights: int, x: Array, scale: float, zero: int, index: int) -> Array:
        """Compute a product in 8 bits, in its gate's scale; `index` is that of its intermediate tensor."""
        part, middle = intermediate(self.call, index, DType.INT8)
        factor = ratio(times(self.scale(weights), scale), part)
        found = np.clip(by(self.product(x, zero, weights), factor) + middle, -128, 127) - middle
        return by(found, ratio(part, intermediate(self.call, index - index % 3, DType.INT16)[0]))

    def share(self, gate: int, steps: Array) -> Array:
        """Compute the part of a gate's sums that comes from the inputs of all steps [T, B, I]."""
        flat = steps.reshape(-1, steps.shape[2])
        found = self.part(1 + gate, flat, *scale_of(self.call, self.call.x), 3 * gate + 1)
        return np.asarray(found.reshape(*steps.shape[:2], found.shape[1]))

    def sums(self, gate: int, share: Array, h: Array, c: Array) -> Array:
        """Compute a gate before its activation."""
        if gate != OUTPUT:
            share = share + self.part(5 + gate, h, *scale_of(self.call, self.call.input(18)), 3 * gate + 2)
        return self.normalised(gate, saturate(share))

    def normalised(self, gate: int, sums: Array) -> Array:
        """Normalise in float32, step by step as TFLite's PortableApplyLayerNormFloat: sums are added up in
        order.
        """
        x, units = sums.astype(np.float32), np.float32(max(1, sums.shape[1]))
        total, squares = (np.add.accumulate(v, axis=1)[:, -1:] for v in (x, x * x))
        mean = total / units
        variance = squares / units - mean * mean
        inverse = np.where(variance == 0, np.float32(1e4), np.float32(1) / np.sqrt(variance))
        m, shift = quantize_multiplier(self.scale(20 + gate))
        scale = np.float32(m * 2.0 ** (shift - 31))
        y = (x - mean) * inverse * self.value(20 + gate).astype(np.float32) * scale
        y = y + self.value(12 + gate).astype(np.float32) * (scale / np.float32(2**10))
        return saturate(round_half_away(y.astype(np.float64) * 2**12).astype(np.int64))

    def logistic(self, x: Array) -> Array:
        """Compute the logistic function of numbers with 12 bits of fraction."""
        small = np.exp(-x * 2.0**-12).astype(np.float32)
        return _cut(np.float32(1) / (np.float32(1) + small))

    def tanh(self, x: Array, bits: int) -> Array:
        """Compute tanh of numbers with `bits` bits before the point."""
        return _cut(np.tanh(x * 2.0 ** (bits - 15)).astype(np.float32))

    def output(self, output_gate: Array, c: Array) -> Array:
        """Compute the output of a step: the cell state through the output gate, projected in 64 bits."""
        y = divide_by_power(output_gate * self.tanh(c, 0), 15)
        scale, zero = scale_of(self.call, self.call.input(18))
        factor = quantize_multiplier(ratio(times(self.scale(16), _CELL), scale))
        sums = self.product(y, 0, 16) + self.value(17)
        y = np.clip(rescale_int64(sums, *factor) + zero, -128, 127)
        return clip(y, self.call["proj_clip"], scale, 127)


def _cut(x: Array) -> Array:
    """Truncate numbers of up to 1 to 16 bits."""
    return np.minimum(np.trunc(x * 2.0**15).astype(np.int64), ONE)


def _reference(call: Call, *values: Array | None) -> tuple[Array, ...]:
    return run((_Eights if _is_eight(call) else Integers)(call, values))


INTEGER = Quantized(_reference, check=_check, mixed=True)
