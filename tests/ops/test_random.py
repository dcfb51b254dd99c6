"""Random numbers: the generator's published results, distributions, and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import check, model_of

HOST = "random numbers are drawn on the host"
# Random123 (D. E. Shaw Research), kat_vectors, philox4x32 10: seeds, blocks drawn, the words of the next.
ANSWERS = (
    ((0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((-1, -1), -1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x299F31D0A4093822, 0x0370734413198A2E),
        0x85A308D3243F6A88 - 2**64,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


@pytest.mark.parametrize(("seeds", "drawn", "words"), ANSWERS)
def test_published_results(
    seeds: tuple[int, int], drawn: int, words: tuple[int, int, int, int], backend: str
) -> None:
    """The lowest 23 bits of each word become the fraction of a number."""
    count = np.array(drawn, np.int64)
    attrs = {"shape": (4,), "seeds": seeds}
    numbers, after = check("random_uniform", [count], attrs, backend=backend)
    assert numbers.tolist() == [(word & (2**23 - 1)) / 2**23 for word in words]
    assert after == drawn + 1


def test_numbers_drawn_at_once_or_in_blocks_are_equal(backend: str) -> None:
    """Drawing all numbers at once gives the same as drawing one block after the other."""
    attrs = {"shape": (2, 8), "seeds": (5, 6)}
    together, after = check("random_normal", [np.array(3, np.int64)], attrs, backend=backend)
    assert after == 7
    for block in range(4):
        attrs = {"shape": (4,), "seeds": (5, 6)}
        count = np.array(3 + block, np.int64)
        alone, _ = check("random_normal", [count], attrs, backend=backend)
        np.testing.assert_array_equal(alone, together.reshape(-1, 4)[block])


@pytest.mark.parametrize("op", ["random_uniform", "random_normal"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0, 3), (1025, 9), (2, 3, 4)])
def test_shapes(op: str, shape: tuple[int, ...], backend: str) -> None:
    """The rounding of an angle moves normal numbers by up to 5.7 (their largest radius) * 2^-21 < 1e-5."""
    attrs = {"shape": shape, "seeds": (2**40 + 3, -7)}
    for drawn in (0, 2**32 - 2, -1, 2**62):
        numbers, after = check(op, [np.array(drawn, np.int64)], attrs, backend=backend)
        assert after == drawn + -(-numbers.size // 4)


def test_uniform_numbers_have_the_same_bits_everywhere(backend: str) -> None:
    attrs = {"shape": (10_000,), "seeds": (7, 8)}
    check("random_uniform", [np.array(5, np.int64)], attrs, backend=backend, atol=0, rtol=0)


def greatest_distance(numbers: Array, distribution: Array) -> float:
    """Return the Kolmogorov-Smirnov statistic; `distribution` is the exact one at the sorted numbers."""
    steps = np.arange(numbers.size + 1) / numbers.size
    return float(max(np.max(steps[1:] - distribution), np.max(distribution - steps[:-1])))


@pytest.mark.parametrize("op", ["random_uniform", "random_normal"])
def test_distributions(op: str, backend: str) -> None:
    """The inequality of Dvoretzky, Kiefer, Wolfowitz and Massart: P(distance > d) <= 2 exp(-2 n d^2).

    For 1e-9, n = 40,000 allows 0.0164. Steps of 2^-23 are negligible. Mean and mean square lie
    within 6 standard deviations: P < 2e-9.
    """
    count = 40_000
    attrs = {"shape": (count,), "seeds": (11, 12)}
    numbers, _ = check(op, [np.array(0, np.int64)], attrs, backend=backend)
    found = np.sort(numbers.astype(np.float64))
    normal = op == "random_normal"
    exact = np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in found]) if normal else found
    assert greatest_distance(found, exact) < math.sqrt(math.log(2e9) / (2 * count))
    mean, variance, square, spread = (0, 1, 1, 2) if normal else (1 / 2, 1 / 12, 1 / 3, 4 / 45)
    assert abs(found.mean() - mean) < 6 * math.sqrt(variance / count)
    assert abs(np.square(found).mean() - square) < 6 * math.sqrt(spread / count)


def test_neighbours_are_independent(backend: str) -> None:
    """Pairs of neighbours fill 16 x 16 cells alike: chi-square with 255 degrees of freedom.

    By Laurent and Massart, P(chi2 > k + 2 sqrt(k t) + 2 t) <= exp(-t); t = 21 makes it 1e-9.
    """
    attrs = {"shape": (64_000, 2), "seeds": (3, 4)}
    pairs, _ = check("random_uniform", [np.array(0, np.int64)], attrs, backend=backend)
    for left, right in ((pairs[:, 0], pairs[:, 1]), (pairs[:-1, 1], pairs[1:, 0])):
        cells = np.bincount((left * 16).astype(int) * 16 + (right * 16).astype(int), minlength=256)
        expected = len(left) / 256
        assert np.sum((cells - expected) ** 2) / expected < 255 + 2 * math.sqrt(255 * 21) + 2 * 21


def test_impossible_classes_are_never_drawn(backend: str) -> None:
    """-inf, NaN and inf are never drawn; equal scores come equally often, within 5 standard deviations."""
    logits = np.array([[0, -np.inf, 0, np.nan, np.inf]], np.float32)
    attrs = {"samples": 4000, "seeds": (1, 1), "dtype": "int32"}
    inputs = [logits, np.array(0, np.int64)]
    found, after = check("multinomial", inputs, attrs, backend=backend, host=HOST)
    counts = np.bincount(found[0], minlength=5)
    assert counts[[1, 3, 4]].tolist() == [0, 0, 0]
    assert abs(counts[0] - 2000) < 5 * np.sqrt(1000)
    assert after == 4000 * 512


def test_errors() -> None:
    zero = np.array(0, np.int64)
    for attrs, message in (
        ({"shape": (2,), "seeds": (1,)}, "seeds must have 2 entries"),
        ({"shape": (-2,), "seeds": (1, 2)}, "shape must have entries >= 0"),
    ):
        with pytest.raises(ModelError, match=message):
            model_of("random_uniform", [zero], attrs)
    with pytest.raises(ModelError, match="input 0 must be one number"):
        model_of("random_normal", [np.zeros(2, np.int64)], {"shape": (2,), "seeds": (1, 2)})
    with pytest.raises(ModelError, match="input 0 must be int64"):
        model_of("random_normal", [np.zeros((), np.int32)], {"shape": (2,), "seeds": (1, 2)})
