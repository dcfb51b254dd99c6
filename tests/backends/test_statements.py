"""Statements with numbers in them, and the loops that they become, against ones worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.backends.webgpu.statements import HOLE, Number, Rounds, Statement, parameters, rolled, unsigned


@pytest.mark.parametrize(
    ("text", "expected"),  # a letter is a statement; the parts, with their periods
    [
        ("", []),
        ("abcd", [("abcd", 4)]),
        ("aaa", [("aaa", 3)]),  # a loop would save too little
        ("a" * 12, [("a" * 12, 1)]),
        ("abc" * 6, [("abc" * 6, 3)]),
        ("xy" + "abc" * 6 + "z", [("xy", 2), ("abc" * 6, 3), ("z", 1)]),
        ("abc" * 6 + "de" * 9 + "ab", [("abc" * 6, 3), ("de" * 9, 2), ("ab", 2)]),
        ("abc" * 5 + "abd" + "abc" * 5, [("abc" * 5, 3), ("abd", 3), ("abc" * 5, 3)]),
    ],
)
def test_parts_that_repeat(text: str, expected: list[tuple[str, int]]) -> None:
    found = rolled([*map(Statement, text)])
    assert [("".join(s.text for s in part.statements), part.period) for part in found] == expected


def test_numbers_that_differ_come_from_a_table() -> None:
    text = f"f({HOLE}, {HOLE}, {HOLE});"
    rounds = Rounds(
        tuple(Statement(text, (*unsigned(7, k), Number.of(k / 2, "f")), 1, k == 2) for k in range(3)), 1
    )
    lines, table = rounds.written("word({})")
    assert lines == ["synchronise();", "f(7u, u32(word(0)), bitcast<f32>(word(1)));"]
    np.testing.assert_array_equal(table[:, 0], [0, 1, 2])
    np.testing.assert_array_equal(table[:, 1], np.array([0, 0.5, 1], np.float32).view(np.int32))
    assert rounds.iterations == (1, 1, 1)


def test_equal_columns_are_one() -> None:
    rounds = Rounds(tuple(Statement(f"f({HOLE}, {HOLE});", unsigned(k, k)) for k in range(2)), 1)
    lines, table = rounds.written("word({})")
    assert lines == ["f(u32(word(0)), u32(word(0)));"]
    assert table.shape == (2, 1)


def test_what_is_added_stands_behind_single_integers() -> None:
    text, numbers = parameters([3, 0.5, (1, 2)], " + z")
    assert Statement(text, numbers).written() == "3u + z, bitcast<f32>(1056964608u), vec2<u32>(1u, 2u)"


def test_parameters() -> None:
    text, numbers = parameters([3, 0.5, (1, 2), (-1, 0, 2, 3), 2**32 - 1])
    written = Statement(text, numbers).written()
    bits = np.float32(0.5).view(np.uint32)
    assert written == f"3u, bitcast<f32>({bits}u), vec2<u32>(1u, 2u), vec4<i32>(-1, 0, 2, 3), 4294967295u"
