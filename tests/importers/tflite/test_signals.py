"""Signals in .tflite files: front ends of speech recognition, and custom operators, compared with LiteRT."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import gpunn
from gpunn.errors import FormatError, GpunnError
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.test_mediapipe import custom_file
from tests.ops.harness import random
from tests.tflite_builder import Graph, litert_run, single_op

MFCC = {
    "upper_frequency_limit": 4000,
    "lower_frequency_limit": 20,
    "filterbank_channel_count": 40,
    "dct_coefficient_count": 13,
}
RATE = np.array([16000], np.int32)
SPECTROGRAM = {"window_size": 640, "stride": 320, "magnitude_squared": True}


def complex64(*shape: int) -> TensorType:
    return TensorType(DType.COMPLEX64, shape)


def options(values: Mapping[str, Any]) -> bytes:
    """A flexbuffer, as converters write it."""
    return bytes(flexbuffers.Dumps(values))


def agrees(file: bytes, inputs: Sequence[Array], backend: str, atol: float, rtol: float = 2e-5) -> None:
    """Assert that a backend gives LiteRT's results, without help of the other one."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    expected = litert_run(file, inputs)
    with gpunn.load(file).compile(backend=backend) as compiled:
        found = compiled(*inputs)
        assert {p.backend for p in compiled.placement} <= {backend, "alias"}
    for result, wanted in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("samples", "channels", "changed"),
    [
        (16000, 1, {}),
        (16000, 1, {"magnitude_squared": False}),
        (1000, 2, {"window_size": 100, "stride": 37}),
        (1000, 2, {"window_size": 256, "stride": 300}),
        (1000, 1, {"window_size": 256.7, "stride": 128.2, "magnitude_squared": 1}),
        (640, 1, {}),
    ],
)
def test_audio_spectrogram(samples: int, channels: int, changed: dict[str, Any], backend: str) -> None:
    values = {**SPECTROGRAM, **changed}
    window, stride = int(values["window_size"]), int(values["stride"])
    shape = channels, 1 + (samples - window) // stride, (1 << (window - 1).bit_length()) // 2 + 1
    file = custom_file("AudioSpectrogram", [float32(samples, channels)], [float32(*shape)], options(values))
    # A magnitude of up to 320 (half of the window) is off by some eps of it.
    agrees(file, [random(1, samples, channels, low=-1, high=1)], backend, atol=2e-3)


@pytest.mark.parametrize(
    ("bins", "rate", "changed"),
    [
        (257, 16000, {}),
        (513, 16000, {"lower_frequency_limit": 20.7, "upper_frequency_limit": 7600.0}),
        (129, 16000, {"upper_frequency_limit": 8000, "dct_coefficient_count": 40}),
        (129, 16000, {"upper_frequency_limit": 9000}),
        (65, 8000, {"lower_frequency_limit": 3900, "upper_frequency_limit": 3990}),
        (65, 8000, {"filterbank_channel_count": 100}),
        (3, 44100, {"upper_frequency_limit": 20000}),
    ],
)
def test_mfcc(bins: int, rate: int, changed: dict[str, Any], backend: str) -> None:
    """Also with bands that no frequency falls into, and with limits above the spectrum, which give zeros."""
    values = {**MFCC, **changed}
    x = random(1, 2, 3, bins, low=0, high=30) ** 2
    result = float32(2, 3, values["dct_coefficient_count"])
    inputs = [float32(2, 3, bins), np.array([rate], np.int32)]
    agrees(custom_file("Mfcc", inputs, [result], options(values)), [x], backend, atol=1e-4)


def test_a_sample_rate_that_is_an_input(backend: str) -> None:
    """It is known when the model runs; other rates lead to other weights."""
    one = TensorType(DType.INT32, (1,))
    file = custom_file("Mfcc", [float32(1, 2, 129), one], [float32(1, 2, 13)], options(MFCC))
    x = random(1, 1, 2, 129, low=0, high=30) ** 2
    with gpunn.load(file).compile(backend=backend) as compiled:
        for rate in (16000, 8000):
            np.testing.assert_allclose(
                compiled(x, np.array([rate], np.int32)),
                litert_run(file, [x, np.array([rate], np.int32)])[0],
                atol=1e-4,
            )


def keyword_front_end() -> bytes:
    """The front end of TensorFlow's speech commands: AudioSpectrogram and Mfcc."""
    graph = Graph()
    x = graph.input(float32(16000, 1))
    (s,) = graph.add("AudioSpectrogram", [x], [float32(1, 49, 513)], custom_options=options(SPECTROGRAM))
    result = [float32(1, 49, 13)]
    return graph.build(graph.add("Mfcc", [s, graph.constant(RATE)], result, custom_options=options(MFCC)))


def mel_front_end(frames: int = 24, window: int = 400, step: int = 160) -> bytes:
    """The logarithms of a mel spectrogram from basic operators: gathered frames, a window, RFFT2D, bands."""
    length, bands = 512, 64
    samples, bins = (frames - 1) * step + window, length // 2 + 1
    graph = Graph()
    x = graph.input(float32(samples))
    places = np.arange(frames)[:, None] * step + np.arange(window)
    (f,) = graph.add("GATHER", [x, graph.constant(places.astype(np.int32))], [float32(frames, window)])
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    (f,) = graph.add("MUL", [f, graph.constant(hann.astype(np.float32))], [float32(frames, window)])
    shape = graph.constant(np.array([frames, 1, window], np.int32))
    (f,) = graph.add("RESHAPE", [f, shape], [float32(frames, 1, window)])
    lengths = graph.constant(np.array([1, length], np.int32))
    (z,) = graph.add("RFFT2D", [f, lengths], [complex64(frames, 1, bins)])
    (z,) = graph.add(
        "RESHAPE", [z, graph.constant(np.array([frames, bins], np.int32))], [complex64(frames, bins)]
    )
    (m,) = graph.add("COMPLEX_ABS", [z], [float32(frames, bins)])
    weights = np.random.default_rng(1).uniform(0, 1, (bands, bins)).astype(np.float32)
    (e,) = graph.add("FULLY_CONNECTED", [m, graph.constant(weights)], [float32(frames, bands)])
    (e,) = graph.add("ADD", [e, graph.constant(np.float32(1e-3))], [float32(frames, bands)])
    return graph.build(graph.add("LOG", [e], [float32(frames, bands)]))


def power_front_end() -> bytes:
    """The power of cut frames: RFFT2D, REAL, IMAG, their squares."""
    graph = Graph()
    x = graph.input(float32(1024))
    begin = [graph.constant(np.array([k], np.int32)) for k in (0, 256, 512)]
    size = graph.constant(np.array([512], np.int32))
    frames = [graph.add("SLICE", [x, b, size], [float32(512)])[0] for b in begin]
    (f,) = graph.add("PACK", frames, [float32(3, 512)], {"axis": 0, "values_count": 3})
    (f,) = graph.add("EXPAND_DIMS", [f, graph.constant(np.array(1, np.int32))], [float32(3, 1, 512)])
    lengths = graph.constant(np.array([1, 512], np.int32))
    (z,) = graph.add("RFFT2D", [f, lengths], [complex64(3, 1, 257)])
    parts = [graph.add(name, [z], [float32(3, 1, 257)])[0] for name in ("REAL", "IMAG")]
    squares = [graph.add("MUL", [p, p], [float32(3, 1, 257)])[0] for p in parts]
    return graph.build(graph.add("ADD", squares, [float32(3, 1, 257)]))


FRONT_ENDS = {
    "keywords": (keyword_front_end(), (16000, 1), 1e-3),
    "mel": (mel_front_end(), (24 * 160 + 240,), 1e-4),
    "power": (power_front_end(), (1024,), 1e-2),
}


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_front_ends_run_whole(name: str, backend: str) -> None:
    file, shape, atol = FRONT_ENDS[name]
    agrees(file, [random(1, *shape, low=-1, high=1)], backend, atol)


def test_lengths_that_are_computed(backend: str) -> None:
    """A transform whose lengths an input gives."""
    lengths = TensorType(DType.INT32, (2,))
    file = single_op("RFFT2D", [float32(2, 4, 8), lengths], [complex64(2, 4, 5)])
    x = random(1, 2, 4, 8)
    with gpunn.load(file).compile(backend=backend) as compiled:
        for length in ((4, 8), (3, 7), (1, 16)):
            found = compiled(x, np.array(length, np.int32))
            np.testing.assert_allclose(found, np.fft.rfft2(x, length), atol=1e-4)


def test_any_length(backend: str) -> None:
    """LiteRT takes only powers of two."""
    file = single_op("RFFT2D", [float32(2, 3, 7), np.array([3, 7], np.int32)], [complex64(2, 3, 4)])
    x = random(1, 2, 3, 7)
    with gpunn.load(file).compile(backend=backend) as compiled:
        np.testing.assert_allclose(compiled(x), np.fft.rfft2(x), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "inputs", "values", "message"),
    [
        ("AudioSpectrogram", 1, {"stride": 4}, "option window_size must be a number, got None"),
        ("AudioSpectrogram", 1, {"window_size": 1, "stride": 4}, "a window of 2 or more"),
        ("AudioSpectrogram", 1, {"window_size": 8, "stride": 0}, "a stride of 1 or more"),
        ("AudioSpectrogram", 1, {"window_size": math.nan, "stride": 1}, "must be a number, got nan"),
        ("AudioSpectrogram", 2, SPECTROGRAM, "takes 1 inputs and gives 1, got 2 and 1"),
        ("Mfcc", 1, MFCC, "takes 2 inputs and gives 1, got 1 and 1"),
        ("Mfcc", 2, MFCC, "the sample rate should be int32"),
        ("AudioSpectrogram", 1, None, "the custom options cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(
    name: str, inputs: int, values: Mapping[str, Any] | None, message: str
) -> None:
    given = b"\x01\x02" if values is None else options(values)
    types = [float32(16, 1), float32(1)] if name == "AudioSpectrogram" else [float32(1, 1, 16), float32(1)]
    with pytest.raises(FormatError, match=message):
        gpunn.load(custom_file(name, types[:inputs], [float32(1, 1, 9)], given))


@pytest.mark.parametrize("name", ["keywords", "power"])
def test_mutated_files(name: str) -> None:
    """Files with a changed byte are models or errors of gpunn."""
    file = FRONT_ENDS[name][0]
    generator = np.random.default_rng(1)
    for place, byte in zip(
        generator.integers(0, len(file), 400), generator.integers(0, 256, 400), strict=True
    ):
        changed = bytearray(file)
        changed[place] = byte
        try:
            gpunn.load(bytes(changed))
        except GpunnError as error:
            assert "\n" not in str(error)
