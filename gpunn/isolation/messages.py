"""The messages of a compilation and its worker process: pickles, each behind its length."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import IO, Any

from gpunn.isolation.shared import Region, Stored
from gpunn.types import Array

HEADER = 8  # bytes of a length
MEMORY = "memory"  # a name of Kind.TELL: gpunn.memory() of the process
AT_ONCE = 4096  # bytes that a pipe takes as a whole or not at all (PIPE_BUF of Linux)


class Kind(Enum):
    """The kinds of requests."""

    RUN = auto()  # of `arrays`, within `timeout`
    SUBMIT = auto()  # the same; the first of two replies says that the run has been taken
    TRACE = auto()
    TRACE_WHOLE = auto()  # with all dispatches timed together
    RESET = auto()  # of variables
    TELL = auto()  # what the compilation has as the attribute `name`
    CLOSE = auto()  # `name` says "finish" if runs that were submitted shall end
    CANCEL = auto()  # the request of that number


@dataclass(frozen=True, slots=True)
class Request:
    """A request; its replies have its number. Arrays may be in `region`; results go behind them."""

    number: int
    kind: Kind
    region: Region | None = None
    arrays: Sequence[Stored | Array] = ()
    end: int = 0
    timeout: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: a value, or results of a run, or an error. `last`: no other follows to this request."""

    number: int
    value: Any = None
    arrays: Sequence[Stored | Array] | None = None
    error: BaseException | None = None
    last: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """A compilation that a worker has made."""

    backend: str
    device: str
    frames: int


def packed(message: object) -> bytes:
    """Return a message as it is sent."""
    return framed(pickle.dumps(message))


def framed(data: bytes) -> bytes:
    """Return the bytes of a message behind their length."""
    return len(data).to_bytes(HEADER, "little") + data


def write(file: int, data: bytes) -> None:
    """Write all bytes to a pipe. Raises OSError when nobody reads it any more."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def read(file: IO[bytes]) -> bytes:
    """Return the next message. Raises EOFError when the other process has ended."""
    header = file.read(HEADER)
    size = int.from_bytes(header, "little")
    data = file.read(size) if len(header) == HEADER else b""
    if len(header) < HEADER or len(data) < size:
        raise EOFError
    return data


def failure(error: BaseException) -> BaseException:
    """Return an error as it can be sent: itself, or one of its text."""
    try:
        pickle.load(io.BytesIO(pickle.dumps(error)))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
