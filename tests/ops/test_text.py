"""Skip-grams: examples by hand, and LiteRT for texts with all kinds of white space."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.text import MAX_GRAM_BYTES, skip_gram
from gpunn.strings import as_strings
from gpunn.types import DType, TensorType
from tests.tflite_builder import litert_run, single_op

ONE = TensorType(DType.STRING, (1,))


def grams(text: bytes, size: int, skip: int = 0, smaller: bool = False) -> list[bytes]:
    found = skip_gram.reference(
        as_strings([text], "text"), ngram_size=size, max_skip_size=skip, include_all_ngrams=smaller
    )
    assert found.dtype == object
    result: list[bytes] = found.tolist()
    return result


def test_by_hand() -> None:
    text = b"The quick\t brown fox"
    assert grams(text, 1) == [b"The", b"quick", b"brown", b"fox"]
    assert grams(text, 2) == [b"The quick", b"quick brown", b"brown fox"]
    assert grams(text, 2, 1) == [b"The quick", b"The brown", b"quick brown", b"quick fox", b"brown fox"]
    assert grams(text, 3, 9) == [b"The quick brown", b"The quick fox", b"The brown fox", b"quick brown fox"]
    both = [b"The quick", b"The", b"quick brown", b"quick", b"brown fox", b"brown", b"fox"]
    assert grams(text, 2, smaller=True) == both
    assert grams(text, 5, 2, smaller=True) == []
    assert grams(b"", 1) == grams(b"a b", 0) == grams(b"a b", -1) == []
    assert grams(b"a b", 2, -1) == []


def test_agrees_with_litert() -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    generator = random.Random(0)
    for _ in range(60):
        text = "".join(generator.choice("ab  \t\n\v") for _ in range(generator.randrange(14))).encode()
        options = {
            "ngram_size": generator.randrange(1, 5),
            "max_skip_size": generator.randrange(4),
            "include_all_ngrams": generator.random() < 0.5,
        }
        (expected,) = litert_run(single_op("SKIP_GRAM", [ONE], [ONE], options), [as_strings([text], "text")])
        found = skip_gram.reference(as_strings([text], "text"), **options)
        assert found.tolist() == expected.tolist(), (text, options)


def test_limits() -> None:
    """Few words can have very many n-grams, and few n-grams very many prefixes."""
    many = b" ".join([b"w"] * 60)
    with pytest.raises(ModelError, match=f"more than {MAX_GRAM_BYTES} bytes of n-grams"):
        grams(many, 30, 30)
    assert grams(many, 60, 60) == [many]
    with pytest.raises(ModelError, match="takes one text, got 2"):
        skip_gram.reference(
            np.array([b"a", b"b"], object), ngram_size=1, max_skip_size=0, include_all_ngrams=False
        )
