"""built(): a section of a model made ready for a device, or for the CPU backend, bodies included."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpunn.backends.base import Program
from gpunn.backends.cpu import CpuProgram, HostBody, computed_kinds, itself
from gpunn.backends.interrupt import Stop, check
from gpunn.compilation.host_memory import needed_on_host
from gpunn.compilation.on_gpu import Lowered, lowered_loops, placed_on_gpu
from gpunn.compilation.runtime import LocalCompilation
from gpunn.compilation.sections import Section
from gpunn.compilation.specialise import Build, Specialisation
from gpunn.garbage import rare_collections
from gpunn.graph.bodies import with_bodies, with_graphs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import OpenBody
from gpunn.graph.pending import FOR_SHAPES
from gpunn.limits import UNLIMITED, Limits
from gpunn.ops.compiled import load as load_loops
from gpunn.ops.compiled import maker
from gpunn.ops.control import some_rounds, while_loop
from gpunn.passes import optimise
from gpunn.passes.relax import relax
from gpunn.passes.rewrite import everywhere
from gpunn.passes.rounds import several_rounds
from gpunn.planning.inline import inline
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement, partition
from gpunn.planning.plan import Plan, make_plan
from gpunn.types import Array, TensorType

if TYPE_CHECKING:
    from gpunn.backends.webgpu.device import Device
    from gpunn.tuning.tuner import Tuner

ROUNDS_AHEAD = 64  # of a loop whose end only a run tells, before the host asks whether there are more
LEAST_AHEAD = 4
MAX_WORK_AHEAD = 1 << 12  # workgroups times loop iterations of rounds that may be too much: some ms
MAX_HOST_FLOPS = 1 << 18  # of a round that the host computes in less time than a submission takes
HOSTED = "a submission for each round of its loop would take longer"


def compilation(model: Graph, build: Build, gpu: Device | None, frames: int) -> LocalCompilation:
    """Return the compilation of a model for a device, or for the CPU backend; `build` makes its programs."""
    if gpu is None:
        return LocalCompilation(model, build, "cpu", "cpu (numpy)", frames)
    return LocalCompilation(model, build, "webgpu", f"{gpu.info.name} ({gpu.info.driver})", frames)


@dataclass(frozen=True, slots=True)
class Settings:
    """The way in which all programs of a compilation are made: for a device, or for the CPU backend if None.

    At most `frames` submitted runs have not ended. relaxed: see gpunn.passes.relax. threads: of large
    products on the host, see blas.choose_threads(). limits: what each program may take. tuner: chooses among
    several kernels of an operation; None: the rule does. sustained: the CPU backend uses compiled loops if
    numba is installed and no limit of compile_seconds forbids to wait for it. hosted: why nothing runs on
    the device of the programs around it.
    """

    gpu: Device | None
    frames: int = 1
    relaxed: bool = False
    threads: int | None = None
    limits: Limits = UNLIMITED
    tuner: Tuner | None = None
    sustained: bool = False
    hosted: str = ""


@rare_collections()
def built(section: Section, settings: Settings, hold: bool = False, state: int = 0) -> Specialisation:
    """Make a section ready for the device of the settings.

    With `hold` all its outputs stay there, else the last ones, as many as `state` says. Raises LimitError if
    that, or a run, takes more than the limits of the settings allow.
    """

    def make() -> Specialisation:
        optimised = optimise(section.graph, check)
        ready = everywhere(relax)(optimised) if settings.relaxed else optimised
        return _assembled(replace(section, graph=ready), settings, hold, state)

    seconds = settings.limits.compile_seconds
    if seconds is None:
        return make()
    return Stop(seconds, late=settings.limits.late("compile_seconds", "the compile")).carry(make)


def _assembled(section: Section, settings: Settings, hold: bool, state: int = 0) -> Specialisation:
    """Make an optimised section, and the bodies in it, ready for the device of the settings."""
    with ExitStack() as undo:
        compiled = partial(_with_compiled_bodies, settings=settings, undo=undo)
        loops = {} if settings.gpu is None else lowered_loops(section.graph, settings.gpu)
        made = {o: o if isinstance(loops.get(o), tuple) else compiled(o) for o in section.graph.operations}
        ready = section.graph.with_operations(made.values())
        operations = tuple(map(compiled, section.operations))
        bodies = [body for o in (*ready.operations, *operations) for body in _compiled_bodies(o)]
        if settings.gpu is None:
            placements = partition(ready, (lambda _: settings.hosted) if settings.hosted else None)
            plan = make_plan(ready, placements)
        else:
            held = _held(ready, section, operations, len(ready.outputs) if hold else state)
            lowered = {made[o]: found for o, found in loops.items()}
            placements, plan = _planned_on_gpu(ready, settings.gpu, settings.tuner, lowered, held)
        needed = needed_on_host(section.graph, plan, bodies, settings.limits)
        program = _program(plan, settings)
        undo.callback(program.close)
        if settings.gpu is not None:
            settings.gpu.trim_pipelines()
        undo.pop_all()
        after = [Placement(operation, HOST, FOR_SHAPES) for operation in operations]
        here, later = (tuple(_with_those_of_bodies(found)) for found in (placements, after))
        made_of = Specialisation.of(section, ready, here, program, bodies, operations, later)
        return replace(made_of, host_bytes=needed)


def _planned_on_gpu(
    graph: Graph, gpu: Device, tuner: Tuner | None, lowered: Lowered, held: Sequence[Operand]
) -> tuple[tuple[Placement, ...], Plan]:
    """Return the placements of a graph and their plan: by the rule, or as the tuner chooses.

    It chooses kernels, and whether their parameters are constants. On hardware it takes what is quicker as a
    whole; on software parameters are constants where that is known to pay.
    """

    def planned(
        placements: tuple[Placement, ...], joined: Mapping[Operand, Operand]
    ) -> tuple[tuple[Placement, ...], Plan]:
        return placements, make_plan(graph, placements, held, joined)

    placements, joined = placed_on_gpu(graph, gpu, tuner, lowered)
    if tuner is not None and gpu.properties.software:
        return planned(inline(placements, every=False), joined)
    found = planned(placements, joined)
    if tuner is None or not tuner.compares:
        return found
    if tuner.differs:
        placements, joined_by_rule = placed_on_gpu(graph, gpu, None, lowered)
        by_rule = planned(placements, joined_by_rule)
        if tuner.prefers("chosen", found, by_rule) is False:
            found, joined = by_rule, joined_by_rule
    inlined = planned(inline(found[0], every=True), joined)
    return inlined if tuner.prefers("inlined", inlined, found) else found


def _program(plan: Plan, settings: Settings) -> Program:
    """Return the program of a plan; wgpu, which takes long, is imported only for a GPU."""
    if settings.gpu is None:
        unhurried = settings.sustained and settings.limits.compile_seconds is None
        loops = load_loops(*computed_kinds(plan)) if unhurried else None
        if loops is not None and settings.limits.run_seconds is not None:
            maker().complete()  # else the first run would
        return CpuProgram(plan, settings.frames, settings.threads, loops)
    from gpunn.backends.webgpu.program import WebGpuProgram

    limit = settings.limits.device_bytes
    return WebGpuProgram(plan, settings.gpu, settings.frames, settings.threads, limit)


def _with_compiled_bodies(operation: Operation, settings: Settings, undo: ExitStack) -> Operation:
    """Return the operation with its bodies compiled; what a loop's body gives stays on the device."""
    loops = operation.op == while_loop.name and operation.attrs["body"]

    def compiled(body: Graph, build: Build) -> _CompiledBody:
        made = compilation(body, build, settings.gpu, settings.frames)
        undo.callback(made.close)
        return _CompiledBody(made)

    def compile_body(body: Graph) -> _CompiledBody:
        build = built if body.pending else _assembled  # else it is optimised with what is around it
        return compiled(body, partial(build, settings=settings, hold=body is loops))

    def compile_open(body: OpenBody) -> _CompiledBody:
        own = replace(settings, relaxed=settings.relaxed or body.relaxed)
        return compiled(body.model, partial(built, settings=own, hold=body is loops))

    if operation.definition is some_rounds and settings.gpu is None:
        return with_bodies(operation, lambda body: HostBody(body, settings.threads))
    ahead = _rounds_ahead(operation, settings.gpu)
    if ahead is None and settings.gpu is not None and _is_little(operation):
        return _with_compiled_bodies(operation, replace(settings, gpu=None, hosted=HOSTED), undo)
    if ahead is None:
        return with_graphs(with_bodies(operation, compile_body), OpenBody, compile_open)
    how = partial(_assembled, settings=settings, hold=False, state=len(operation.inputs))
    several = _CompiledRounds(compiled(ahead, how).compilation)
    return replace(operation, attrs={**operation.attrs, "condition": None, "body": several})


def _is_little(loop: Operation) -> bool:
    """Tell whether the host computes a round of a loop, which it has to ask for anyway, in little time."""
    graphs = [loop.attrs.get("condition"), loop.attrs.get("body")]
    bodies = [b for b in graphs if isinstance(b, Graph) and not b.pending and not b.variables]
    if loop.definition is not while_loop or len(bodies) < sum(graph is not None for graph in graphs):
        return False
    operations = [o for body in bodies for o in body.operations]
    bounded = not any(o.definition.unbounded for o in operations)
    return bounded and sum(o.definition.count_flops(o.call()) for o in operations) <= MAX_HOST_FLOPS


def _rounds_ahead(operation: Operation, gpu: Device | None) -> Graph | None:
    """Return a graph that does several rounds of a loop and tells whether there are more.

    None if the number of rounds is known, or condition and body cannot run together: because they have
    variables of their own, on a GPU because it does not run them, on the host because they have bodies.
    """
    condition, body = operation.attrs.get("condition"), operation.attrs.get("body")
    graphs = [g for g in (condition, body) if isinstance(g, Graph) and not g.pending]
    if operation.definition is not while_loop or len(graphs) < len((condition, body)):
        return None
    unbounded = any(o.definition.unbounded for graph in graphs for o in graph.operations)
    if any(graph.variables for graph in graphs) or (gpu is None and unbounded):
        return None
    made = Graph(graphs[1].name)
    state = [made.input(i.name, i.type) for i in graphs[1].inputs]
    attrs = {"condition": condition, "body": body, "most": ROUNDS_AHEAD}
    made.output(*made.add(some_rounds, state, attrs, origin=operation.origin))
    if gpu is None:
        return made
    from gpunn.backends.webgpu.lower import lower

    (loop,) = made.operations
    if not isinstance(lower(loop, gpu.properties), str):
        return made
    condition, body = graphs
    one = several_rounds(condition, body, 1, operation.origin)
    kernels = lower(one.operations[0], gpu.properties)
    if isinstance(kernels, str):
        return None
    work = sum(math.prod(k.groups) * (1 + k.loop_iterations) for k in kernels)
    rounds = max(LEAST_AHEAD, min(ROUNDS_AHEAD, MAX_WORK_AHEAD // work))
    return several_rounds(condition, body, rounds, operation.origin)


def _held(model: Graph, section: Section, operations: Sequence[Operation], count: int) -> list[Operand]:
    """Return the outputs that other programs read: the last ones, or at a cut those that the host does not.

    What `operations` of the host read it reads itself, unless they run programs.
    """
    if section.cut is None:
        return model.outputs[len(model.outputs) - count :]
    read = {o for operation in operations if not _compiled_bodies(operation) for o in operation.inputs}
    return [o for k, o in enumerate(model.outputs) if k not in section.cut.asked and o not in read]


@dataclass(frozen=True, slots=True)
class _CompiledBody:
    """A body made ready (gpunn.ops.control.Body)."""

    compilation: LocalCompilation

    def __reduce__(self) -> tuple[Callable[[Graph], Graph], tuple[Graph]]:
        return itself, (self.compilation.model,)

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        return self.compilation.model.input_types

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return self.compilation.model.output_types

    @property
    def fixed(self) -> bool:
        return self.compilation.model.fixed

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...] | None:
        return self.compilation.model.infer(inputs)

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        check()
        return self.compilation.evaluate(self._given(inputs))

    def repeat(self, state: Sequence[Array], rounds: int) -> tuple[Array, ...]:
        check()
        return self.compilation.evaluate(self._given(state), rounds)

    def _given(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Return inputs where the body reads them: it may run on the host, and they may be on a device."""
        return inputs if self.compilation.backend != "cpu" else [np.asarray(x) for x in inputs]


@dataclass(frozen=True, slots=True)
class _CompiledRounds(_CompiledBody):
    """Several rounds of a loop made ready, with its condition (gpunn.ops.control.Advancing)."""

    def finish(self, state: Sequence[Array]) -> tuple[Array, ...]:
        state, more = self._given(state), True
        while more:
            check()
            decision, *state = self.compilation.evaluate(state)
            more = bool(np.asarray(decision).item())
        return tuple(state)


def _compiled_bodies(operation: Operation) -> tuple[LocalCompilation, ...]:
    return tuple(a.compilation for a in operation.attrs.values() if isinstance(a, _CompiledBody))


def _with_those_of_bodies(placements: Iterable[Placement]) -> Iterator[Placement]:
    """Yield each placement and, under it, those of the operation's bodies."""
    for placement in placements:
        yield placement
        if placement.kernels:  # of a loop they run all that its body does
            graphs = [a for a in placement.operation.attrs.values() if isinstance(a, Graph)]
            inner = (o for graph in graphs for o in graph.operations)
            yield from (Placement(o, ALIAS if o.definition.alias else DEVICE, "", (), 1) for o in inner)
        hosted = [a.graph for a in placement.operation.attrs.values() if isinstance(a, HostBody)]
        for found in (partition(graph, None) for graph in hosted):
            yield from (replace(p, depth=1, reason=p.reason and placement.reason) for p in found)
        for body in _compiled_bodies(placement.operation):
            yield from (replace(p, depth=p.depth + 1) for p in body.placement)
