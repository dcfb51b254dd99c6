"""Strings in .tflite files: their encoding, operators that take them, and refusals."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.importers.tflite.strings import decode
from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.case import ints
from tests.importers.tflite.cases_strings import LIST, TEXT, WORDS, text
from tests.tflite_builder import Graph, encoded, single_op


def test_encoding() -> None:
    for strings in (WORDS, [], [b""]):
        data = np.frombuffer(encoded(strings), np.uint8)
        assert decode(data, len(strings)).tolist() == strings
    loose = struct.pack("<4i", 2, 20, 21, 22) + b"????" + b"ab??"  # bytes of no string
    assert decode(np.frombuffer(loose, np.uint8), 2).tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (b"", 1, "expected 1 strings, got no count"),
        (b"\1\0\0", 1, "got no count"),
        (encoded([b"a"]), 2, "expected 2 strings, got 1"),
        (struct.pack("<i", -1), 1, "got -1"),
        (struct.pack("<2i", 1, 12), 1, "1 strings do not fit 8 bytes"),
        (struct.pack("<3i", 1, 8, 12), 1, "do not fit"),
        (struct.pack("<3i", 1, 12, 13), 1, "do not fit"),
        (struct.pack("<3i", 1, 12, -1), 1, "do not fit"),
        (struct.pack("<4i", 2, 16, 15, 16), 2, "do not fit"),
        (struct.pack("<i", 2**31 - 1), 2**31 - 1, "do not fit"),
    ],
)
def test_wrong_encodings(data: bytes, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(np.frombuffer(data, np.uint8), count)
    graph = Graph()
    constant = graph.tensor(text(count), "words", data or b"\0")
    (y,) = graph.add("RESHAPE", [constant, graph.constant(ints(-1))], [text(count)])
    with pytest.raises(FormatError, match=r"tensor 0 \(words\)"):
        load(graph.build([y]))


# Operators that move elements of all types; LiteRT refuses strings in them.
@pytest.mark.parametrize(
    ("operator", "inputs", "expected", "options"),
    [
        ("TRANSPOSE", [text(2, 3), ints(1, 0)], TEXT.T, {}),
        ("CONCATENATION", [text(2, 3), text(2, 3)], np.concatenate([TEXT, TEXT]), {}),
        ("PACK", [text(2, 3), text(2, 3)], np.stack([TEXT, TEXT]), {"values_count": 2}),
        ("REVERSE_V2", [text(2, 3), ints(1)], TEXT[:, ::-1], {}),
        ("SELECT_V2", [np.array([True, False, True]), text(2, 3), text(2, 3)], TEXT, {}),
        ("GATHER", [text(2, 3), ints(1)], TEXT[1:], {}),
        ("EMBEDDING_LOOKUP", [ints(1, 1), text(2, 3)], TEXT[[1, 1]], {}),
        ("MIRROR_PAD", [text(2, 3), ints([0, 0], [0, 1])], TEXT[:, [0, 1, 2, 1]], {}),
    ],
)
def test_other_operators_that_move_elements(
    operator: str,
    inputs: Sequence[Array | TensorType],
    expected: Array,
    options: dict[str, Any],
    backend: str,
) -> None:
    file = single_op(operator, inputs, [text(*expected.shape)], options)
    fed = [TEXT for i in inputs if isinstance(i, TensorType)]
    with load(file).compile(backend=backend) as compiled:
        assert compiled(*fed).tolist() == expected.tolist()


def test_strings_of_many_shapes() -> None:
    """Strings that make up most of a file are not counted again for each shape."""
    graph = Graph()
    places = graph.input(TensorType(DType.INT32, (1,)), signature=(-1,))
    (found,) = graph.add("GATHER", [graph.constant(LIST), places], [text(1)], signatures=[(-1,)])
    with load(graph.build([found])).compile(backend="cpu") as compiled:
        for count in range(1, 9):
            assert compiled(np.full(count, 2, np.int32)).tolist() == [LIST[2]] * count


def test_strings_are_not_folded() -> None:
    """Small files can repeat long strings so often that comparisons would take very long."""
    graph = Graph()
    words = graph.constant(LIST)
    (y,) = graph.add("EQUAL", [words, words], [TensorType(DType.BOOL, (3,))])
    (z,) = graph.add("LOGICAL_NOT", [y], [TensorType(DType.BOOL, (3,))])
    with load(graph.build([z])).compile(backend="cpu") as compiled:
        assert [p.operation.op for p in compiled.placement] == ["equal", "logical_not"]
        assert compiled().tolist() == [False] * 3


@pytest.mark.parametrize(
    ("operator", "inputs", "reason"),
    [
        ("ADD", [text(2, 3), text(2, 3)], r"input 0 \(t0\) is STRING, which it does not take"),
        ("CAST", [text(2, 3)], "is STRING, which it does not take"),
        ("PAD", [text(2, 3), ints([1, 1], [0, 0])], "is STRING, which it does not take"),
    ],
)
def test_unsupported_strings(operator: str, inputs: Sequence[Array | TensorType], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{operator} v1: .*{reason}"):
        load(single_op(operator, inputs, [float32(1)]))


@pytest.mark.parametrize(
    ("operator", "inputs", "reason"),
    [
        ("SKIP_GRAM", [float32(1)], "takes a string, got float32"),
        ("SKIP_GRAM", [LIST], "takes one text, got 3"),
        ("WHERE", [LIST], "takes no strings"),
    ],
)
def test_wrong_strings(operator: str, inputs: Sequence[Array | TensorType], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        load(single_op(operator, inputs, [float32(1)]))
