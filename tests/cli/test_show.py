"""Text for people and text for programs."""

from __future__ import annotations

import json

import pytest

from gpunn.cli.show import duration, input_shapes, json_text, plain, size
from gpunn.cli.text import one_line


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 41, "6144.0 GiB")],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5e-5, "25 us"), (0.00125, "1.25 ms"), (0.5, "500 ms"), (2.346, "2.35 s")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_without_a_json_form_become_null() -> None:
    document = {"a": [1.5, float("nan"), float("inf")], "b": {"c": (float("-inf"), "ü")}}
    assert json.loads(json_text(document)) == {"a": [1.5, None, None], "b": {"c": [None, "ü"]}}


def test_shapes_of_inputs() -> None:
    assert input_shapes(["x=1,2", "a=b=3", "s="]) == {"x": (1, 2), "a=b": (3,), "s": ()}


def test_control_characters_are_replaced() -> None:
    assert plain("a\x1b[2Jb\x07[bold]").plain == "a\ufffd[2Jb\ufffd[bold]"
    assert one_line("a\n  b\tc\x1b") == "a b c\ufffd"
