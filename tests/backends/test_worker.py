"""Work on two threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from gpunn.backends.worker import beside


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
