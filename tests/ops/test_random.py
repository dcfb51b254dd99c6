"""Random numbers: the generator's published answers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
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
def test_published_answers(
    seeds: tuple[int, int], drawn: int, words: tuple[int, int, int, int], backend: str
) -> None:
    """The lowest 23 bits of each word are the fraction's."""
    count = np.array(drawn, np.int64)
    attrs = {"shape": (4,), "seeds": seeds}
    numbers, after = check("random_uniform", [count], attrs, backend=backend, host=HOST)
    assert numbers.tolist() == [(word & (2**23 - 1)) / 2**23 for word in words]
    assert after == drawn + 1


def test_blocks_follow_one_another(backend: str) -> None:
    """Numbers that are drawn at once are those drawn one block after the other."""
    attrs = {"shape": (2, 8), "seeds": (5, 6)}
    together, after = check("random_normal", [np.array(3, np.int64)], attrs, backend=backend, host=HOST)
    assert after == 7
    for block in range(4):
        attrs = {"shape": (4,), "seeds": (5, 6)}
        count = np.array(3 + block, np.int64)
        alone, _ = check("random_normal", [count], attrs, backend=backend, host=HOST)
        np.testing.assert_array_equal(alone, together.reshape(-1, 4)[block])


def test_what_cannot_be_is_never_chosen(backend: str) -> None:
    """Scores of -inf, NaN and inf stand for nothing; equal ones share alike, within 5 standard deviations."""
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
