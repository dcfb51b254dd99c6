"""Mel-frequency cepstral coefficients, by which audio is recognised: mfcc."""

from __future__ import annotations

import math

import numpy as np

from gpunn.kernel import Unsupported
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_float, expect_int, expect_unquantised
from gpunn.ops.expansion import Expansion, Tensor
from gpunn.ops.op import Op, op
from gpunn.types import Array, TensorType

_LEAST = 1e-12  # energy of a band, before its logarithm
_MOST = 1 << 24  # weights of the bands: attributes that a small file may set to anything


def _infer(call: Call) -> TensorType:
    x = expect_unquantised(call, 0, *FLOATS)
    bins = call.expect_rank(0, 3).shape[2]
    names = ("filterbank_channel_count", "dct_coefficient_count")
    bands, coefficients = (expect_int(call, name, call[name]) for name in names)
    rate, low, high = (
        expect_float(call, name) for name in ("sample_rate", "lower_frequency_limit", "upper_frequency_limit")
    )
    if not 1 <= coefficients <= bands:
        call.fail(f"{coefficients} coefficients of {bands} bands are expected to be 1 or more, and no more")
    if bins < 2:
        call.fail(f"takes spectra of 2 or more frequencies, got {x}")
    if not (0 < rate < math.inf and 0 <= low < high < math.inf):
        call.fail(f"frequencies from {low} to {high} at a sample rate of {rate} do not follow one another")
    if bands * max(bins, coefficients) > _MOST:
        call.refuse(f"{bands} bands of {bins} frequencies are too many")
    return x.with_shape((*x.shape[:2], coefficients))


def _mel(frequency: Array) -> Array:
    return np.asarray(1127 * np.log1p(frequency / 700))


def _bands(bins: int, rate: float, bands: int, low: float, high: float) -> Array | None:
    """Compute the weights [bands, bins] in float64: triangles whose corners lie evenly on the mel scale.

    A frequency has a share in the band whose upper side it is on, and the rest in the next band. None if the
    spectrum ends below the highest frequency.
    """
    step = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / step), int(high / step)
    if last >= bins:
        return None
    ends = _mel(np.array([low, high]))
    corners = ends[0] + (ends[1] - ends[0]) / (bands + 1) * np.arange(bands + 2)
    used = np.arange(first, last + 1)
    heights = _mel(used * step)
    band = np.minimum(np.searchsorted(corners[1:-1], heights), bands)  # corners below it
    share = (corners[band + 1] - heights) / (corners[band + 1] - corners[band])
    weights = np.zeros((bands + 2, bins))
    weights[band, used] = share
    weights[band + 1, used] = 1 - share
    return weights[1:-1]


def _cosines(bands: int, coefficients: int) -> Array:
    """Compute the discrete cosine transform's matrix [coefficients, bands] in float64."""
    angles = np.pi / bands * np.outer(np.arange(coefficients), np.arange(bands) + 0.5)
    return np.asarray(math.sqrt(2 / bands) * np.cos(angles))


def _weights(call: Call) -> Array | None:
    limits = call["lower_frequency_limit"], call["upper_frequency_limit"]
    return _bands(call.x.shape[2], call["sample_rate"], call["filterbank_channel_count"], *limits)


def _expand(call: Call, to: Expansion, x: Tensor) -> Tensor:
    """Write the op as roots, a product with the bands, logarithms, and a product with cosines."""
    if not call.y.size:
        raise Unsupported("there is no spectrum")
    dtype, weights = x.type.dtype.numpy, _weights(call)
    if weights is None:
        return to.add("fill", to.constant(np.zeros(1, dtype)), shape=call.y.shape)
    cosines = _cosines(call["filterbank_channel_count"], call["dct_coefficient_count"])
    energies = _product(to, to.add("sqrt", x), weights)
    logarithms = to.add("log", to.add("maximum", energies, to.constant(np.array(_LEAST, dtype))))
    return _product(to, logarithms, cosines)


def _product(to: Expansion, x: Tensor, matrix: Array) -> Tensor:
    return to.add("fully_connected", x, to.constant(matrix.astype(x.type.dtype.numpy)), keep_dims=True)


@op(_infer, expand=_expand, precise=True)
def mfcc(
    x: Array,
    *,
    sample_rate: float,
    lower_frequency_limit: float,
    upper_frequency_limit: float,
    filterbank_channel_count: int,
    dct_coefficient_count: int,
) -> Array:
    """Compute the mel-frequency cepstral coefficients of spectra.

    x: squared magnitudes of frequencies from 0 to half of sample_rate, [channels, frames, frequencies],
    float32 or float16. The magnitudes between the limits (in Hz; from half a step of the spectrum above the
    lower one) are added up in filterbank_channel_count bands: triangles that overlap by half, evenly spaced
    on the mel scale, 1127 ln(1 + f / 700). The result is [channels, frames, dct_coefficient_count], in x's
    dtype: the lowest coefficients of the discrete cosine transform (type II, orthonormal but for the first
    one) of the logarithms of these sums, of 1e-12 at least.
    If the upper limit lies above the highest frequency of x, it is 0 everywhere, as in TFLite. Infinity or
    NaN in a spectrum may make all its coefficients NaN. Raises ModelError for other shapes and dtypes and for
    limits, rates and counts that do not fit together. TFLite schema, OperatorCode.custom_code Mfcc.
    """
    limits = lower_frequency_limit, upper_frequency_limit
    weights = _bands(x.shape[2], sample_rate, filterbank_channel_count, *limits)
    if weights is None:
        return np.zeros((*x.shape[:2], dct_coefficient_count), x.dtype)
    energies = np.maximum(np.sqrt(x.astype(np.float64)) @ weights.T, _LEAST)
    cosines = _cosines(filterbank_channel_count, dct_coefficient_count)
    return np.asarray(np.log(energies) @ cosines.T, x.dtype)


OPS: tuple[Op, ...] = (mfcc,)
