"""Consecutive operations of the CPU backend whose calls of loops are computed again, without Python.

The first run of a program makes the functions of its operations. The second one finds out which of them do
nothing but call loops, the third one captures these calls, and those behind it replay them. Results of loops
then have fixed memory, of which others get the places of results that are needed no more, as in any run.
Other values lie elsewhere in each run: calls get their addresses before they are replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from gpunn.backends.batches import Batch, Runner
from gpunn.backends.team import Team
from gpunn.graph.operation import Operation
from gpunn.graph.prepared import Step, Values
from gpunn.ops.compiled import Replay
from gpunn.ops.compiled.capture import Capture, LoopCall
from gpunn.ops.compiled.sharing import ALONE, TEAM
from gpunn.ops.control import Body
from gpunn.ops.memory import FixedMemory, Memory
from gpunn.types import Array

# Runs of a program that do so, each before one that captures calls. Operations on 8 bits that make a table of
# all results when it has paid do so by the last one.
WATCHED = 2, 20
LONGEST = 5e-3  # seconds of operations that are replayed together: no interrupt ends them

Run = Callable[[list[Step], Values], None]


class Places:
    """The places of operands of loops: in values that lie elsewhere in each run, and in fixed memory.

    Such values become copies in a capture: no operand then lies in two of them, as in slices of a tensor.
    What they are copies of is kept as long, so that nobody gets the memory that slices lie in, and slices of
    slices.
    """

    def __init__(self, memory: FixedMemory, values: Values, numbers: Iterable[int]) -> None:
        self.memory = memory
        self._values: dict[int, tuple[int, int]] = {}  # their addresses and sizes
        self._originals: dict[int, list[Array]] = {}  # with those of values that they lie in
        self._kept: list[Array] = []
        self.add(values, numbers)

    def add(self, values: Values, numbers: Iterable[int]) -> None:
        """Copy values that lie elsewhere in each run, and add them."""
        for number in numbers:
            value = values[number]
            if value is not None:
                around = self.find(value)
                self._originals[number] = [value, *(self._originals[around[0]] if around else ())]
                copy = values[number] = value.copy()
                self._values[number] = copy.ctypes.data, copy.nbytes

    def keep(self, values: Values) -> None:
        """Let nobody get the memory of any value, up to the end of the capture."""
        self._kept.extend(value for value in values if value is not None)
        self._kept.extend(value for originals in self._originals.values() for value in originals)

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget values that a run forgets."""
        for number in numbers:
            self._values.pop(number, None)
            self._originals.pop(number, None)

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
        starts = words.ctypes.data + words.itemsize * np.cumsum([0, *(len(c.words) for c in self._calls)])
        rows = [(c.parts, c.code, int(start)) for c, start in zip(self._calls, starts, strict=False)]
        calls, parts = np.array(rows, np.int64).reshape(-1, 3), max((c.parts for c in self._calls), default=0)
        used = [(number, *np.array(places).T) for number, places in self._used.items()]
        replay, kept, results, gone = self._replay, self._kept, [*self._results.items()], self._gone
        team, several = self._team, parts > 1

        def run(values: Values) -> None:
            for number, places, offsets in used:
                value = _known(values[number])
                assert value.flags.c_contiguous  # as of every operation that is made ready for many runs
                words[places] = value.ctypes.data + offsets
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
        self._plain = self._replayed = runner.batches
        self._runs = 0
        self._fixed: FixedMemory | None = None
        self._of_loops: set[Operation] = set()
        self._alone = False
        self._captured = 0  # how many of these were known in the last capture

    @property
    def alone(self) -> bool:
        """Tell whether all operations are replayed in the next run, as Runner.alone."""
        return self._alone and self._runs + 1 not in WATCHED and len(self._of_loops) == self._captured

    def through(self, run: Run, values: Values) -> None:
        """Run all operations; `run` runs those that are not replayed."""
        number = self._runs + 1
        if number in WATCHED:
            self._runner.batches = self._plain
            self._runner.through(partial(self._watch, self._capture(), run), values)
            if len(self._of_loops) == self._captured:
                self._runner.batches = self._replayed
                self._memory.release()
        elif len(self._of_loops) > self._captured:
            self._replace(run, values)
        else:
            self._runner.through(run, values)
        self._runs = number

    def _capture(self) -> Capture:
        capture = Capture(1 if self._team is None else self._team.threads)
        capture.use()
        return capture

    def _watch(self, capture: Capture, run: Run, steps: list[Step], values: Values) -> None:
        """Run operations; find those that do nothing but call loops."""
        for step in steps:
            capture.begin(len(step.results))
            run([step], values)
            if not _chooses(step.operation) and capture.made(values[number] for number in step.results):
                self._of_loops.add(step.operation)

    def _replace(self, run: Run, values: Values) -> None:
        """Run all operations, and make of them what later runs do."""
        self._replayed, self._fixed = self._plain, None  # so that their memory is free
        fixed, found = FixedMemory(self._memory), list[Batch]()
        self._memory.release()
        places, capture = Places(fixed, values, self._inputs), self._capture()

        def replaced(steps: list[Step], values: Values) -> None:
            new = [*self._replaced(places, capture, run, steps, values)]
            left = {id(step) for step in steps} & {id(step) for step in new}
            found.append(self._plain[len(found)]._replace(steps=new, replayed=not left))

        self._runner.through(replaced, values)
        self._runner.batches = self._replayed = found
        self._fixed, self._captured = fixed, len(self._of_loops)
        self._alone = all(batch.replayed for batch in found)

    def _replaced(
        self, places: Places, capture: Capture, run: Run, steps: list[Step], values: Values
    ) -> Iterator[Step]:
        segment, seconds = Segment(self._replay, self._team), 0.0
        for step in steps:
            of_loops = step.operation in self._of_loops
            (places.memory if of_loops else self._memory).use()
            TEAM.set(capture if of_loops else self._team)
            capture.begin(len(step.results))
            if _chooses(step.operation):
                places.keep(values)
            before = time.perf_counter()
            run([step], values)
            seconds += time.perf_counter() - before
            added = of_loops and _add(segment, step, places, capture, values)
            if not added:
                places.add(values, step.results)
            places.remove(step.gone)
            if not added or seconds > LONGEST:
                together = segment.step()
                if together is not None:
                    yield together
                segment, seconds = Segment(self._replay, self._team), 0.0
            if not added:
                yield step
        together = segment.step()
        if together is not None:
            yield together


def _chooses(operation: Operation) -> bool:
    """Tell whether what an operation runs is not its own: it may do other things in each run.

    So it may give one of its operands in some runs, and its own results in others.
    """
    return operation.custom is not None or any(isinstance(a, Body) for a in operation.attrs.values())


def _add(segment: Segment, step: Step, places: Places, capture: Capture, values: Values) -> bool:
    """Add an operation that has run to a segment; tell whether all that it did can be replayed."""
    calls = capture.calls()
    results = {number: values[number] for number in step.results}
    if calls is None or not capture.made(results.values()):
        return False
    fixed = {number: places.memory.again(_known(result)) for number, result in results.items()}
    if any(result is None for result in fixed.values()):
        return False
    segment.add(step, calls, places, {number: _known(result) for number, result in fixed.items()})
    return True


def _known(value: Array | None) -> Array:
    assert value is not None
    return value
