"""The conversion of integer sums of products to stored results, and the rounding of their halves.

integer_product.py does on the CPU what shaders/lib/requantize.wgsl does with a Finish on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Function, Kernel, Param, ceil_div
from gpunn.ops.call import Call
from gpunn.ops.fixed_point.affine import activation_bounds, quantize_multipliers, scale_of
from gpunn.types import Array, DType

MOST_SHIFT = 12  # to the right, of sums whose results shaders/lib/estimated.wgsl may estimate
SHIFTED = 12582912.0  # 1.5 * 2^23: an integer n that is added to it is in the lowest bits of the sum
SHIFTED_BITS = 0x4B400000  # of it as an f32


class Finish(NamedTuple):
    """The WGSL for results of sums of 32 bits: a library in shaders/lib, and the functions that it calls."""

    library: str
    functions: Mapping[str, Function]

    def of(self, kernel: Kernel) -> Kernel:
        """Return a kernel that makes results in this way, whatever it did before."""
        functions = {name: f for name, f in kernel.functions.items() if name not in ESTIMATED.functions}
        libraries = (name for name in kernel.libraries if name not in (ROUNDED.library, ESTIMATED.library))
        return replace(
            kernel, functions={**functions, **self.functions}, libraries=(*libraries, self.library)
        )


def _rounded(result: str) -> Finish:
    """Return the finish that computes an expression of a sum and of what it is rescaled with."""
    return Finish("rounded", {"finish": Function(("sum", "multiplier", "shift", "away"), result)})


_BOUNDED = "clamp({}, p.bounds.x, p.bounds.y) + p.zeros.z"  # the zero point comes last: nothing overflows
ROUNDED = _rounded(_BOUNDED.format("rescale(sum, multiplier, shift, away != 0)"))
# The same with fewer steps, for shifts from -31 to -1: for factors below 1/2.
ROUNDED_DOWN = _rounded(_BOUNDED.format("rescale_down(sum, multiplier, shift, away)"))
AS_SUMMED = _rounded("sum")
# The same with still fewer steps, where Rescaling.estimable says so. Reals are passed on as bits of an f32.
ESTIMATED = Finish(
    "estimated",
    {
        "finish": Function(
            ("sum", "multiplier", "nudge", "factor", "summand"),
            "estimated(sum, multiplier, nudge, bitcast<f32>(factor), bitcast<f32>(summand))",
        ),
        # m / 2^31 * 2^shift, 2^30 and 2^(30 - shift) in 32 bits, and 2^(shift - 1) + 1/2
        "to_factor": Function(
            ("multiplier", "shift"), "bitcast<i32>(f32(multiplier) * bitcast<f32>((96 + shift) << 23u))"
        ),
        "to_nudge": Function(("shift",), "select(0x40000000, -0x40000000, shift == -1)"),
        "to_summand": Function(("shift",), "bitcast<i32>(bitcast<f32>((126 + shift) << 23u) + 0.5)"),
    },
)


class Steps(Enum):
    """The function that makes results of sums, in fixed_point/affine.py and in shaders/lib."""

    TWICE = "rescale"  # of sums of 32 bits; the others of 64
    SHORT = "rescale_int64"  # 15 bits of the factor
    WHOLE = "rescale_whole"  # 31 bits
    UPWARDS = "rescale_upwards"  # 31 bits, rounded twice


def finish_int64(steps: Steps) -> Function:
    """Return the function `finish` for a sum of 64 bits, in parts: lib/requantize_int64.wgsl."""
    sum = "i64_add(whole(low, high, lower, upper), I64(u32(bias_low), u32(bias_high)))"
    return Function(
        ("low", "high", "bias_low", "bias_high", "lower", "upper", "multiplier", "shift"),
        f"clamp({steps.value}({sum}, multiplier, shift), p.bounds.x, p.bounds.y) + p.zeros.z",
    )


@dataclass(frozen=True, slots=True)
class Rescaling:
    """The conversion of sums of products to stored results: a multiplier and a shift for each output channel.

    upwards: how many of the output channels, the first ones, have halves rounded upwards, see Rounding.
    """

    zero_x: int
    zero_w: int
    zero_y: int
    multiplier: Array
    shift: Array
    upwards: int
    bounds: tuple[int, int]
    steps: Steps = Steps.TWICE

    @property
    def finish(self) -> Finish:
        """Return how shaders make results of sums of 32 bits, in as few steps as possible."""
        if self.estimable:
            return ESTIMATED
        return ROUNDED_DOWN if ((self.shift >= -31) & (self.shift <= -1)).all() else ROUNDED

    @property
    def estimable(self) -> bool:
        """Tell whether shaders/lib/estimated.wgsl gives the exact results of all sums.

        Results have 8 bits, factors are from 2^-13 to 1/2, and no half is rounded away from zero unless what
        is negative becomes the lowest result anyway.
        """
        low, high = (b - self.zero_y for b in self.bounds)
        alike = low >= 0 or self.upwards >= len(self.shift)
        few = (self.shift >= -MOST_SHIFT) & (self.shift <= -1) & (self.multiplier >= 1 << 30)
        return alike and low >= -256 and high <= 255 and bool(few.all())

    def table(self, multiple: int = 1) -> Array:
        """Return multipliers, then shifts, both padded to a multiple of that many channels: int32 for the
        shaders.
        """
        pairs = np.stack([self.multiplier, self.shift]).astype(np.int32)
        return np.pad(pairs, [(0, 0), (0, -pairs.shape[1] % multiple)])

    def params(self, zero_w: int, lanes: int) -> dict[str, Param]:
        """Return parameters for `finish` and lib/requantize.wgsl; zero_w: as the shader's filter has it."""
        low, high = (b - self.zero_y for b in self.bounds)
        return {
            "zeros": (self.zero_x, zero_w, self.zero_y, 0),
            "bounds": (low, high, 0, 0),
            "UP": ceil_div(self.upwards, lanes),
            "low": float(low),
            "high": float(high),
            "shifted": SHIFTED + self.zero_y,
        }


class Rounding(NamedTuple):
    """The rounding of LiteRT's default kernels of one op, on x86-64 (AVX2 and later), found by experiment.

    upwards: how many of a call's output channels, the first ones, round halves upwards, as its matrix product
    does, and its vector instructions, which take eight channels at a time. The others round halves away from
    zero, as its reference kernels do. product16: inputs of 16 bits go through the matrix product whatever the
    bias. single: scales of input and of a filter that has one scale are multiplied in float32
    (as in GetQuantizedConvolutionMultipler), as those of uint8 always are; else in float64 (as in
    PopulateConvolutionQuantizationParams).
    """

    upwards: Callable[[Call], int]
    single: bool = False
    product16: bool = False


def eights(call: Call) -> int:
    """Return how many output channels, from the first one on, form whole groups of eight."""
    channels = call.y.shape[-1]
    return channels - channels % 8


def rescaling(call: Call, rounding: Rounding) -> Rescaling:
    """Return the rescaling for a call's types and activation, rounded as its op says."""
    scale_x, zero_x = scale_of(call, call.x)
    scale_y, zero_y = scale_of(call, call.y)
    quantization = call.input(1).quantization
    assert quantization is not None
    upwards = rounding.upwards(call)
    products, steps = scale_x * np.asarray(quantization.scale), _steps(call, rounding, upwards)
    single = rounding.single and quantization.per_tensor and steps is not Steps.WHOLE
    if call.x.dtype is DType.UINT8 or single:
        products = products.astype(np.float32).astype(np.float64)
    channels = call.y.shape[-1:]
    multiplier, shift = (np.broadcast_to(v, channels) for v in quantize_multipliers(products / scale_y))
    bounds = activation_bounds(call, call.y)
    return Rescaling(zero_x, quantization.zero_point[0], zero_y, multiplier, shift, upwards, bounds, steps)


def _steps(call: Call, rounding: Rounding, upwards: int) -> Steps:
    """Return the arithmetic for a call; only sums of 16-bit inputs have 64 bits."""
    if call.x.dtype is not DType.INT16:
        return Steps.TWICE
    if call.input(1).dtype is DType.INT16:
        return Steps.SHORT
    bias = call.input(2).dtype if call.has(2) else call.x.dtype
    if rounding.product16:
        alone = Steps.UPWARDS if upwards else Steps.TWICE
        return {DType.INT64: Steps.WHOLE, DType.INT32: Steps.TWICE}.get(bias, alone)
    return Steps.TWICE if bias is DType.INT32 else Steps.SHORT
