"""Specialisations: the programs of a compilation, for each section of a model and shapes that lead there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np

from gpunn.backends import fork
from gpunn.backends.base import NO_VALUES, Program, Span, Stats, Trace
from gpunn.compilation.lending_cache import LendingCache, Loan
from gpunn.compilation.sections import Path, Section, Sections, run_operations
from gpunn.errors import DeviceError
from gpunn.graph.complete import Cut
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import walk
from gpunn.graph.reshape import rebuilt
from gpunn.ops.call import Call
from gpunn.ops.control import some_rounds, while_loop
from gpunn.ops.guard import Guard
from gpunn.planning.partition import Placement
from gpunn.types import Array, Shape

MAX_SPECIALISATIONS = 8  # programs of a section, for different shapes, that are kept; the last used ones


def may_loop(model: Graph) -> bool:
    """Tell whether a graph or a body in it has loops, or operations that wait for shapes, and may be some."""
    known = (while_loop.name, some_rounds.name)
    return any(m.pending or any(o.op in known for o in m.operations) for m in walk(model))


class Body(Protocol):
    """A graph among the attributes of an operation, compiled."""

    @property
    def stats(self) -> Stats:
        """Return its counters."""

    def constants(self) -> Mapping[Hashable, int]:
        """Return the bytes of each constant on the device."""

    def reset_state(self) -> None:
        """Give variables their initial values."""

    def close(self) -> None:
        """Free what is held."""


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A section of a model built for a backend.

    `placements` has, below an operation with bodies, those of the bodies. `operations` are what the host runs
    afterwards, compiled as well, `after` their placements. If this is a first section that others follow,
    `state` has what variables hold and `initial` what they began with. `host_bytes`: see needed_on_host().
    `loops`: whether there are some that may never end, behind the passes.
    """

    section: Section
    placements: tuple[Placement, ...]
    program: Program
    bodies: tuple[Body, ...]
    operations: tuple[Operation, ...]
    after: tuple[Placement, ...]
    guarded: tuple[tuple[int, Guard, Call], ...]
    loops: bool
    initial: tuple[Array, ...] = ()
    state: list[Array] = field(default_factory=list)
    host_bytes: int = 0

    @classmethod
    def of(
        cls,
        section: Section,
        ready: Graph,
        placements: tuple[Placement, ...],
        program: Program,
        bodies: Sequence[Body],
        operations: tuple[Operation, ...],
        after: tuple[Placement, ...],
    ) -> Specialisation:
        """Make one, with the operations on the device that cannot refuse a value of an input themselves."""
        guarded = (
            (ready.inputs.index(operand), guard, p.operation.call())
            for p in placements
            if p.kernels
            for guard, operand in p.operation.guarded
            if operand in ready.inputs
        )
        loops = may_loop(section.graph)
        return cls(section, placements, program, tuple(bodies), operations, after, tuple(guarded), loops)

    @property
    def whole(self) -> bool:
        """Tell whether no other section follows."""
        return self.section.cut is None

    def keeping(self, initial: Iterable[Array]) -> Specialisation:
        """Return the same with the state of variables that begin like this."""
        values = tuple(initial)
        return replace(self, initial=values, state=list(values))

    def check(self, inputs: Sequence[Array]) -> None:
        """Raise ModelError where an input has a value that must be refused."""
        for index, guard, call in self.guarded:
            guard.check(call, np.asarray(inputs[index]))

    def values(self, variables: Mapping[Operand, Array]) -> dict[str, Array]:
        """Return copies of the values of a model's variables, by name, which begin with these values."""
        if not self.whole:
            return {v.name: np.array(value) for v, value in zip(variables, self.state, strict=True)}
        found = {v.name: value for v, value in self.program.state().items()}
        # The passes make constants of variables that never change.
        return {v.name: found.get(v.name, np.array(value)) for v, value in variables.items()}

    def reset_state(self, variables: Iterable[Operand] = (), values: Mapping[str, Array] = NO_VALUES) -> None:
        """Give a model's variables their initial values, apart from those named in `values`."""
        self.program.reset_state(values)
        self.state[:] = self.initial
        if not self.whole:
            for k, variable in enumerate(variables):
                self.state[k] = np.array(values.get(variable.name, self.state[k]))  # the caller keeps its own
        for body in self.bodies:
            body.reset_state()

    def close(self) -> None:
        """Free what is held."""
        self.program.close()
        for body in self.bodies:
            body.close()

    def count(self, total: Stats, *, later: bool, gone: bool = False) -> None:
        """Add the counters up; a `later` section makes no run more."""
        stats = self.program.stats
        total.add(replace(stats, runs=0) if later else stats, gone=gone)
        for body in self.bodies:
            total.add(body.stats, gone=gone, inside=True)

    def constants(self) -> dict[Hashable, int]:
        """Return the bytes of each constant on the device."""
        found = dict(self.program.constants)
        for body in self.bodies:
            found.update(body.constants())
        return found


class Tracer:
    """Runs one section of a model after the other, and puts their traces together. whole: see
    Program.trace().
    """

    def __init__(self, whole: bool = False) -> None:
        self._whole = whole
        self._device_seconds: float | None = None
        self._began = time.perf_counter()
        self._spans: list[Span] = []
        self._method = ""

    def run(self, program: Program, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Run a program with its operations timed, and return its outputs."""
        before = time.perf_counter() - self._began
        trace = program.trace(inputs, self._whole)
        self._spans += (replace(span, begin=before + span.begin) for span in trace.spans)
        self._method = trace.method
        if trace.device_seconds is not None:
            self._device_seconds = (self._device_seconds or 0.0) + trace.device_seconds
        return trace.outputs

    def host(self, operations: Iterable[Operation], times: Iterable[tuple[float, float]]) -> None:
        """Note what the host has done between two sections, with begins and ends by time.perf_counter()."""
        for operation, (began, ended) in zip(operations, times, strict=True):
            self._spans.append(Span(operation.op, began - self._began, ended - began, operation))

    def trace(self, outputs: tuple[Array, ...]) -> Trace:
        """Return all that was noted, with the outputs of the last section."""
        return Trace(tuple(self._spans), self._method, outputs, self._device_seconds)


class Build(Protocol):
    """Builds a section for a backend; the next run reads its last outputs, as many as `state` says."""

    def __call__(self, section: Section, *, state: int = 0) -> Specialisation: ...


class _Gone:
    """The counters of programs that are gone. It refers to no other object, so that there is no cycle."""

    def __init__(self) -> None:
        self.stats = Stats(programs=0)
        self._lock = fork.lock()

    def discard(self, part: Specialisation, later: bool = False) -> None:
        """Free a program, and count what it has done."""
        part.close()
        with self._lock:
            part.count(self.stats, later=later, gone=True)


class Specialisations:
    """The programs of a compilation: for the last used shapes, and for the sections that followed."""

    def __init__(self, model: Graph, build: Build) -> None:
        self._model = model
        self._build = build
        self._gone = _Gone()
        self._lock = fork.lock()
        self._first: LendingCache[Hashable, Specialisation] = LendingCache(
            MAX_SPECIALISATIONS, self._gone.discard
        )
        self._later: list[LendingCache[Hashable, Specialisation]] = []  # second sections, third ones, ...
        self._sections = Sections()
        self._closed = False

    def lend(self, shapes: tuple[Shape, ...]) -> Loan[Specialisation]:
        """Lend what is built for inputs of these shapes. Raises DeviceError when closed."""

        def make() -> Specialisation:
            same = shapes == tuple(i.type.shape for i in self._model.inputs)
            graph = self._model if same else rebuilt(self._model, shapes)
            made = self._build(Section.of(graph))
            return made if made.whole else made.keeping(graph.variables.values())

        return self._first.lend((shapes,), make)

    def finish(
        self,
        shapes: tuple[Shape, ...],
        first: Specialisation,
        results: tuple[Array, ...],
        tracer: Tracer | None = None,
    ) -> tuple[tuple[Array, ...], tuple[Placement, ...]]:
        """Finish a run whose first section gave `results`; return the outputs, and where operations ran."""
        path: Path = (shapes,)
        section, part, placements = first.section, first, first.placements
        for depth in itertools.count():
            built = part.section.cut  # of a section with the same key; what is pending behind it may differ
            if section.cut is None or built is None:
                break
            inputs, times = run_operations(built, part.operations, results)
            path, key, following = self._sections.follow(path, section.cut, inputs)
            begun = _begun(part.after, built, following.graph)
            if tracer is not None:
                tracer.host((p.operation for p in begun if not p.depth), times)
            with self._cache(depth).lend(key, partial(self._make, following)) as part:
                part.check(inputs)
                results = part.program.run(inputs) if tracer is None else tracer.run(part.program, inputs)
            placements = (*placements, *begun, *part.placements)
            section = following
        return results, placements

    def stats(self) -> Stats:
        """Return the counters of all programs so far; those of later sections do not count as runs."""
        with self._lock:
            total = replace(self._gone.stats)
        for depth, cache in enumerate((self._first, *self._later)):
            for part in cache.values():
                part.count(total, later=depth > 0)
        total.resident_bytes = sum(self.constants().values())
        return total

    def constants(self) -> dict[Hashable, int]:
        """Return the bytes of each constant on the device; programs share them."""
        found: dict[Hashable, int] = {}
        for part in self.kept():
            found.update(part.constants())
        return found

    def kept(self) -> list[Specialisation]:
        """Return all that is kept."""
        return [part for cache in (self._first, *self._later) for part in cache.values()]

    def close(self) -> None:
        """Free all programs that nobody uses, the others when they are given back."""
        with self._lock:
            self._closed = True
        for cache in (self._first, *self._later):
            cache.close()
        self._sections.close()

    def _cache(self, depth: int) -> LendingCache[Hashable, Specialisation]:
        with self._lock:
            if self._closed:
                raise DeviceError("this compilation has been closed")
            if depth == len(self._later):
                discard = partial(self._gone.discard, later=True)
                self._later.append(LendingCache(MAX_SPECIALISATIONS, discard))
            return self._later[depth]

    def _make(self, section: Section) -> Specialisation:
        state = len(section.graph.outputs) - len(self._model.outputs) if section.cut is None else 0
        return self._build(section, state=state)


def _begun(after: Iterable[Placement], cut: Cut, following: Graph) -> tuple[Placement, ...]:
    """Return the placements of what the host ran, with the types that the results came to have."""
    types = dict(zip(cut.following.inputs, following.inputs, strict=True))

    def typed(placement: Placement) -> Placement:
        if placement.depth:
            return placement
        results = tuple(types[o] for o in placement.operation.outputs)
        return replace(placement, operation=replace(placement.operation, outputs=results))

    return tuple(map(typed, after))
