"""Fourier transforms of all kinds of lengths, against sums written out and numpy.fft in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.errors import ModelError
from gpunn.ops.accuracy import EPS, Evaluation
from gpunn.ops.signal.fourier import DIRECT, MOST, Transform, chirp, real_transform, roots, transform
from gpunn.types import Array
from tests.ops.harness import check, model_of, random

LONG = [131, 251, 257, 509, 1000, 1009, 1024, 2048, 4096, 44100, 44101, 65536, 131072]


def check_spectrum(x: Array, length: tuple[int, int], backend: str) -> None:
    """Assert the stated bound of every element, and the usual size of all errors together.

    Rounding errors that are independent grow with the root of their number (Higham and Mary 2019, SIAM J.
    Sci. Comput. 41, A2815). A convolution has those of two transforms, with larger elements than the result.
    """
    model = model_of("rfft2d", [x], {"length": length})
    expected = np.fft.rfft2(x.astype(np.float64), s=length)
    evaluation = Evaluation(model.operations[0].call(), [x.astype(np.float64)], (expected,))
    formula = model.operations[0].definition.accuracy.formula
    assert formula is not None
    (found,) = check("rfft2d", [x], {"length": length}, backend=backend, atol=formula(evaluation), rtol=0)
    assert found.dtype == np.complex64
    ways = [real_transform(length[1]), *([transform(length[0])] if length[0] > 1 else [])]
    roundings = sum(r + 3 for way in ways for radices in way.passes for r in radices)
    larger = math.prod(4.0 if way.chirp else 1.0 for way in ways)
    size = np.linalg.norm(expected)
    assert np.linalg.norm(found - expected) <= EPS * (1 + larger * math.sqrt(roundings)) * size


@pytest.mark.sample(4)
@pytest.mark.parametrize("length", range(1, DIRECT + 1))
def test_every_short_length(length: int, backend: str) -> None:
    check_spectrum(random(length, 3, 1, length), (1, length), backend)


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", LONG)
def test_long_lengths(length: int, backend: str) -> None:
    check_spectrum(random(length, 2 if length < 5000 else 1, 1, length), (1, length), backend)


@pytest.mark.parametrize(
    ("shape", "length"),
    [
        ((4, 8), (4, 8)),
        ((3, 4, 8), (4, 8)),
        ((2, 3, 5, 7), (5, 7)),
        ((2, 5, 9), (4, 8)),
        ((2, 3, 7), (4, 8)),
        ((2, 5, 7), (4, 8)),
        ((2, 3, 9), (4, 8)),
        ((2, 8, 1), (8, 1)),
        ((2, 8, 4), (8, 2)),
        ((5, 3, 8), (1, 8)),
        ((3, 1, 1), (1, 1)),
        ((2, 1, 3), (3, 16)),
        ((2, 100, 60), (100, 60)),
        ((131, 137), (131, 137)),
        ((3, 2048), (3, 2048)),
        ((2048, 3), (2048, 3)),
        ((70000, 1, 4), (1, 4)),
        ((1, 300), (1, 1024)),
        ((1, 100, 600), (64, 512)),
    ],
)
def test_rows_and_columns(shape: tuple[int, ...], length: tuple[int, int], backend: str) -> None:
    """Batches, cut to a length or filled up with zeros, also with lengths of 1."""
    check_spectrum(random(1, *shape), length, backend)


def test_nothing_to_transform(backend: str) -> None:
    check("rfft2d", [random(1, 0, 4, 8)], {"length": (4, 8)}, backend=backend)
    for shape in ((2, 0, 8), (2, 4, 0)):
        host = "there is nothing to transform"
        check("rfft2d", [random(1, *shape)], {"length": (4, 8)}, backend=backend, host=host)


@pytest.mark.parametrize("length", [(1, 1), (1, 2), (2, 1), (3, 4), (4, 3), (5, 6), (2, 131)])
def test_the_reference_is_the_sum_written_out(length: tuple[int, int]) -> None:
    height, width = length
    x = random(3, 2, 4, 5).astype(np.float64)
    padded = np.zeros((2, max(4, height), max(5, width)))
    padded[:, :4, :5] = x
    padded = padded[:, :height, :width]
    down = np.exp(-2j * np.pi * np.outer(np.arange(height), np.arange(height)) / height)
    along = np.exp(-2j * np.pi * np.outer(np.arange(width), np.arange(width // 2 + 1)) / width)
    operation = model_of("rfft2d", [x.astype(np.float32)], {"length": length}).operations[0]
    np.testing.assert_allclose(operation.evaluate([x])[0], down @ padded @ along, atol=1e-11)


def test_a_tone_and_a_constant_by_hand(backend: str) -> None:
    """cos(2 pi 3 t / 16) has 8 at frequency 3; a constant 1 has 16 at frequency 0; nothing else is there."""
    tone = np.cos(2 * np.pi * 3 * np.arange(16) / 16)
    x = np.stack([tone, np.ones(16)]).astype(np.float32)[:, None]
    with model_of("rfft2d", [x], {"length": (1, 16)}).compile(backend=backend) as compiled:
        found = compiled(x)[:, 0]
    expected = np.zeros((2, 9))
    expected[0, 3], expected[1, 0] = 8, 16
    np.testing.assert_allclose(found, expected, atol=16 * 8 * EPS)


def test_what_is_not_finite_stays_in_its_own_spectrum(backend: str) -> None:
    x = random(1, 2, 1, 16)
    x[0, 0, 5] = np.nan
    with model_of("rfft2d", [x], {"length": (1, 16)}).compile(backend=backend) as compiled:
        found = compiled(x)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_ways_of_all_lengths() -> None:
    """The radices multiply to the length, or to a power of two for the convolution; passes fit."""
    for length in (*range(1, 3000), 2**20, 3**12, 5**8, 7**6, 127**3, 2 * 3**12):
        way = transform(length)
        whole = way.chirp or length
        assert math.prod(math.prod(radices) for radices in way.passes) == whole
        assert all(math.prod(radices) <= MOST and len(radices) <= 6 for radices in way.passes)
        assert not way.chirp or (way.chirp >= 2 * length - 1 and way.chirp.bit_count() == 1)
    assert transform(2**20).passes == ((4,) * 5, (4,) * 5)
    assert transform(127) == Transform(127, ((127,),))
    assert transform(131).chirp == 512
    assert real_transform(2048) == Transform(2048, ((4,) * 5,), packed=True)
    assert real_transform(2) == Transform(2, ((),), packed=True)
    assert [real_transform(n).packed for n in (1, 3, 4096, 262)] == [False] * 4


def test_tables_are_exact_at_quarters_and_rounded_once() -> None:
    assert roots(8)[[0, 2, 4, 6]].tolist() == [1, -1j, -1, 1j]
    for length in (3, 7, 100, 1024):
        exact = np.exp(-2j * np.pi * np.arange(length) / length)
        assert np.abs(roots(length) - exact).max() < EPS
        squares = np.exp(-1j * np.pi * (np.arange(length) ** 2 % (2 * length)) / length)
        assert np.abs(chirp(length) - squares).max() < EPS


def test_passes_of_every_length_fit_each_device() -> None:
    """Each pass needs the memory and the buffers that every device has."""
    for length, dispatches in ((1024, 1), (2048, 1), (131, 2), (4096, 2), (44101, 4), (65536, 2)):
        model = model_of("rfft2d", [np.zeros((1, length), np.float32)], {"length": (1, length)})
        kernels = lower(model.operations[0], BASELINE)
        assert not isinstance(kernels, str), kernels
        assert len(kernels) == dispatches
        assert all(k.workgroup_bytes <= 16384 for k in kernels)


@pytest.mark.parametrize(
    ("x", "length", "message"),
    [
        (np.zeros(4, np.float32), (1, 4), "takes rows and columns"),
        (np.zeros((2, 4), np.int32), (1, 4), "must be float32 or float16"),
        (np.zeros((2, 4), np.complex64), (1, 4), "must be float32 or float16"),
        (np.zeros((2, 4), np.float32), (0, 4), "at least 1"),
        (np.zeros((2, 4), np.float32), (4,), "2 entries"),
        (np.zeros((2, 4), np.float32), (2**30, 2**30), "elements"),
    ],
)
def test_refused(x: Array, length: tuple[int, ...], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("rfft2d", [x], {"length": length})
