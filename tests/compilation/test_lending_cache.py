"""LendingCache: things are made once, bounded in number, and not discarded while they are lent."""

from __future__ import annotations

import pytest

from gpunn.compilation.lending_cache import LendingCache
from gpunn.errors import DeviceError


def _take(cache: LendingCache[str, str], key: str) -> str:
    with cache.lend(key, lambda: key.upper()) as found:
        return found


def test_the_least_recently_used_is_discarded() -> None:
    gone: list[str] = []
    cache: LendingCache[str, str] = LendingCache(2, gone.append)
    for key in "abacaabc":
        assert _take(cache, key) == key.upper()
        assert len(cache.values()) <= 2
    assert gone == ["B", "C", "A"]
    assert cache.values() == ("B", "C")


def test_a_lent_thing_is_discarded_when_it_is_returned() -> None:
    gone: list[str] = []
    cache: LendingCache[str, str] = LendingCache(1, gone.append)
    with cache.lend("a", lambda: "A"), cache.lend("b", lambda: "B"):
        assert cache.values() == ("B",) and gone == []
        cache.close()
        assert gone == []
    assert gone == ["B", "A"]
    with pytest.raises(DeviceError, match="closed"):
        _take(cache, "a")


def test_a_failure_is_not_kept() -> None:
    cache: LendingCache[str, str] = LendingCache(2, lambda _: None)
    with pytest.raises(ZeroDivisionError), cache.lend("a", lambda: str(1 // 0)):
        pass
    assert cache.values() == () and _take(cache, "a") == "A"
