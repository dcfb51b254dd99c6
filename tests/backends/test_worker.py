"""Work on several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from gpunn.backends.worker import beside, side_by_side


def test_both_run_at_once_and_the_first_gives_the_result() -> None:
    met = threading.Barrier(2, timeout=60)
    assert beside(lambda: (met.wait(), "opened")[1], met.wait) == "opened"


@pytest.mark.parametrize("swap", [False, True], ids=["first", "second"])
def test_what_one_raises_is_raised_when_both_have_ended(swap: bool) -> None:
    failed, ended = threading.Event(), []

    def fail() -> None:
        failed.set()
        raise OSError("no driver")

    def end() -> None:
        assert failed.wait(60)
        ended.append(threading.get_ident())

    pair: tuple[Callable[[], None], Callable[[], None]] = (end, fail) if swap else (fail, end)
    with pytest.raises(OSError, match="no driver"):
        beside(*pair)
    assert (ended == [threading.get_ident()]) is not swap


def test_works_run_side_by_side() -> None:
    met, threads = threading.Barrier(3, timeout=60), set()

    def work(number: int) -> int:
        if number < 3:
            met.wait()
        threads.add(threading.get_ident())
        return number

    assert side_by_side([partial(work, k) for k in range(9)], 3) == [*range(9)]
    assert len(threads) == 3 and threading.get_ident() not in threads
    assert side_by_side([], 3) == []


def test_what_one_of_several_raises_is_raised_when_all_have_ended() -> None:
    ended: list[int] = []

    def work(number: int) -> None:
        if number == 1:
            raise OSError("no driver")
        ended.append(number)

    with pytest.raises(OSError, match="no driver"):
        side_by_side([partial(work, k) for k in range(5)], 2)
    assert sorted(ended) == [0, 2, 3, 4]
