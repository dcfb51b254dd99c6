"""Counts in sentences."""

from __future__ import annotations

import pytest

from gpunn.wording import counted


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, "file"), "0 files"),
        ((1, "file"), "1 file"),
        ((2, "file"), "2 files"),
        ((1, "class", "classes"), "1 class"),
        ((3, "class", "classes"), "3 classes"),
        ((1.0, "step", "", ".3g"), "1 step"),
        ((1.5, "step", "", ".3g"), "1.5 steps"),
    ],
)
def test_only_one_has_the_singular(arguments: tuple[float, str], expected: str) -> None:
    assert counted(*arguments) == expected
