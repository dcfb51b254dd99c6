"""Tests with many cases that run a part of them, the same part each time."""

from __future__ import annotations

from collections import defaultdict
from zlib import crc32

import pytest

Groups = dict[tuple[str, object], list[pytest.Function]]


def sampled(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to run and those to leave out.

    A test with the mark sample(n) runs an n-th of its cases, on each backend if that is a parameter.
    """
    groups: Groups = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sample"):
            backend = item.callspec.params.get("backend")
            groups[item.nodeid.split("[")[0], backend].append(item)
    left = {case for cases in groups.values() for case in _left_out(cases)}
    return [item for item in items if item not in left], [item for item in items if item in left]


def _left_out(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Return the cases to leave out; the names of the others have as many different words as can be.

    Apart from this they are chosen in the order of a checksum, which favours no place in a list of cases.
    """
    marker = cases[0].get_closest_marker("sample")
    assert marker is not None
    (every,) = marker.args
    count = -(-len(cases) // every)
    left = sorted(cases, key=lambda case: crc32(case.callspec.id.encode()))
    words = {case: {*case.callspec.id.split("-")} for case in left}
    kept: list[pytest.Function] = []
    met: set[str] = set()
    while len(kept) < count:
        best = max(words, key=lambda case: len(words[case] - met))
        if words[best] <= met:
            kept += [*words][: count - len(kept)]
            break
        met |= words.pop(best)
        kept.append(best)
    return [case for case in left if case not in kept]
