"""The numpy backend: it runs a plan by calling each op's reference."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from gpunn.backends import fork
from gpunn.backends.base import Later, Span, Stats, Trace, copied
from gpunn.backends.interrupt import check, holding
from gpunn.backends.queue import RunQueue
from gpunn.errors import DeviceError
from gpunn.graph.operation import Operand, Operation
from gpunn.planning.liveness import last_uses
from gpunn.planning.plan import Plan
from gpunn.types import Array, DType


def run_operation(operation: Operation, values: dict[Operand, Array]) -> None:
    """Run an operation on the host; `values` contains the known values and receives the results.

    It may also contain constants, in the dtype that the operation computes in. Raises DeviceError if memory
    runs out, and as interrupt.check() if the run shall end.
    """
    check()
    inputs = [None if i is None else values.get(i, i.value) for i in operation.inputs]
    try:
        results = operation.stored(operation.evaluate(inputs))
    except MemoryError as error:
        raise DeviceError(f"out of memory: {operation.op} ({operation.origin}): {error}") from error
    values.update(zip(operation.outputs, results, strict=True))


def widened_constants(operations: Iterable[Operation]) -> dict[Operand, Array]:
    """Convert float16 constants to float32, in which operations compute, once instead of in every run."""
    readers: dict[Operand, list[Operation]] = {}
    for operation in operations:
        for operand in operation.inputs:
            if operand is not None and operand.value is not None and operand.type.dtype is DType.FLOAT16:
                readers.setdefault(operand, []).append(operation)
    computed = (o for o, found in readers.items() if not any(r.definition.raw for r in found))
    return {o: o.value.astype(np.float32) for o in computed if o.value is not None}


def _copy(operand: Operand, values: Mapping[Operand, Array]) -> Array:
    """Return an operand's value as an array of its own."""
    return copied(values[operand] if operand.value is None else operand.value)


class CpuProgram:
    """A program that runs a plan operation by operation in numpy, one run at a time.

    At most `frames` submitted runs have not ended.
    """

    def __init__(self, plan: Plan, frames: int) -> None:
        self.stats = Stats()
        self.constants: Mapping[Hashable, int] = {}
        self._plan = plan
        self._placements = [p for segment in plan.segments for p in segment.placements]
        self._dead = last_uses(plan.model)
        self._state = dict(plan.model.variables)
        self._constants = widened_constants(plan.model.operations)
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
        values = {**self._constants, **dict(zip(self._plan.model.inputs, inputs, strict=True))}
        with holding(self._lock):
            values.update(self._state)
            start = time.perf_counter()
            for placement in self._placements:
                began = time.perf_counter()
                run_operation(placement.operation, values)
                if spans is not None:
                    seconds = time.perf_counter() - began
                    spans.append(Span(placement.operation.op, began - start, seconds, placement.operation))
                for operand in self._dead.get(placement.operation, ()):
                    del values[operand]
            self._state.update({v: _copy(o, values) for v, o in self._plan.model.updates.items()})
            self.stats.runs += 1
        return tuple(_copy(o, values) for o in self._plan.model.outputs)

    def submit(self, inputs: Sequence[Array]) -> Later:
        with self._starting:
            if self._queue is None:
                self._queue = RunQueue(self._frames, "gpunn-cpu")
            queue = self._queue
        return Later(queue.submit(self._run, [copied(x) for x in inputs]))

    def trace(self, inputs: Sequence[Array]) -> Trace:
        spans: list[Span] = []
        outputs = self._run(inputs, spans)
        return Trace(tuple(spans), "host clock", outputs)

    def reset_state(self) -> None:
        with self._starting:
            queue = self._queue
        if queue is None:
            self._reset()
        else:
            queue.submit(self._reset).result()

    def _reset(self) -> None:
        with self._lock:
            self._state.update(self._plan.model.variables)

    def _after_fork(self) -> None:
        self._queue = None

    def cancel(self) -> None:
        if self._queue is not None:
            self._queue.cancel()

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
