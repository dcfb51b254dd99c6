"""Consecutive operations of the CPU backend whose calls of loops are computed again, without Python.

The first run of a program makes the functions of its operations. The second one finds out which of them do
nothing but call loops, the third one captures these calls, and those behind it replay them. Results of loops
then have fixed memory, of which others get the places of results that are needed no more, as in any run.
Other values lie elsewhere in each run: calls get their addresses before they are replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context

import numpy as np

from gpunn.backends.batches import Batch, Runner
from gpunn.backends.team import Team
from gpunn.graph.operation import Operation
from gpunn.graph.prepared import SMALL_BYTES, Step, Values, known
from gpunn.ops.compiled import Replay
from gpunn.ops.compiled.capture import Capture, LoopCall
from gpunn.ops.compiled.sharing import ALONE, TEAM
from gpunn.ops.control import Body
from gpunn.ops.memory import FixedMemory, Memory, empty
from gpunn.types import Array

# Runs of a program that find out which operations do nothing but call loops, each before a run that captures
# these calls. Operations on 8 bits that make a table of all results when it has paid do so by the last one.
WATCHED = 2, 20
LONGEST = 5e-3  # seconds after which a segment ends with its next operation: no interrupt ends a segment

Run = Callable[[list[Step], Values], None]


class Places:
    """The places of operands of loops: in values that lie elsewhere in each run, and in fixed memory.

    Such values become copies in a capture: no operand then lies in two of them, as in slices of a tensor.
    In later runs they may be views of operands of their operation. Nobody gets the fixed memory of these
    operands as long as there are such values.
    """

    def __init__(self, memory: FixedMemory, values: Values, numbers: Iterable[int]) -> None:
        self.memory = memory
        self._values: dict[int, tuple[int, int]] = {}  # their addresses and sizes
        self._held: dict[int, list[Array]] = {}  # the fixed memory that they may lie in
        self.add(values, numbers, ())

    def held(self, values: Values, numbers: Iterable[int]) -> list[Array]:
        """Return the fixed memory that any of these values is in, or may be in in later runs."""
        found: dict[int, Array] = {}
        for number in numbers:
            value = values[number]
            its = self._held.get(number)
            if its is None and value is not None and self.memory.again(value) is not None:
                its = [value]
            found.update((id(array), array) for array in its or ())
        return [*found.values()]

    def add(self, values: Values, numbers: Iterable[int], held: Sequence[Array]) -> None:
        """Copy values that lie elsewhere in each run, and add them; held: of the operands of those."""
        for number in numbers:
            value = values[number]
            if value is not None:
                copy = values[number] = value.copy()
                self._values[number] = copy.ctypes.data, copy.nbytes
                self._held[number] = [*held] if value.nbytes > SMALL_BYTES else []

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget values that a run forgets."""
        for number in numbers:
            self._values.pop(number, None)
            self._held.pop(number, None)

    def find(self, array: Array) -> tuple[int, int] | None:
        """Return in which of these values an array lies, and how many bytes behind its beginning."""
        address = array.ctypes.data
        for number, (begin, nbytes) in self._values.items():
            if 0 <= address - begin < nbytes:
                return number, address - begin
        return None


class Segment:
    """Consecutive operations, as the calls of their loops."""

    def __init__(self, replay: Replay, team: Team | None) -> None:
        self._replay, self._team = replay, team
        self._calls: list[LoopCall] = []
        self._kept: list[Array] = []  # constants, of which calls have addresses
        self._used: dict[int, list[tuple[int, int]]] = {}  # by number: which words, and how many bytes on
        self._results: dict[int, Array] = {}
        self._gone: list[int] = []
        self._size = 0
        self._operation: Operation | None = None  # the last one

    def add(
        self, step: Step, calls: Sequence[LoopCall], places: Places, results: Mapping[int, Array]
    ) -> None:
        """Add the calls of an operation, and where its results lie."""
        for call in calls:
            for word, array in call.arrays:
                found = places.find(array)
                if found is not None:
                    self._used.setdefault(found[0], []).append((self._size + word, found[1]))
                elif places.memory.again(array) is None:
                    self._kept.append(array)
            self._calls.append(call)
            self._size += len(call.words)
        self._operation = step.operation
        self._results.update(results)
        for number in step.gone:
            if self._results.pop(number, None) is None:
                self._gone.append(number)

    def step(self) -> Step | None:
        """Return all operations as one step; None if there are none."""
        if self._operation is None:
            return None
        words = np.concatenate([np.zeros(0, np.int64), *(call.words for call in self._calls)])
        sizes = np.array([len(call.words) for call in self._calls], np.int64)
        starts = (words.ctypes.data + words.itemsize * (np.cumsum(sizes) - sizes)).tolist()
        rows = [(call.parts, call.code, start) for call, start in zip(self._calls, starts, strict=True)]
        calls, parts = np.array(rows, np.int64).reshape(-1, 3), max((c.parts for c in self._calls), default=0)
        used = [(number, *np.array(found).T) for number, found in self._used.items()]
        replay, kept, results, gone = self._replay, self._kept, [*self._results.items()], self._gone
        team, several = self._team, parts > 1

        def run(values: Values) -> None:
            for number, where, offsets in used:
                value = known(values[number])
                if not value.flags.c_contiguous:  # no operation has such results
                    raise RuntimeError(f"loops would read {value.shape} with the steps {value.strides}")
                words[where] = value.ctypes.data + offsets
            if replay(ALONE if team is None else team.woken(parts), calls, several):
                raise MemoryError(f"loops got no memory ({len(calls)} calls, {len(kept)} constants)")
            for number, result in results:
                values[number] = result
            for number in gone:
                values[number] = None

        return Step(self._operation, run)


class Replays:
    """The operations of a program, of which those that do nothing but call loops are replayed.

    memory: of the other ones. replay: computes calls. inputs: the numbers of the values that each run begins
    with.
    """

    def __init__(
        self, runner: Runner, memory: Memory, replay: Replay, team: Team | None, inputs: Sequence[int]
    ) -> None:
        self._runner, self._memory, self._inputs = runner, memory, inputs
        self._replay, self._team = replay, team
        self._plain = self._with_segments = runner.batches
        self._runs = 0
        self._fixed: FixedMemory | None = None
        self._of_loops: set[Operation] = set()
        self._alone = False
        self._captured = 0  # how many of these were known in the last capture

    def alone(self, runs: int) -> bool:
        """Tell whether all operations are replayed in the next runs, as Runner.alone()."""
        known = self._alone and len(self._of_loops) == self._captured
        last = self._runs + runs
        return known and (self._runs >= WATCHED[-1] or not any(self._runs < k <= last for k in WATCHED))

    def through(self, run: Run, values: Values) -> None:
        """Run all operations; `run` runs those that are not replayed."""
        number = self._runs + 1
        if number in WATCHED:
            self._runner.batches = self._plain
            copy_context().run(self._watch, run, values)
            if len(self._of_loops) == self._captured:
                self._runner.batches = self._with_segments
                self._memory.release()
        elif len(self._of_loops) > self._captured:
            copy_context().run(self._capture, run, values)
        else:
            self._runner.through(run, values)
        self._runs = number

    def _recorder(self) -> Capture:
        """Return what records calls, in use up to the end of this context."""
        capture = Capture(1 if self._team is None else self._team.threads)
        capture.use()
        return capture

    def _watch(self, run: Run, values: Values) -> None:
        """Run all operations; find those that do nothing but call loops."""
        capture = self._recorder()

        def watched(steps: list[Step], values: Values) -> None:
            for step in steps:
                capture.begin(len(step.results))
                run([step], values)
                if not _chooses(step.operation) and capture.made(values[number] for number in step.results):
                    self._of_loops.add(step.operation)

        self._runner.through(watched, values)

    def _capture(self, run: Run, values: Values) -> None:
        """Run all operations, and make of them what later runs do."""
        self._runner.batches = self._with_segments = self._plain
        self._fixed = None  # so that its memory is free
        fixed, found = FixedMemory(self._memory), list[Batch]()
        self._memory.release()
        places, capture = Places(fixed, values, self._inputs), self._recorder()

        def captured(steps: list[Step], values: Values) -> None:
            later = self._captured_steps(places, capture, run, steps, values)
            found.append(self._plain[len(found)]._replace(steps=later.steps, replayed=later.replayed))

        self._runner.through(captured, values)
        self._fixed, self._alone = fixed, all(batch.replayed for batch in found)
        self._runner.batches = self._with_segments = found
        self._captured = len(self._of_loops)  # last: after an interrupt the next run captures anew

    def _captured_steps(
        self, places: Places, capture: Capture, run: Run, steps: list[Step], values: Values
    ) -> _Later:
        """Run operations of a batch; return what later runs do for them."""
        later, segment, seconds = _Later(), Segment(self._replay, self._team), 0.0
        for step in steps:
            of_loops = step.operation in self._of_loops
            (places.memory if of_loops else self._memory).use()
            TEAM.set(capture if of_loops else self._team)
            capture.begin(len(step.results))
            own, held = _apart(step, places, values)
            before = time.perf_counter()
            run([step if of_loops else own], values)
            seconds += time.perf_counter() - before
            added = of_loops and _add(segment, step, places, capture, values)
            if not added:
                places.add(values, step.results, held)
            places.remove(step.gone)
            if not added or seconds > LONGEST:
                later.add(segment)
                segment, seconds = Segment(self._replay, self._team), 0.0
            if not added:
                later.steps.append(own)
                later.replayed = False
        later.add(segment)
        return later


class _Later:
    """The steps of later runs for the operations of a batch. replayed: all of them are segments."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.replayed = True

    def add(self, segment: Segment) -> None:
        """Add a segment, if it has operations."""
        step = segment.step()
        if step is not None:
            self.steps.append(step)


def _chooses(operation: Operation) -> bool:
    """Tell whether what an operation runs is not its own: it may do other things in each run.

    So it may give one of its operands in some runs, and its own results in others. A custom operator may
    also keep operands.
    """
    return operation.custom is not None or any(isinstance(a, Body) for a in operation.attrs.values())


def _apart(step: Step, places: Places, values: Values) -> tuple[Step, Sequence[Array]]:
    """Return a step for an operation that is not replayed, and the fixed memory that its results may lie in.

    It gives copies of operands in fixed memory to what _chooses(), and makes copies of small results that are
    views: nobody forgets these before the end of a run.
    """
    held = places.held(values, step.inputs)
    if not held:
        return step, held
    if not _chooses(step.operation):
        return step._replace(run=_with_copies(step.run, (), step.results)), held
    copied = [number for number in {*step.inputs} if places.held(values, [number])]
    return step._replace(run=_with_copies(step.run, copied, ())), ()


def _with_copies(
    run: Callable[[Values], None], operands: Sequence[int], results: Sequence[int]
) -> Callable[[Values], None]:
    """Return a step that sees copies of some operands, and makes copies of results that are small views."""

    def run_apart(values: Values) -> None:
        before = [(number, known(values[number])) for number in operands]
        for number, value in before:
            copy = values[number] = empty(value.shape, value.dtype)
            copy[...] = value
        run(values)
        for number, value in before:
            if values[number] is not None:
                values[number] = value
        for number in results:
            result = values[number]
            if result is not None and result.nbytes <= SMALL_BYTES and not result.flags.owndata:
                values[number] = result.copy()

    return run_apart


def _add(segment: Segment, step: Step, places: Places, capture: Capture, values: Values) -> bool:
    """Add an operation that has run to a segment; tell whether all that it did can be replayed."""
    calls = capture.calls()
    results = {number: values[number] for number in step.results}
    if calls is None or not capture.made(results.values()):
        return False
    fixed = {number: places.memory.again(known(result)) for number, result in results.items()}
    if any(result is None for result in fixed.values()):
        return False
    segment.add(step, calls, places, {number: known(result) for number, result in fixed.items()})
    return True
