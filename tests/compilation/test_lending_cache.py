"""What is kept by key: made once, bounded, and never discarded under its user."""

from __future__ import annotations

import pytest

from gpunn.compilation.lending_cache import LendingCache
from gpunn.errors import DeviceError


def _take(cache: LendingCache[str, str], key: str) -> str:
    with cache.lend(key, lambda: key.upper()) as found:
        return found


def test_the_one_not_used_for_longest_goes() -> None:
    gone: list[str] = []
    cache: LendingCache[str, str] = LendingCache(2, gone.append)
    for key in "abacaabc":
        assert _take(cache, key) == key.upper()
        assert len(cache.values()) <= 2
    assert gone == ["B", "C", "A"]
    assert cache.values() == ("B", "C")


def test_what_is_lent_is_discarded_when_it_comes_back() -> None:
    gone: list[str] = []
    cache: LendingCache[str, str] = LendingCache(1, gone.append)
    with cache.lend("a", lambda: "A"), cache.lend("b", lambda: "B"):
        assert cache.values() == ("B",) and gone == []
        cache.close()
        assert gone == []
    assert gone == ["B", "A"]
    with pytest.raises(DeviceError, match="closed"):
        _take(cache, "a")


def test_what_cannot_be_made_is_not_kept() -> None:
    cache: LendingCache[str, str] = LendingCache(2, lambda _: None)
    with pytest.raises(ZeroDivisionError), cache.lend("a", lambda: str(1 // 0)):
        pass
    assert cache.values() == () and _take(cache, "a") == "A"
