"""The interface of all backends: a Program of a Plan, pending runs, and counters."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from gpunn.errors import OutOfMemoryError
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel
from gpunn.types import Array

NO_VALUES: Mapping[str, Array] = {}


@dataclass(slots=True)
class Stats:
    """Counters of a compilation. Bytes and counts without `per run` are totals since compile.

    runs: finished or submitted inferences. dispatches, submits: GPU dispatches and queue submissions.
    bytes_uploaded: inputs and host results written to the device, without constants; constant_uploads: bytes
    of constants, written only at compile. bytes_read_back: results copied to the host. resident_bytes:
    constants that this compilation uses on the device. arena_bytes: the buffers of intermediates;
    peak_live_bytes: the largest sum of intermediates that are alive at once, a lower bound of arena_bytes.
    state_bytes: buffers of variables that stay on the device. staging_bytes: the read-back ring. buffers,
    bind_groups, pipelines: objects made at compile; a run makes none, except for buffers of tensors that go
    from one program to another on the device, which are made at first use. encode_seconds: host time for
    recording and submitting dispatches, for which the device waits; ahead_seconds: CPU time in which those of
    the runs so far were recorded ahead, while the device computed. What is recorded for runs that never come
    does not count. upload_seconds: host time for handing inputs to the
    queue. programs: how often the model was built for a backend, once for the shapes of its inputs and again
    for other shapes.
    """

    runs: int = 0
    dispatches: int = 0
    submits: int = 0
    bytes_uploaded: int = 0
    bytes_read_back: int = 0
    constant_uploads: int = 0
    resident_bytes: int = 0
    arena_bytes: int = 0
    peak_live_bytes: int = 0
    state_bytes: int = 0
    staging_bytes: int = 0
    buffers: int = 0
    bind_groups: int = 0
    pipelines: int = 0
    encode_seconds: float = 0.0
    ahead_seconds: float = 0.0
    upload_seconds: float = 0.0
    programs: int = 1

    def add(self, other: Stats, *, gone: bool = False, inside: bool = False) -> None:
        """Count what another program has done, too, and the memory it holds unless it is gone.

        A program `inside` of one that is counted makes no run or program more.
        """
        left_out = (*(_HELD if gone else ()), *(_OUTSIDE if inside else ()))
        for name in (field.name for field in fields(self)):
            if name not in left_out:
                setattr(self, name, getattr(self, name) + getattr(other, name))


_HELD = (
    "resident_bytes",
    "arena_bytes",
    "peak_live_bytes",
    "state_bytes",
    "staging_bytes",
)  # until a program is closed
_OUTSIDE = ("runs", "programs")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes that gpunn has on a device, for all compilations together.

    constants: weights, each once. arenas: intermediate tensors and variables. staging: read-back. parameters:
    numbers of kernels. cached: results on their way from one program to another, kept for the next ones.
    """

    device: str
    constants: int = 0
    arenas: int = 0
    staging: int = 0
    parameters: int = 0
    cached: int = 0

    def plus(self, other: DeviceMemory | None) -> DeviceMemory:
        """Return the bytes of both, which are on the same device."""
        if other is None:
            return self
        kinds = [field.name for field in fields(self) if field.name != "device"]
        return DeviceMemory(self.device, *(getattr(self, k) + getattr(other, k) for k in kinds))

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.constants + self.arenas + self.staging + self.parameters + self.cached


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a run: it began `begin` seconds after the start of the run and took `seconds`.

    A dispatch has an operation and a kernel, an operation on the host no kernel; transfers have neither.
    """

    name: str
    begin: float
    seconds: float
    operation: Operation | None = None
    kernel: Kernel | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The parts of one run, and its outputs. `method`: how operations were timed, "timestamps" or
    "submissions" of the device, or "host clock". `device_seconds`: of a trace as a whole, the time of all
    dispatches on a device.
    """

    spans: tuple[Span, ...]
    method: str
    outputs: tuple[Array, ...]
    device_seconds: float | None = None


def beginning(initial: Mapping[Operand, Array], values: Mapping[str, Array]) -> dict[Operand, Array]:
    """Return what variables begin with: copies of `values`, by name, and initial values for the others."""
    return {v: np.array(values[v.name]) if v.name in values else value for v, value in initial.items()}


def copied(array: Array) -> Array:
    """Copy an array that goes from or to the caller. Raises OutOfMemoryError if memory runs out."""
    try:
        return np.array(array)
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: a copy of {array.nbytes} bytes: {error}") from error


class Pending(Protocol):
    """A run under way."""

    def result(self) -> tuple[Array, ...]:
        """Wait for the run and return its outputs in order; may be called from any thread, repeatedly."""

    def done(self) -> bool:
        """Tell whether the run has ended, and result() returns or raises at once."""


class Program(Protocol):
    """A model built for a backend."""

    @property
    def stats(self) -> Stats:
        """Return the counters; a live object."""

    @property
    def constants(self) -> Mapping[Hashable, int]:
        """Return the bytes of each constant on the device; programs that share one have it under the same
        key.
        """

    @property
    def bundles(self) -> Sequence[Sequence[Kernel]]:
        """Return the kernels that run as one dispatch, for each such dispatch of a run."""

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """Start a run. Inputs have been checked; they may change once submit returns."""

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Run to the end."""

    def repeat(self, inputs: Sequence[Array], rounds: int) -> tuple[Array, ...]:
        """Run that many times, each time on the outputs before; return the last ones.

        These may share memory with one another and with the inputs, so nobody may change them.
        """

    def reset_state(self, values: Mapping[str, Array] = NO_VALUES) -> None:
        """Give variables their initial values, or those of `values`, by name, after the runs before."""

    def state(self) -> Mapping[Operand, Array]:
        """Return copies of the values of its graph's variables, after the runs that were started before."""

    def trace(self, inputs: Sequence[Array], whole: bool = False) -> Trace:
        """Run to the end with every dispatch and host operation timed, which takes longer than a run.

        whole: dispatches are timed together, one behind the other in a pass as in other runs.
        """

    def cancel(self) -> None:
        """Make submitted runs that have not begun fail, and those that are submitted later."""

    def check_not_reentered(self) -> None:
        """Raise DeviceError if this thread is in a run: in a signal's handler, that is."""

    def close(self) -> None:
        """Free what the program holds, after the runs that were submitted."""
