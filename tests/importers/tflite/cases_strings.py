"""Cases of strings that LiteRT looks up, compares, cuts and moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpunn.strings import as_strings
from gpunn.types import Array, DType, Quantization, TensorType
from tests.importers.tflite.case import Case, Fed, ints

WORDS = [b"a", b"", b"three\0", b"\xce\xb1", b"a", b"x" * 300]
TEXT = as_strings([WORDS[:3], WORDS[3:]], "text")
LIST = as_strings(WORDS[:3], "list")
TRUTH = TensorType(DType.BOOL, (2, 3))
HITS = TensorType(DType.UINT8, (3,), Quantization((1.0,), (0,)))


def text(*shape: int) -> TensorType:
    return TensorType(DType.STRING, shape)


# Operator, inputs (a type: fed with TEXT), types of the outputs, options; LiteRT takes strings for these.
ROWS: list[tuple[str, Sequence[Array | TensorType], Sequence[TensorType], dict[str, Any]]] = [
    ("RESHAPE", [text(2, 3), ints(3, 2)], [text(3, 2)], {}),
    ("EXPAND_DIMS", [text(2, 3), ints(1)], [text(2, 1, 3)], {}),
    ("SLICE", [text(2, 3), ints(0, 1), ints(2, 2)], [text(2, 2)], {}),
    ("STRIDED_SLICE", [text(2, 3), ints(1, 0), ints(2, 3), ints(1, 2)], [text(1, 2)], {}),
    ("TILE", [text(2, 3), ints(2, 1)], [text(4, 3)], {}),
    ("FILL", [ints(2, 2), as_strings("word", "value")], [text(2, 2)], {}),
    ("GATHER", [LIST, ints(2, 0, 0)], [text(3)], {}),
    ("GATHER_ND", [text(2, 3), ints([1, 0], [0, 2])], [text(2)], {}),
    ("EQUAL", [text(2, 3), LIST], [TRUTH], {}),
    ("NOT_EQUAL", [text(2, 3), text(2, 3)], [TRUTH], {}),
    ("NOT_EQUAL", [text(2, 3), as_strings([b"a"], "a")], [TRUTH], {}),
    ("HASHTABLE_LOOKUP", [ints(3, 9, 1), ints(1, 2, 3), LIST], [text(3), HITS], {}),
    (
        "LSH_PROJECTION",
        [ints([1, 2, 3], [4, 5, 6]), text(2, 3)],
        [TensorType(DType.INT32, (2,))],
        {"type": 1},
    ),
    (
        "SKIP_GRAM",
        [as_strings(["one two  three"], "line")],
        [text(3)],
        {"ngram_size": 2, "max_skip_size": 1, "include_all_ngrams": False},
    ),
]

CASES = [
    Case(operator, [Fed(TEXT) if isinstance(i, TensorType) else i for i in inputs], outputs, options)
    for operator, inputs, outputs, options in ROWS
]
