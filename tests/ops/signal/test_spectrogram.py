"""Spectrograms and cepstral coefficients, against sums written out and numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, model_of, random

LIMITS = {"lower_frequency_limit": 20, "upper_frequency_limit": 4000}
COUNTS = {"filterbank_channel_count": 40, "dct_coefficient_count": 13}
# A window's energy: rounding errors of a transform are relative to it (gpunn/ops/signal/fourier.py).
ATOL = 1e-5


def spectrogram_by_frames(x: Array, window: int, stride: int) -> Array:
    """Squared magnitudes, frame by frame, by the sum of the Fourier transform."""
    length = 1 << math.ceil(math.log2(window))
    weights = [0.5 - 0.5 * math.cos(2 * math.pi * k / window) for k in range(window)]
    waves = np.exp(-2j * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(window)) / length)
    starts = range(0, len(x) - window + 1, stride)
    found = [[waves @ (x[s : s + window, c] * weights) for s in starts] for c in range(x.shape[1])]
    return np.abs(np.array(found)) ** 2


@pytest.mark.parametrize(
    ("samples", "channels", "window", "stride"),
    [(200, 1, 32, 16), (100, 2, 30, 20), (97, 3, 16, 5), (90, 1, 7, 20), (64, 2, 64, 1), (40, 2, 2, 1)],
)
def test_spectrograms(samples: int, channels: int, window: int, stride: int, backend: str) -> None:
    x = random(1, samples, channels, low=-1, high=1)
    attrs = {"window_size": window, "stride": stride, "magnitude_squared": True}
    squares = spectrogram_by_frames(x.astype(np.float64), window, stride)
    for squared, expected in ((True, squares), (False, np.sqrt(squares))):
        attrs["magnitude_squared"] = squared
        operation = model_of("spectrogram", [x], attrs).operations[0]
        np.testing.assert_allclose(operation.evaluate([x.astype(np.float64)])[0], expected, atol=1e-10)
        # 15 eps of the sum of a window, twice that of its square
        check("spectrogram", [x], attrs, backend=backend, atol=ATOL * window, rtol=2e-6)


def test_a_spectrogram_by_hand(backend: str) -> None:
    """The window of 4 is 0, 1/2, 1, 1/2. A constant 1 gives 2, then -1 (squared 1), then 0."""
    x = np.ones((6, 1), np.float32)
    attrs = {"window_size": 4, "stride": 2, "magnitude_squared": True}
    (found,) = check("spectrogram", [x], attrs, backend=backend)
    np.testing.assert_allclose(found, [[[4, 1, 0]] * 2], atol=1e-6)


def test_float16(backend: str) -> None:
    x = random(1, 100, 2, low=-1, high=1).astype(np.float16)
    check("spectrogram", [x], {"window_size": 30, "stride": 20}, backend=backend, rtol=2e-3, atol=1e-2)
    check(
        "mfcc",
        [np.abs(x).reshape(1, 2, 100)],
        {**LIMITS, **COUNTS, "sample_rate": 16000},
        backend=backend,
        rtol=2e-2,
        atol=5e-2,
    )


def test_too_few_samples_give_no_frame(backend: str) -> None:
    attrs = {"window_size": 30, "stride": 20}
    (found,) = check(
        "spectrogram",
        [random(1, 29, 2)],
        attrs,
        backend=backend,
        host="no GPU kernel",
    )
    assert found.shape == (2, 0, 17)


def coefficients(spectrum: Array, rate: float, attrs: dict[str, Any]) -> list[float]:
    """The coefficients of one spectrum, band by band in the words of the op's description."""
    bins, bands = len(spectrum), attrs["filterbank_channel_count"]

    def mel(f: float) -> float:
        return 1127 * math.log(1 + f / 700)

    low, high = mel(attrs["lower_frequency_limit"]), mel(attrs["upper_frequency_limit"])
    corners = [low + (high - low) * k / (bands + 1) for k in range(bands + 2)]
    logarithms = []
    for left, peak, right in zip(corners, corners[1:], corners[2:], strict=False):
        energy = 0.0
        for k in range(1, bins):
            hertz = rate / 2 * k / (bins - 1)
            height = mel(hertz)
            first = attrs["lower_frequency_limit"] + rate / 4 / (bins - 1)  # half a step above the limit
            if first < hertz <= attrs["upper_frequency_limit"]:
                rising, falling = (height - left) / (peak - left), (right - height) / (right - peak)
                energy += math.sqrt(spectrum[k]) * max(0.0, min(rising, falling))
        logarithms.append(math.log(max(energy, 1e-12)))
    return [
        math.sqrt(2 / bands)
        * sum(v * math.cos(math.pi / bands * i * (j + 0.5)) for j, v in enumerate(logarithms))
        for i in range(attrs["dct_coefficient_count"])
    ]


@pytest.mark.parametrize(
    ("bins", "rate", "bands", "count"), [(129, 16000, 20, 10), (257, 8000, 40, 40), (65, 44100, 6, 1)]
)
def test_coefficients(bins: int, rate: int, bands: int, count: int, backend: str) -> None:
    x = random(1, 2, 3, bins, low=0, high=30) ** 2
    attrs = {
        "lower_frequency_limit": 300,
        "upper_frequency_limit": rate // 2 - 100,
        "filterbank_channel_count": bands,
        "dct_coefficient_count": count,
    }
    given = {**attrs, "sample_rate": rate}
    (found,) = model_of("mfcc", [x], given).operations[0].evaluate([x.astype(np.float64)])
    np.testing.assert_allclose(found[1, 2], coefficients(x[1, 2].astype(np.float64), rate, attrs), atol=1e-9)
    # each logarithm is off by the relative error of its sum, up to `bins` eps; 1.5 sqrt(bands) times that
    check("mfcc", [x], given, backend=backend, atol=1e-5 + 1.5 * math.sqrt(bands) * bins * 1.2e-7)


def test_silence_and_limits_beyond_the_spectrum(backend: str) -> None:
    """ln(1e-12) in every band leaves the first coefficient: sqrt(2 / 40) * 40 times it."""
    silence = np.zeros((1, 1, 129), np.float32)
    (found,) = check(
        "mfcc", [silence], {**LIMITS, **COUNTS, "sample_rate": 16000}, backend=backend, atol=1e-4
    )
    assert found[0, 0, 0] == pytest.approx(math.sqrt(2 / 40) * 40 * math.log(1e-12), rel=1e-6)
    np.testing.assert_allclose(found[0, 0, 1:], 0, atol=1e-3)
    (found,) = check("mfcc", [silence + 1], {**LIMITS, **COUNTS, "sample_rate": 4000}, backend=backend)
    assert not found.any()


@pytest.mark.parametrize(
    ("op", "shape", "changed", "message"),
    [
        ("spectrogram", (100,), {}, "rank 2"),
        ("spectrogram", (100, 1), {"window_size": 1}, "a window of 2 or more"),
        ("spectrogram", (100, 1), {"stride": 0}, "a stride of 1 or more"),
        ("spectrogram", (100, 1), {"magnitude_squared": 1}, "True or False"),
        ("mfcc", (2, 3), {}, "rank 3"),
        ("mfcc", (1, 2, 1), {}, "2 or more frequencies"),
        ("mfcc", (1, 2, 65), {"sample_rate": 0}, "do not follow one another"),
        ("mfcc", (1, 2, 65), {"lower_frequency_limit": -1}, "do not follow one another"),
        ("mfcc", (1, 2, 65), {"lower_frequency_limit": 4000}, "do not follow one another"),
        ("mfcc", (1, 2, 65), {"upper_frequency_limit": math.nan}, "do not follow one another"),
        ("mfcc", (1, 2, 65), {"dct_coefficient_count": 0}, "0 coefficients of 40 bands"),
        ("mfcc", (1, 2, 65), {"dct_coefficient_count": 41}, "41 coefficients of 40 bands"),
    ],
)
def test_refused(op: str, shape: tuple[int, ...], changed: dict[str, Any], message: str) -> None:
    attrs = (
        {"window_size": 32, "stride": 16}
        if op == "spectrogram"
        else {**LIMITS, **COUNTS, "sample_rate": 16000}
    )
    with pytest.raises(ModelError, match=message):
        model_of(op, [np.zeros(shape, np.float32)], {**attrs, **changed})
