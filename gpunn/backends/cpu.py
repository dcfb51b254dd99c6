"""The numpy backend: it runs a plan by calling each op's reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import TypeVar

import numpy as np

from gpunn.backends import fork
from gpunn.backends.base import NO_VALUES, Span, Stats, Trace, beginning, copied
from gpunn.backends.batches import Runner, batches
from gpunn.backends.blas import HostProducts
from gpunn.backends.interrupt import ENDED, check, check_not_reentered, current, holding
from gpunn.backends.lines import joints
from gpunn.backends.processors import free_processors
from gpunn.backends.queue import RunQueue
from gpunn.backends.replay import Replays
from gpunn.backends.team import team_of
from gpunn.backends.worker import Job
from gpunn.errors import OutOfMemoryError
from gpunn.graph.complete import run_on_host
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.prepared import PreparedGraph, Step, Values
from gpunn.kernel import Kernel
from gpunn.ops.check import FLOATS
from gpunn.ops.compiled import Loops, use
from gpunn.ops.compiled.sharing import TEAM
from gpunn.ops.control import while_loop
from gpunn.ops.memory import Memory, ShortBuffers
from gpunn.ops.recurrent.host_steps import LOOPED
from gpunn.planning.liveness import last_uses
from gpunn.planning.plan import Plan
from gpunn.types import Array, DType, TensorType

_T = TypeVar("_T")


def run_operation(operation: Operation, values: dict[Operand, Array]) -> None:
    """Run an operation on the host; `values` contains the known values and receives the results.

    It may also contain constants, in the dtype that the operation computes in. Raises OutOfMemoryError if
    memory runs out, and as interrupt.check() if the run shall end.
    """
    check()
    inputs = [None if i is None else values.get(i, i.value) for i in operation.inputs]
    loops = operation.definition is while_loop
    try:  # what a loop gives may be on a device, and stays there
        results = run_on_host(operation, inputs) if loops else operation.stored(operation.evaluate(inputs))
    except MemoryError as error:
        raise _out_of_memory(operation, error) from error
    values.update(zip(operation.outputs, results, strict=True))


def run_steps(steps: Iterable[Step], values: Values) -> None:
    """Run operations on numbered values; raise what run_operation() raises, before each of them."""
    step, stop = None, current()
    try:
        for step in steps:
            if stop is not None or ENDED:  # else check() would find nothing, and take as long as a small sum
                check()
            step.run(values)
    except MemoryError as error:
        if step is None:
            raise
        raise _out_of_memory(step.operation, error) from error


def _out_of_memory(operation: Operation, error: MemoryError) -> OutOfMemoryError:
    return OutOfMemoryError(f"out of memory: {operation.op} ({operation.origin}): {error}")


def widened_constants(operations: Iterable[Operation]) -> dict[Operand, Array]:
    """Convert float16 constants to float32, in which operations compute, once instead of in every run."""
    readers: dict[Operand, list[Operation]] = {}
    for operation in operations:
        for operand in operation.inputs:
            if operand is not None and operand.value is not None and operand.type.dtype is DType.FLOAT16:
                readers.setdefault(operand, []).append(operation)
    computed = (o for o, found in readers.items() if not any(r.definition.raw for r in found))
    return {o: o.value.astype(np.float32) for o in computed if o.value is not None}


def _with_hosted(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations, and those of their bodies that run within the runs of the same program."""
    for operation in operations:
        yield operation
        for body in operation.attrs.values():
            if isinstance(body, HostBody):
                yield from body.graph.operations


def itself(graph: Graph) -> Graph:
    """Return a graph: what a body becomes that is pickled in a list of placements."""
    return graph


class HostBody:
    """A body that a program of the CPU runs within its own runs, round by round (gpunn.ops.control.Body).

    graph: without pending operations, variables and bodies. threads: as of HostProducts.
    """

    def __init__(self, graph: Graph, threads: int | None) -> None:
        self.graph = graph
        self._prepared = PreparedGraph(graph, widened_constants(graph.operations))
        self._products = HostProducts(graph.operations, threads)
        steps = ((step, self._products.threads(step.operation)) for step in self._prepared.steps)
        self._runner = Runner(self._products, batches(steps))

    def __reduce__(self) -> tuple[Callable[[Graph], Graph], tuple[Graph]]:
        return itself, (self.graph,)

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """Return the types of its inputs, in order."""
        return self.graph.input_types

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Return the types of its outputs, in order."""
        return self.graph.output_types

    @property
    def fixed(self) -> bool:
        """Tell that its inputs always have their stated types."""
        return self.graph.fixed

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...] | None:
        """Return the types of its outputs for inputs of these types; None for other ones."""
        return self.graph.infer(inputs)

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Compute the outputs, in order, in a run of its program. Raises what run_operation() raises."""
        values = self._prepared.begin(inputs)
        self._runner.through(run_steps, values)
        return self._prepared.results(values)


def _dense(array: Array) -> Array:
    """Return an array as operations expect it; zeros may be one number in memory.

    Where numbers lie across addresses of their own, numpy's library would add up in another order.
    """
    dense = np.asarray(array, order="C")
    return dense if dense.flags.aligned else dense.copy()


def _all_dense(state: Mapping[Operand, Array]) -> dict[Operand, Array]:
    return {variable: _dense(value) for variable, value in state.items()}


def computed_kinds(plan: Plan) -> tuple[bool, bool, bool]:
    """Tell whether runs of a plan compute real numbers, stored integers, and steps of recurrent layers."""
    reals = integers = steps = False
    for operation in _with_hosted(plan.model.operations):
        steps = steps or (operation.op in LOOPED and not operation.integer)
        if operation.integer:
            integers = True
        elif not operation.definition.raw:
            reals = reals or (_is_real(operation.inputs) and _is_real(operation.outputs))
    return reals, integers, steps


def _is_real(operands: Iterable[Operand | None]) -> bool:
    return any(operand is not None and operand.type.dtype in FLOATS for operand in operands)


class CpuProgram:
    """A program that runs a plan operation by operation in numpy, one run at a time.

    At most `frames` submitted runs have not ended. So many threads share loops, or compute large products
    where no loop does; None: as many as are free, and as numpy does. loops: what operations may use instead
    of numpy.
    """

    def __init__(
        self, plan: Plan, frames: int, threads: int | None = None, loops: Loops | None = None
    ) -> None:
        self.stats = Stats()
        self.constants: Mapping[Hashable, int] = {}
        self.bundles: Sequence[Sequence[Kernel]] = ()
        self._graph = PreparedGraph(
            plan.model,
            widened_constants(plan.model.operations),
            last_uses(plan.model),
            joints(plan.model) if loops is not None and loops.reals is not None else None,
        )
        # Threads of numpy's library wait by turning in a loop, and disturb those that share loops: one kind
        # or the other.
        of_library = 1 if threads is not None and loops is not None and loops.multiply else threads
        self._products = HostProducts(_with_hosted(plan.model.operations), of_library)
        self._steps = [(step, self._products.threads(step.operation)) for step in self._graph.steps]
        self._initial = dict(plan.model.variables)
        self._state = _all_dense(self._initial)
        self._memory = Memory()
        _, integers, _ = computed_kinds(plan)
        self._buffers: AbstractContextManager[object] = ShortBuffers() if integers else nullcontext()
        self._loops = loops
        shares = loops is not None and not self._products.several
        self._team = team_of(threads or free_processors()) if shares else None
        self._runner: Runner | Replays = Runner(self._products, batches(self._steps))
        if loops is not None and loops.replay is not None:
            given = *self._graph.inputs, *self._graph.variables.values()
            self._runner = Replays(self._runner, self._memory, loops.replay, self._team, given)
        self._lock = fork.lock()  # of a run
        self._starting = fork.lock()  # of what is submitted
        self._frames = frames
        self._queue: RunQueue | None = None
        fork.in_child(self, CpuProgram._after_fork)

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        if self._queue is not None and self._state:
            return self.submit(inputs).result()  # after what was submitted before
        return self._run(inputs)

    def _run(self, inputs: Sequence[Array], spans: list[Span] | None = None) -> tuple[Array, ...]:
        """Run; `spans` receives the time of each operation."""
        return self._results(inputs, 1, True, spans)

    def repeat(self, inputs: Sequence[Array], rounds: int) -> tuple[Array, ...]:
        return self._results(inputs, rounds, self._loops is not None)  # which write to the same memory again

    def _results(
        self, inputs: Sequence[Array], rounds: int, copies: bool, spans: list[Span] | None = None
    ) -> tuple[Array, ...]:
        """Run `rounds` times, each time on the outputs before, of which there may be copies.

        Without these the results may share memory with others.
        """
        with holding(self._lock):
            return copy_context().run(self._locked, inputs, rounds, copies, spans)

    def _locked(
        self, inputs: Sequence[Array], rounds: int, copies: bool, spans: list[Span] | None
    ) -> tuple[Array, ...]:
        # In a context that ends with the run, or with an interrupt.
        self._memory.use()
        use(self._loops)
        TEAM.set(self._team)
        if spans is None and self._runner.alone(rounds):
            return self._rounds(inputs, rounds, copies, None)
        with self._products.of_run(), np.errstate(all="ignore"), self._buffers:
            return self._rounds(inputs, rounds, copies, spans)

    def _rounds(
        self, inputs: Sequence[Array], rounds: int, copies: bool, spans: list[Span] | None
    ) -> tuple[Array, ...]:
        results = tuple([_dense(x) for x in inputs])
        for _ in range(rounds):
            values = self._graph.begin(results, self._state)
            self._run_steps(values, spans)
            if self._state:
                self._state.update({v: copied(y) for v, y in self._graph.updated(values).items()})
            results = self._graph.results(values)
            if copies:
                results = tuple(map(copied, results))
        self.stats.runs += rounds
        return results

    def _run_steps(self, values: Values, spans: list[Span] | None) -> None:
        if spans is not None:
            self._time_steps(values, spans)
        else:
            self._runner.through(run_steps, values)

    def _time_steps(self, values: Values, spans: list[Span]) -> None:
        start = time.perf_counter()
        for step, threads in self._steps:
            runner = Runner(self._products, batches([(step, threads)]))
            began = time.perf_counter()
            runner.through(run_steps, values)
            spans.append(Span(step.operation.op, began - start, time.perf_counter() - began, step.operation))

    def submit(self, inputs: Sequence[Array]) -> Job[tuple[Array, ...]]:
        with holding(self._starting):
            if self._queue is None:
                self._queue = RunQueue(self._frames, "gpunn-cpu", self._lock)
            queue = self._queue
        return queue.submit(self._run, [copied(x) for x in inputs])

    def trace(self, inputs: Sequence[Array], whole: bool = False) -> Trace:
        spans: list[Span] = []
        run = partial(self._run, inputs, spans)
        outputs = self._in_order(run) if self._state else run()
        return Trace(tuple(spans), "host clock", outputs)

    def reset_state(self, values: Mapping[str, Array] = NO_VALUES) -> None:
        self._in_order(partial(self._reset, values))

    def state(self) -> Mapping[Operand, Array]:
        return self._in_order(self._copied_state)

    def _in_order(self, work: Callable[[], _T]) -> _T:
        """Do work after the runs that have been submitted."""
        with holding(self._starting):
            queue = self._queue
        return work() if queue is None else queue.submit(work).result()

    def _copied_state(self) -> Mapping[Operand, Array]:
        with holding(self._lock):
            return {variable: copied(value) for variable, value in self._state.items()}

    def _reset(self, values: Mapping[str, Array]) -> None:
        with holding(self._lock):
            self._state.update(_all_dense(beginning(self._initial, values)))

    def _after_fork(self) -> None:
        self._queue = None

    def cancel(self) -> None:
        if self._queue is not None:
            self._queue.cancel()

    def check_not_reentered(self) -> None:
        check_not_reentered(self._lock, self._starting)

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
