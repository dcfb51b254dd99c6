"""Tuner: chooses among the candidates of a graph's operations, by measuring them or from the cache."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpunn.backends import fork
from gpunn.backends.interrupt import holding
from gpunn.backends.webgpu.device import Device
from gpunn.backends.webgpu.lower import Decide
from gpunn.cache import Key
from gpunn.graph.operation import Operation
from gpunn.kernel import Candidate, Kernel
from gpunn.planning.partition import Placement
from gpunn.planning.plan import Plan
from gpunn.progress import Progress, untold
from gpunn.tuning.calls import LEAST_WORK, TunableCall, plan_key, tunable_calls, work_of
from gpunn.tuning.measurement import Bench
from gpunn.tuning.records import Records
from gpunn.tuning.result import Change, Record, TunedCall, Tuning, Whole, tuned_call

_log = logging.getLogger(__name__)
_one_at_a_time = fork.lock()  # two that measure would disturb each other

Planned = tuple[Sequence[Placement], Plan]  # the placements of a plan, and the plan

NOT_MEASURED = "nothing was measured: the rule chose"


class Tuner:
    """Chooses for a device.

    limit: bytes that gpunn may have on the device meanwhile. measures: whether it measures what is not in the
    cache, or else takes the first candidate. again: measure also what is. progress: told about calls.
    """

    def __init__(
        self,
        device: Device,
        *,
        limit: int | None = None,
        measures: bool = True,
        again: bool = False,
        progress: Progress = untold,
    ) -> None:
        self._device = device
        self._measures = measures
        self._again = again
        self._progress = progress
        self._bench = Bench(device, limit)
        self._calls: dict[str, TunedCall] = {}
        self._wholes: dict[str, Whole] = {}
        self._small = 0
        self._seconds = 0.0
        self._stored = True

    def decisions(self, operations: Iterable[Operation]) -> Mapping[Operation, Decide]:
        """Return for operations with several candidates what decides among them; for others the rule holds.

        Raises DeviceError if the device is lost.
        """
        began = time.perf_counter()
        with holding(_one_at_a_time):
            calls, small = tunable_calls(operations, self._device.properties)
            records = self._records(calls)
        self._small += small
        self._seconds += time.perf_counter() - began
        return {
            operation: partial(_taken, record)
            for call, record in zip(calls, records, strict=True)
            if record is not None
            for operation in call.operations
        }

    @property
    def compares(self) -> bool:
        """Tell whether it compares plans; see Bench."""
        return self._bench.compares

    @property
    def differs(self) -> bool:
        """Tell whether something else than the rule's was chosen for a call."""
        return any(call.chosen for call in self._calls.values())

    def prefers(self, change: Change, changed: Planned, before: Planned) -> bool | None:
        """Tell whether a plan with a change takes less time as a whole than that without; see Whole.

        They are compared once. None if they are equal, have less work than a call that is measured, or cannot
        be compared. Raises DeviceError if the device is lost.
        """
        keys = [plan_key(placements) for placements, _ in (changed, before)]
        work = sum(work_of(p.operation) for p in before[0] if p.kernels)
        if keys[0] == keys[1] or work < LEAST_WORK:
            return None
        began, key = time.perf_counter(), "-".join(keys)
        with holding(_one_at_a_time):
            kept = self._kept()
            known = None if self._again and key not in self._wholes else kept.get(key, len(keys))
            if known is None and self._measures:
                found = self._bench.compare([plan for _, plan in (before, changed)])
                if found is not None:
                    known = Record(int(found[1] < found[0]), found, ("", ""))
                    kept.remember(key, known)
                    self._stored = kept.store({key: known}) and self._stored
                    self._wholes[key] = Whole(change, found[1], found[0], measured=True)
        self._seconds += time.perf_counter() - began
        if known is None:
            return None
        without, seconds = (seconds or 0.0 for seconds in known.seconds)
        whole = self._wholes.setdefault(key, Whole(change, seconds, without, measured=False))
        if change == "chosen" and not whole.taken:
            _log.info(
                "the rule's kernels are taken: all together the chosen take %.3g ms, these %.3g",
                whole.seconds * 1e3,
                whole.seconds_without * 1e3,
            )
        return whole.taken

    def result(self, model: str) -> Tuning:
        """Return what was decided so far, for a model of that name."""
        return Tuning(
            model,
            self._device.info.name,
            self._bench.method,
            self._seconds,
            self._small,
            tuple(self._calls.values()),
            self._stored,
            tuple(self._wholes.values()),
        )

    def _kept(self) -> Records:
        info = self._device.info
        return Records(Key(info.name, info.driver, info.api))

    def _records(self, calls: Sequence[TunableCall]) -> list[Record | None]:
        """Return the record of each call; None where the rule holds."""
        if not calls:
            return []
        kept = self._kept()
        fresh: dict[str, Record] = {}
        found: list[Record | None] = []
        remembered = [self._remembered(call, kept) for call in calls]
        if self._measures:
            unknown = (call for call, record in zip(calls, remembered, strict=True) if record is None)
            self._bench.prepare((call.operations[0], call.candidates) for call in unknown)
        try:
            for number, (call, record) in enumerate(zip(calls, remembered, strict=True)):
                self._progress("tuning", number, len(calls))
                measured = record is None and self._measures
                if measured:
                    record = self._measured(call, kept, fresh)
                self._note(call, record, measured)
                found.append(record)
            self._progress("tuning", len(calls), len(calls))
        finally:
            if fresh and not kept.store(fresh):
                self._stored = False
        return found

    def _remembered(self, call: TunableCall, kept: Records) -> Record | None:
        """Return the record of a call that needs no measurement; None if there is none."""
        again = self._again and call.key not in self._calls
        return None if again else kept.get(call.key, len(call.candidates))

    def _measured(self, call: TunableCall, kept: Records, fresh: dict[str, Record]) -> Record | None:
        """Measure a call, and remember its record; add it to `fresh` if it shall be stored."""
        operation = call.operations[0]
        made = self._bench.record(operation, call.candidates)
        if made is None:
            return None
        record, certain = made
        for candidate, reason in zip(call.candidates, record.dropped, strict=True):
            if reason:
                _log.warning("%s (%s): %s: %s", operation.op, operation.origin, candidate.reason, reason)
        kept.remember(call.key, record)
        if certain:
            fresh[call.key] = record
        return record

    def _note(self, call: TunableCall, record: Record | None, measured: bool) -> None:
        operation, count = call.operations[0], len(call.candidates)
        origins = tuple(o.origin for o in call.operations)
        before = self._calls.get(call.key)
        if before is not None:
            self._calls[call.key] = replace(before, origins=(*before.origins, *origins))
            return
        made = tuned_call(
            operation.op,
            operation.activation,
            operation.outputs[0].type.shape,
            origins,
            [candidate.reason for candidate in call.candidates],
            record or Record(0, (None,) * count, ("",) * count),
            measured,
        )
        self._calls[call.key] = made if record is not None else replace(made, reason=NOT_MEASURED)


def _taken(record: Record, candidates: Sequence[Candidate]) -> Sequence[Kernel]:
    """Return the kernels of the chosen candidate; their reasons say what was measured."""
    times = [
        f"{candidate.reason} {seconds * 1e3:.3g} ms"
        for candidate, seconds in zip(candidates, record.seconds, strict=True)
        if seconds is not None
    ]
    said = f"measured: {', '.join(times)}"
    kernels = candidates[record.chosen].kernels
    return [replace(k, reason=f"{k.reason}; {said}" if k.reason else said) for k in kernels]
