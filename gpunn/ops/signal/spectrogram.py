"""Spectrograms of audio: spectrogram."""

from __future__ import annotations

import math

import numpy as np

from gpunn.kernel import Unsupported
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_bool, expect_int, expect_unquantised
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType, bounded, float32


def _length(window: int) -> int:
    """Return the length of the transform: the power of two that holds the window."""
    return 1 << (window - 1).bit_length()


def _frames(samples: int, window: int, stride: int) -> int:
    return 1 + (samples - window) // stride if samples >= window else 0


def _infer(call: Call) -> TensorType:
    x = expect_unquantised(call, 0, *FLOATS)
    samples, channels = call.expect_rank(0, 2).shape
    window, stride = (expect_int(call, name, call[name]) for name in ("window_size", "stride"))
    expect_bool(call, "magnitude_squared")
    if window < 2 or stride < 1:
        call.fail(f"a window of 2 or more and a stride of 1 or more are expected, got {window} and {stride}")
    frames = _frames(samples, window, stride)
    found = bounded("spectrogram", float32(channels, frames, _length(window) // 2 + 1))
    return TensorType(x.dtype, found.shape)


def _hann(window: int) -> Array:
    """Compute the periodic Hann window in float64."""
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window))


def _expand(call: Call, to: Expansion, x: Tensor) -> Tensor:
    """Write the op as blocks of samples, gathered to frames, and their transforms.

    A block has as many samples as divide both the window and the stride.
    """
    window, stride, (channels, frames, bins) = call["window_size"], call["stride"], call.y.shape
    if not call.y.size:
        raise Unsupported("there are fewer samples than a window has")
    block = math.gcd(window, stride)
    used = (frames - 1) * stride + window
    picked = (np.arange(frames)[:, None] * stride + np.arange(0, window, block)) // block
    found = to.add("transpose", x, perm=(1, 0))
    found = to.add("strided_slice", found, begin=(0, 0), end=(channels, used), strides=(1, 1))
    found = to.add("reshape", found, shape=(channels, used // block, block))
    found = to.add("gather", found, to.constant(picked.astype(np.int32)), axis=1)
    found = to.add("reshape", found, shape=(channels, frames, 1, window))
    found = to.add("mul", found, to.constant(_hann(window).astype(x.type.dtype.numpy)))
    found = to.add("complex_abs", to.add("rfft2d", found, length=(1, _length(window))))
    if call["magnitude_squared"]:
        found = to.add("square", found)
    if x.type.dtype is not DType.FLOAT32:
        found = to.add("cast", found, dtype=x.type.dtype.value)
    return to.add("reshape", found, shape=(channels, frames, bins))


@op(_infer, expand=_expand, precise=True)
def spectrogram(x: Array, *, window_size: int, stride: int, magnitude_squared: bool = False) -> Array:
    """Compute the magnitudes of the frequencies in each frame of a signal.

    x: samples of audio channels, [samples, channels], float32 or float16. The frame at i has the window_size
    samples from i * stride on, each multiplied by 0.5 - 0.5 cos(2 pi k / window_size), the periodic Hann
    window; what is left behind the last whole frame does not count. Its Fourier transform has the next power
    of two from window_size on as length, n. The result is [channels, frames, n / 2 + 1], in x's dtype;
    squared if magnitude_squared is true. Raises ModelError for other shapes and dtypes, a window below 2, and
    a stride below 1. TFLite schema, OperatorCode.custom_code AudioSpectrogram.
    """
    samples, channels = x.shape
    frames, length = _frames(samples, window_size, stride), _length(window_size)
    if not frames or not channels:
        return np.zeros((channels, frames, length // 2 + 1), x.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x.T.astype(np.float64), window_size, axis=1)
    found = np.abs(np.fft.rfft(windows[:, ::stride] * _hann(window_size), length))
    return (found**2 if magnitude_squared else found).astype(x.dtype)


OPS: tuple[Op, ...] = (spectrogram,)
