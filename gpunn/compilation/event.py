"""Event: a run under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

from gpunn.arguments import expect_list
from gpunn.backends.base import Pending
from gpunn.backends.interrupt import Stop
from gpunn.types import Array

_T = TypeVar("_T")


class CarryOut(Protocol):
    """A way to run the pieces of one run: directly, or so that they can be interrupted."""

    def __call__(self, work: Callable[[], _T]) -> _T: ...


class Event:
    """A run under way (NeuralNetworks.h, ANeuralNetworksEvent); several threads may wait on one.

    `timeout` is in seconds, as in concurrent.futures: after it the run goes on, and may be waited for again.
    """

    def __init__(self, pending: Pending, carry_out: CarryOut, stop: Stop) -> None:
        self._pending = pending
        self._carry_out = carry_out
        self._stop = stop

    def __repr__(self) -> str:
        return f"<Event of a run that {'has ended' if self.done() else 'is under way'}>"

    def wait(self, timeout: float | None = None) -> None:
        """Block until the run has ended. Raises what the run raised, and as result()."""
        self._results(timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Wait, and return the array of the only output, or a tuple of arrays in the order of the outputs.

        Raises RunTimeoutError after `timeout`, RunCancelledError after cancel(), and what the run raised.
        """
        return single(self._results(timeout))

    def done(self) -> bool:
        """Tell whether the run has ended and result() need not wait or compute any more."""
        return self._pending.done()

    def cancel(self) -> bool:
        """End the run before its next operation or round of a loop; return False if it has ended already.

        result() then raises RunCancelledError at once. What has been handed to a GPU is computed to its end.
        Variables keep their values, unless the run's last part has been handed to a GPU.
        """
        if self.done():
            return False
        self._stop.cancel("the run was cancelled")
        return True

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait in a thread, so that an event loop goes on; `await event` gives what result() gives."""
        import asyncio  # which most programs do without, and which takes long to import

        return asyncio.to_thread(self.result).__await__()

    def _results(self, timeout: float | None) -> tuple[Array, ...]:
        if self.done():
            return self._pending.result()
        self._stop.check()
        wait = Stop(timeout, self._stop)
        return self._carry_out(partial(wait.carry, self._pending.result))


def single(results: tuple[Array, ...]) -> Array | tuple[Array, ...]:
    """Return the only result, or all of several."""
    return results[0] if len(results) == 1 else results


def results_in_order(frames: Iterable[Any], submit: Callable[..., Event], in_flight: int) -> Iterator[Any]:
    """Yield the results of runs on a sequence of inputs, of which several are in flight.

    What a frame raises, or taking it from `frames`, comes after the results of the frames before it.
    """
    expect_list("frames", frames, "inputs")
    ring: deque[Event] = deque()
    source = iter(frames)
    failure: Exception | None = None
    while failure is None:
        try:
            frame = next(source)
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        if len(ring) == in_flight:
            yield ring.popleft().result()
        try:
            ring.append(submit(*(frame if isinstance(frame, tuple) else (frame,))))
        except Exception as error:
            failure = error
    while ring:
        yield ring.popleft().result()
    if failure is not None:
        raise failure
