"""The worker process of an isolated compilation: it compiles the model, and runs it as it is told.

It ends when its input does: when the compilation is closed or forgotten, or its process has ended.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from gpunn.backends.interrupt import Stop
from gpunn.compilation.base import Compilation
from gpunn.compilation.compiler import memory
from gpunn.errors import ModelError, RunCancelledError
from gpunn.isolation.messages import MEMORY, Kind, Made, Reply, Request, failure, packed, read, write
from gpunn.isolation.shared import Region, fetch, mapped, store
from gpunn.ops.op import as_tuple
from gpunn.types import Array

MOST = 64  # runs at a time


def main(file: int) -> None:
    """Answer requests until the input ends. `file` is that of the shared memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that uses the compilation
    requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(2, 1)  # what operations print is no reply
    server = _Server(replies, file)
    with suppress(EOFError):
        server.make(read(requests))
        while True:
            server.take(pickle.loads(read(requests)))
    os._exit(0)  # what is under way need not end


def _made(recipe: bytes) -> Compilation:
    try:
        make: Callable[[], Compilation] = pickle.loads(recipe)
    except (AttributeError, ImportError) as error:
        advice = "functions of custom operators must be in a module that another process can import"
        raise ModelError(f"isolate=True: {error}; {advice}") from error
    return make()


class _Server:
    """Answers requests on other threads than the one that reads them: on one thread what has an order."""

    _compiled: Compilation

    def __init__(self, replies: int, file: int) -> None:
        self._replies = replies
        self._file = file
        self._regions: dict[Region, mmap.mmap] = {}
        self._cancel: dict[int, Callable[[], object]] = {}  # requests under way
        self._lock = threading.Lock()
        self._runs = ThreadPoolExecutor(MOST)
        self._in_order = ThreadPoolExecutor(1)
        self._ways: dict[Kind, tuple[ThreadPoolExecutor, Callable[[Request], Reply | None]]] = {
            Kind.RUN: (self._runs, self._run),
            Kind.TRACE: (self._runs, self._trace),
            Kind.TRACE_WHOLE: (self._runs, partial(self._trace, whole=True)),
            Kind.SUBMIT: (self._in_order, self._submit),
            Kind.RESET: (self._in_order, self._reset),
            Kind.TELL: (self._runs, self._tell),
            Kind.CLOSE: (self._runs, self._close),
        }

    def make(self, recipe: bytes) -> None:
        """Have the compilation made; its user waits for the reply before the first request."""
        self._in_order.submit(self._answer, Request(0, Kind.TELL), Stop(), partial(self._make, recipe))

    def take(self, request: Request) -> None:
        """Have a request answered."""
        if request.kind is Kind.CANCEL:
            cancel = self._cancel.get(request.number)
            if cancel is None:  # the request was never sent, or has been answered
                self._reply(Reply(request.number, error=RunCancelledError("the run was cancelled")))
            else:
                cancel()
            return
        stop = Stop()
        self._cancel[request.number] = lambda: stop.cancel("the run was cancelled")
        pool, answer = self._ways[request.kind]
        pool.submit(self._answer, request, stop, answer)

    def _answer(self, request: Request, stop: Stop, answer: Callable[[Request], Reply | None]) -> None:
        try:
            reply = stop.carry(lambda: answer(request))
        except BaseException as error:
            reply = Reply(request.number, error=failure(error))
        if reply is not None:
            self._reply(reply)

    def _reply(self, reply: Reply) -> None:
        if reply.last:
            self._cancel.pop(reply.number, None)
        try:
            data = packed(reply)
        except Exception as error:
            data = packed(Reply(reply.number, error=failure(error)))
        with self._lock:
            write(self._replies, data)

    def _arrays(self, request: Request) -> list[Array]:
        memory = None if request.region is None else self._memory(request.region)
        return [fetch(memory, place) for place in request.arrays]

    def _memory(self, region: Region) -> mmap.mmap:
        with self._lock:
            if region not in self._regions:
                self._regions[region] = mapped(self._file, region)
            return self._regions[region]

    def _results(self, request: Request, results: Any) -> Reply:
        arrays = as_tuple(results)
        if request.region is None:
            return Reply(request.number, arrays=arrays)
        return Reply(request.number, arrays=store(self._memory(request.region), request.end, arrays)[0])

    def _make(self, recipe: bytes, request: Request) -> Reply:
        self._compiled = made = _made(recipe)
        return Reply(request.number, Made(made.backend, made.device, made.frames))

    def _run(self, request: Request) -> Reply:
        arrays = self._arrays(request)
        return self._results(request, self._compiled.answer(arrays, timeout=request.timeout))

    def _trace(self, request: Request, whole: bool = False) -> Reply:
        return Reply(request.number, self._compiled.trace(*self._arrays(request), whole=whole))

    def _submit(self, request: Request) -> None:
        event = self._compiled.submit(*self._arrays(request))
        self._cancel[request.number] = event.cancel
        self._reply(Reply(request.number, last=False))
        self._runs.submit(self._answer, request, Stop(), lambda taken: self._results(taken, event.result()))

    def _reset(self, request: Request) -> Reply:
        self._compiled.reset_state()
        return Reply(request.number)

    def _tell(self, request: Request) -> Reply:
        found = memory if request.name == MEMORY else getattr(self._compiled, request.name)
        return Reply(request.number, found() if callable(found) else found)

    def _close(self, request: Request) -> Reply:
        self._compiled.close(finish=request.name == "finish")
        return Reply(request.number, self._compiled.stats)
