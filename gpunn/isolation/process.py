"""Worker: a process that runs a compilation, as the process that uses the compilation sees it."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from gpunn.backends import fork
from gpunn.backends.base import copied
from gpunn.backends.interrupt import Stop, holding
from gpunn.backends.worker import Job, to_the_end
from gpunn.errors import DeviceError
from gpunn.isolation.messages import AT_ONCE, Kind, Made, Reply, Request, framed, packed, read, write
from gpunn.isolation.shared import Lease, SharedMemory, Stored, fetch, needed, store
from gpunn.types import Array

START = 60.0  # seconds that a process may take for its start, beside those of the compile
GRACE = 5.0  # seconds that a process has to end a run that was cancelled, or whose time is over

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from gpunn.isolation.worker import main"


class Call:
    """A request under way: what came of it, and before, for a submitted run, that it has been taken."""

    def __init__(self, number: int, lease: Lease | None) -> None:
        self.number = number
        self._lease = lease
        self._replies: list[Reply] = []
        self._error: DeviceError | None = None
        self.taken: Job[None] = Job(self._check)
        self.outcome: Job[Any] = Job(self._unpacked)

    def receive(self, reply: Reply) -> None:
        """Take a reply."""
        self._replies.append(reply)
        if reply.last:
            self.outcome.carry_out()
        self.taken.carry_out()

    def fail(self, error: DeviceError) -> None:
        """Note that no reply will come."""
        self._error = error
        self.outcome.carry_out()
        self.taken.carry_out()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._replies[0].error is not None:
            raise self._replies[0].error

    def _unpacked(self) -> Any:
        """Return the results, copied from the shared memory, which is given back, or another value."""
        lease, self._lease = self._lease, None
        if self._error is not None:
            raise self._error
        reply = self._replies[-1]
        if reply.error is not None:
            raise reply.error
        if reply.arrays is None:
            return reply.value
        memory = None if lease is None else lease.memory
        return tuple(copied(fetch(memory, place)) for place in reply.arrays)


class _Link:
    """A process and its calls, for the thread that reads replies, which must not keep a Worker alive."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.calls: dict[int, Call] = {}
        self.death: DeviceError | None = None

    def listen(self) -> None:
        """Pass on replies until the process ends; then make all that waits fail."""
        assert self.process.stdout is not None
        try:
            while True:
                reply: Reply = pickle.loads(read(self.process.stdout))
                call = self.calls.pop(reply.number, None) if reply.last else self.calls.get(reply.number)
                if call is not None:
                    call.receive(reply)
        except Exception:  # the end of the process, or a reply that makes no sense
            death = self.ended()
            self.process.stdout.close()
        while self.calls:
            with suppress(KeyError):
                self.calls.popitem()[1].fail(death)

    def ended(self) -> DeviceError:
        """End the process, if it has not ended itself; return the error that says how."""
        self.process.kill()
        death = DeviceError(f"the worker process {_ended(self.process.wait())}")
        self.death = self.death or death
        return self.death


def _ended(code: int) -> str:
    """Say how a process has ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"


class Worker:
    """A process that has compiled a model."""

    def __init__(self, recipe: bytes, seconds: float | None = None) -> None:
        """Start the process, and wait until it has compiled.

        recipe: a pickled function that compiles the model in `seconds`, if it must end in time. Raises what
        it raises, DeviceError if the process cannot be started or ends, and RunTimeoutError if it does not
        answer in time.
        """
        if getattr(sys, "frozen", False):
            raise DeviceError(
                "isolate=True starts a Python interpreter, but this program is frozen without one"
            )
        self._memory = SharedMemory()
        self._lock = fork.lock()
        self._numbers = itertools.count(1)
        self._expected = 0  # bytes of results
        self._link = _Link(_started(self._memory.file))
        self._end = weakref.finalize(self, _end, self._link.process, self._memory)
        fork.in_child(self, Worker._after_fork)
        hello = self._link.calls[0] = Call(0, None)
        threading.Thread(target=self._link.listen, name="gpunn-replies", daemon=True).start()
        try:
            self._send(framed(recipe))
            stop = Stop() if seconds is None else Stop(START + seconds + GRACE)
            self.made: Made = stop.carry(hello.outcome.result)
        except BaseException:
            self.kill()
            raise

    @property
    def alive(self) -> bool:
        """Tell whether the process has not ended."""
        return self._link.death is None

    def ask(
        self,
        kind: Kind,
        arrays: Sequence[Array] = (),
        *,
        results: int = 0,
        timeout: float | None = None,
        name: str = "",
    ) -> Call:
        """Send a request; results: bytes for which there should be room. Raises DeviceError."""
        lease: Lease | None = None
        places: Sequence[Stored | Array] = arrays
        end = 0
        if arrays or results:
            lease = self._memory.take(needed(arrays) + max(results, self._expected))
            places, end = store(lease.memory, 0, arrays)
        number = next(self._numbers)
        region = None if lease is None else lease.region
        request = Request(number, kind, region, places, end, timeout, name)
        call = self._link.calls[number] = Call(number, lease)
        try:
            self._send(packed(request))
        except BaseException:
            self.cancel(call)
            raise
        if self._link.death is not None:  # it may have ended before the call was noted
            call.fail(self._link.death)
        return call

    def expect(self, results: Sequence[Array]) -> None:
        """Learn how much room results need."""
        self._expected = max(self._expected, needed(results))

    def cancel(self, call: Call) -> None:
        """End a request early."""
        if not call.outcome.done():
            with suppress(DeviceError):
                self._send(packed(Request(call.number, Kind.CANCEL)))

    def settle(self, call: Call) -> None:
        """Wait for the end of a request that was cancelled; a process that needs more than GRACE is ended."""
        deadline = time.monotonic() + GRACE
        while not call.outcome.done() and time.monotonic() < deadline:
            call.outcome.wait()
        if not call.outcome.done():
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._link.death = self._link.death or DeviceError("the worker process was ended")
        self._link.process.kill()
        self.end()

    def end(self) -> None:
        """Let the process end: its input does."""
        self._end()

    def _send(self, message: bytes) -> None:
        """Write a message as a whole, whatever interrupts it; a short one is one call of the system."""
        if len(message) <= AT_ONCE:
            self._write(message)
        else:
            to_the_end(partial(self._write, message))

    def _write(self, message: bytes) -> None:
        stream = self._link.process.stdin
        assert stream is not None
        try:
            with holding(self._lock):
                write(stream.fileno(), message)
        except (OSError, ValueError):  # it has ended, or has been told to
            raise self._link.ended() from None

    def _after_fork(self) -> None:
        """Do without the process in a child process of this one, which must not keep its pipes open."""
        self._end.detach()
        process = self._link.process
        process.returncode = 0  # it is no child of this process
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(OSError):
                os.close(stream.fileno())
        self._memory.close()
        self._link.death = DeviceError("the worker process belongs to the process before fork")


def _started(file: int) -> subprocess.Popen[bytes]:
    """Start a process. It has no terminal, so that Ctrl-C there does not reach it."""
    command = [sys.executable, "-c", f"{_START}; main({file})", json.dumps([str(path) for path in sys.path])]
    how: dict[str, Any] = {"start_new_session": True, "pass_fds": (file,)}
    if sys.platform == "win32":
        how = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1, **how)
    except OSError as error:
        raise DeviceError(f"no worker process can be started: {error}") from error


def _end(process: subprocess.Popen[bytes], memory: SharedMemory) -> None:
    """Close the input of a process, at which it ends, and the memory that it shares."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    memory.close()
