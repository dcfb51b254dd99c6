"""Which cases of a test with the mark sample(n) are run."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from tests.sampling import sampled


def cases(test: str, *ids: str, every: int | None) -> list[Any]:
    """Return tests as pytest collects them; the first word of an id is the backend."""
    found = []
    for text in ids:
        item = Mock(spec=pytest.Function, nodeid=f"{test}[{text}]", callspec=Mock(id=text))
        item.callspec.params = {"backend": text.partition("-")[0]}
        item.get_closest_marker.return_value = every and Mock(args=(every,))
        found.append(item)
    return found


def names(items: list[Any]) -> list[str]:
    return [item.nodeid for item in items]


def test_only_tests_with_the_mark_leave_cases_out() -> None:
    plain, marked = cases("a", "cpu-1", "cpu-2", every=None), cases("b", "cpu-1", "cpu-2", every=2)
    kept, left = sampled([*plain, *marked])
    assert names(kept)[:2] == names(plain) and len(kept) == 3
    assert len(left) == 1 and left[0] in marked


def test_each_backend_has_its_part_and_the_choice_stays() -> None:
    ids = [f"{backend}-{number}" for backend in ("cpu", "webgpu") for number in range(7)]
    kept, left = sampled(cases("a", *ids, every=3))
    assert len(kept) == 2 * 3 and len(left) == 2 * 4
    assert sum("webgpu" in name for name in names(kept)) == 3
    assert {*names(kept)} == {*names(sampled(cases("a", *reversed(ids), every=3))[0])}


def test_each_value_of_a_parameter_is_kept_where_the_number_of_cases_allows_it() -> None:
    ids = [f"cpu-{size}-{kind}" for size in ("small", "large", "odd", "empty") for kind in "abcd"]
    kept, _ = sampled(cases("a", *ids, every=4))
    met = {word for name in names(kept) for word in name[2:-1].split("-")}
    assert met == {"cpu", "small", "large", "odd", "empty", "a", "b", "c", "d"}


def test_at_least_one_case_is_kept() -> None:
    assert len(sampled(cases("a", "cpu-1", every=5))[0]) == 1
