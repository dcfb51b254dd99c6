"""What a compilation builds: the model for each shape of its inputs, and what follows from values."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np

from gpunn.backends.base import Program, Span, Stats, Trace
from gpunn.compilation.lending_cache import LendingCache
from gpunn.errors import DeviceError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.graph.reshape import rebuilt
from gpunn.graph.rest import Rest
from gpunn.ops.call import Call
from gpunn.ops.guard import Guard
from gpunn.planning.partition import Placement
from gpunn.types import Array, Shape

MAX_SPECIALISATIONS = 8  # programs for different shapes or values that are kept; the last used ones
_Path = tuple[Hashable, ...]  # shapes of the inputs, then what each rest was built for


class Body(Protocol):
    """A graph among the attributes of an operation, compiled."""

    @property
    def stats(self) -> Stats:
        """Its counters."""

    def constants(self) -> Mapping[Hashable, int]:
        """Bytes of each constant on the device."""

    def reset_state(self) -> None:
        """Give variables their initial values."""

    def close(self) -> None:
        """Free what is held."""


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A model built for a backend, for the shapes that its inputs have; and its `rest`, if there is one.

    `placements` has, below an operation with bodies, those of the bodies; where this is the rest of another
    they begin with what the host did before. `after` are those of what it does before the rest of this.
    `state`, where there is a rest, has what variables hold and `initial` what they began with.
    """

    model: Graph
    placements: tuple[Placement, ...]
    after: tuple[Placement, ...]
    program: Program
    bodies: tuple[Body, ...]
    rest: Rest | None
    guarded: tuple[tuple[int, Guard, Call], ...]
    initial: tuple[Array, ...] = ()
    state: list[Array] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        model: Graph,
        placements: tuple[Placement, ...],
        program: Program,
        bodies: Sequence[Body],
        rest: Rest | None,
        after: tuple[Placement, ...],
    ) -> Specialisation:
        """With the operations on the device that cannot refuse a value of an input themselves."""
        guarded = (
            (model.inputs.index(operand), guard, p.operation.call())
            for p in placements
            if p.kernels
            for guard, operand in p.operation.guarded
            if operand in model.inputs
        )
        return cls(model, placements, after, program, tuple(bodies), rest, tuple(guarded))

    def keeping(self, initial: Iterable[Array]) -> Specialisation:
        """With the state of variables that begin like this."""
        values = tuple(initial)
        return replace(self, initial=values, state=list(values))

    def check(self, inputs: Sequence[Array]) -> None:
        """ModelError where an input has a value that must be refused."""
        for index, guard, call in self.guarded:
            guard.check(call, np.asarray(inputs[index]))

    def reset_state(self) -> None:
        """Give variables their initial values."""
        self.program.reset_state()
        self.state[:] = self.initial
        for body in self.bodies:
            body.reset_state()

    def close(self) -> None:
        """Free what is held."""
        self.program.close()
        for body in self.bodies:
            body.close()

    def count(self, total: Stats, *, rest: bool, gone: bool = False) -> None:
        """Add the counters up; what is the `rest` of another makes no run more."""
        stats = self.program.stats
        total.add(replace(stats, runs=0) if rest else stats, gone=gone)
        for body in self.bodies:
            total.add(body.stats, gone=gone, inside=True)

    def constants(self) -> dict[Hashable, int]:
        """Bytes of each constant on the device."""
        found = dict(self.program.constants)
        for body in self.bodies:
            found.update(body.constants())
        return found


class Tracer:
    """Runs one part of a model after the other, and puts their traces together."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._spans: list[Span] = []
        self._method = ""

    def run(self, program: Program, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs of a program, which is traced."""
        before = time.perf_counter() - self._began
        trace = program.trace(inputs)
        self._spans += (replace(span, begin=before + span.begin) for span in trace.spans)
        self._method = trace.method
        return trace.outputs

    def host(self, operation: Operation, began: float, ended: float) -> None:
        """Note what the host has done between two parts, by time.perf_counter()."""
        self._spans.append(Span(operation.op, began - self._began, ended - began, operation))

    def trace(self, outputs: tuple[Array, ...]) -> Trace:
        """What has come together."""
        return Trace(tuple(self._spans), self._method, outputs)


class Build(Protocol):
    """Builds a model for a backend; the next run reads its last outputs, as many as `state` says."""

    def __call__(self, model: Graph, *, state: int = 0) -> Specialisation: ...


class Specialisations:
    """The programs of a compilation: for the last used shapes, and for what was found to follow there."""

    def __init__(self, model: Graph, build: Build) -> None:
        self._model = model
        self._build = build
        self._gone = Stats(programs=0)
        self._lock = threading.Lock()
        self._first: LendingCache[_Path, Specialisation] = LendingCache(MAX_SPECIALISATIONS, self._discard)
        self._rests: list[LendingCache[_Path, Specialisation]] = []  # first rests, then rests of those, ...
        self._closed = False

    def lend(self, shapes: tuple[Shape, ...]) -> AbstractContextManager[Specialisation]:
        """What is built for inputs of these shapes; DeviceError when closed, and what building raises."""

        def make() -> Specialisation:
            same = shapes == tuple(i.type.shape for i in self._model.inputs)
            return self._build(self._model if same else rebuilt(self._model, shapes))

        return self._first.lend((shapes,), make)

    def finish(
        self,
        shapes: tuple[Shape, ...],
        first: Specialisation,
        results: tuple[Array, ...],
        tracer: Tracer | None = None,
    ) -> tuple[tuple[Array, ...], tuple[Placement, ...]]:
        """The outputs of a run whose first part has given `results`, and where all operations ran."""
        path: _Path = (shapes,)
        part, placements = first, first.placements
        for depth in itertools.count():
            if part.rest is None:
                break
            began = time.perf_counter()
            try:
                inputs, values = part.rest.split(results)
            except MemoryError as error:
                raise DeviceError(f"out of memory: {part.rest.operation.origin}: {error}") from error
            ended = time.perf_counter()
            path = (*path, part.rest.key(values))
            with self._rest(depth).lend(path, partial(self._make_rest, part, part.rest, values)) as part:
                part.check(inputs)
                if tracer is not None:
                    tracer.host(part.placements[0].operation, began, ended)
                results = part.program.run(inputs) if tracer is None else tracer.run(part.program, inputs)
            placements = (*placements, *part.placements)
        return results, placements

    def stats(self) -> Stats:
        """The counters of all programs so far; those of a rest do not count as runs."""
        with self._lock:
            total = replace(self._gone)
        for depth, shelf in enumerate((self._first, *self._rests)):
            for part in shelf.values():
                part.count(total, rest=depth > 0)
        total.resident_bytes = sum(self.constants().values())
        return total

    def constants(self) -> dict[Hashable, int]:
        """Bytes of each constant on the device; programs share them."""
        found: dict[Hashable, int] = {}
        for part in self.kept():
            found.update(part.constants())
        return found

    def kept(self) -> list[Specialisation]:
        """All that is kept."""
        return [part for shelf in (self._first, *self._rests) for part in shelf.values()]

    def close(self) -> None:
        """Free all programs that nobody uses, the others when they are given back."""
        with self._lock:
            self._closed = True
        for shelf in (self._first, *self._rests):
            shelf.close()

    def _rest(self, depth: int) -> LendingCache[_Path, Specialisation]:
        with self._lock:
            if self._closed:
                raise DeviceError("this compilation has been closed")
            if depth == len(self._rests):
                self._rests.append(LendingCache(MAX_SPECIALISATIONS, partial(self._discard, rest=True)))
            return self._rests[depth]

    def _make_rest(self, part: Specialisation, rest: Rest, values: tuple[Array, ...]) -> Specialisation:
        model = rest.build(values)
        last = model.rest is None
        built = self._build(model, state=len(model.outputs) - len(self._model.outputs) if last else 0)
        begun = replace(part.after[0], operation=rest.begun(model))
        return replace(built, placements=(begun, *part.after[1:], *built.placements))

    def _discard(self, part: Specialisation, rest: bool = False) -> None:
        part.close()
        with self._lock:
            part.count(self._gone, rest=rest, gone=True)
