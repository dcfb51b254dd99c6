"""What is kept by key: made once, bounded, and never discarded under its user."""

from __future__ import annotations

import pytest

from gpunn.compilation.lending_cache import Shelf
from gpunn.errors import DeviceError


def _take(shelf: Shelf[str, str], key: str) -> str:
    with shelf.lend(key, lambda: key.upper()) as found:
        return found


def test_the_one_not_used_for_longest_goes() -> None:
    gone: list[str] = []
    shelf: Shelf[str, str] = Shelf(2, gone.append)
    for key in "abacaabc":
        assert _take(shelf, key) == key.upper()
        assert len(shelf.values()) <= 2
    assert gone == ["B", "C", "A"]
    assert shelf.values() == ("B", "C")


def test_what_is_lent_is_discarded_when_it_comes_back() -> None:
    gone: list[str] = []
    shelf: Shelf[str, str] = Shelf(1, gone.append)
    with shelf.lend("a", lambda: "A"), shelf.lend("b", lambda: "B"):
        assert shelf.values() == ("B",) and gone == []
        shelf.close()
        assert gone == []
    assert gone == ["B", "A"]
    with pytest.raises(DeviceError, match="closed"):
        _take(shelf, "a")


def test_what_cannot_be_made_is_not_kept() -> None:
    shelf: Shelf[str, str] = Shelf(2, lambda _: None)
    with pytest.raises(ZeroDivisionError), shelf.lend("a", lambda: str(1 // 0)):
        pass
    assert shelf.values() == () and _take(shelf, "a") == "A"
