"""Profiles: gpunn.profile and its data, the time of a run operation by operation."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpunn.arguments import expect_function, expect_integer, expect_list, expect_model
from gpunn.backends.base import Span, Trace
from gpunn.comparison.inputs import array_sample, random_source
from gpunn.compilation.base import Compilation
from gpunn.compilation.compiler import compile_model, purpose_of
from gpunn.compilation.preference import Preference
from gpunn.document import as_document
from gpunn.graph.operation import Operation
from gpunn.model import Model
from gpunn.planning.partition import ALIAS, Placement, appended, prepended
from gpunn.progress import Progress, untold
from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class AppendedRow:
    """An operation that another one's dispatch computes before it stores its result, or where it loads."""

    op: str
    activation: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of the optimised model, which is the model that runs. name, shape: of its first result,
    or of the tensor that is read back if shapes depend on values. prepended, appended: other
    operations that its dispatches compute, before it and behind it; time and counts are those of all of them.

    seconds: the time of all its dispatches, median over the traced runs; share: of all operations' seconds.
    flops: additions and multiplications by the textbook formula; bytes: inputs, constants and results, each
    counted once. The rates are the measured ones; None if there is nothing to count, or if the time was too
    short to measure.
    """

    index: int
    name: str
    op: str
    activation: str | None
    origin: str
    prepended: tuple[AppendedRow, ...]
    appended: tuple[AppendedRow, ...]
    shape: tuple[int, ...]
    backend: str
    kernels: tuple[str, ...]
    seconds: float
    share: float
    flops: int
    bytes: int
    flops_per_second: float | None
    bytes_per_second: float | None


@dataclass(frozen=True, slots=True)
class Profile:
    """The time of a run and of its operations.

    method: how operations were timed: "timestamps" (the device's clock around each dispatch), "submissions"
    (each dispatch submitted alone; the device has no timestamps) or "host clock" (the CPU backend).
    run_seconds: an ordinary run from arrays to arrays, median; the rows' seconds come from traced runs, whose
    dispatches do not overlap. device_seconds: all dispatches of a run, one behind the other as in an ordinary
    run, median of runs that are traced as a whole; None for the CPU backend. upload_seconds, encode_seconds:
    host time for uploading inputs and for recording and submitting dispatches, per ordinary run.
    readback_seconds: host time for reading finished results, median of traced runs. compile_seconds,
    first_seconds: the time to make the program, and its first run.
    """

    model: str
    backend: str
    device: str
    preference: str
    inputs: str
    method: str
    runs: int
    compile_seconds: float
    first_seconds: float
    run_seconds: float
    device_seconds: float | None
    upload_seconds: float
    encode_seconds: float
    readback_seconds: float
    rows: tuple[Row, ...]
    spans: tuple[Span, ...]

    @property
    def operations_seconds(self) -> float:
        """Return the sum of all rows."""
        return sum(row.seconds for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain data as docs/schemas/profile.schema.json describes it."""
        document = {name: getattr(self, name) for name in self.__slots__ if name != "spans"}
        document["operations_seconds"] = self.operations_seconds
        found = as_document(document)
        assert isinstance(found, dict)
        return found

    def to_chrome_trace(self) -> dict[str, Any]:
        """Return one traced run in Chrome's Trace Event Format, for chrome://tracing and ui.perfetto.dev.

        Google, Trace Event Format, section "Complete Events"; times are microseconds. Dispatches are on the
        device's track, at the time when the host began to submit them.
        """
        tracks = {"host": 1, self.device: 2}
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": track}}
            for track, number in tracks.items()
        ]
        events += [_event(span, tracks[self.device if span.kernel else "host"]) for span in self.spans]
        return {"traceEvents": events, "displayTimeUnit": "ms"}


def profile(
    model: Model,
    inputs: Sequence[Any] | None = None,
    *,
    backend: str = "auto",
    device: str | int | None = None,
    preference: Preference | str | None = None,
    relaxed: bool = False,
    runs: int = 20,
    warmup: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> Profile:
    """Measure where the time of a run goes.

    inputs: an array for each of the model's inputs; by default seeded random arrays in their ranges. backend,
    device, preference, relaxed: as for Model.compile(). runs: the number of measured runs, half of them
    ordinary, half traced (at least one each), after `warmup` runs; as many as are traced are traced as a
    whole, too. progress: called as (what, done, total).
    Raises the errors of compiling and running; ModelError for inputs that do not fit, for runs below 1 and
    for warmup below 0.
    """
    expect_model(model, Model)
    runs, warmup = expect_integer("runs", runs, 1), expect_integer("warmup", warmup, 0)
    if inputs is None:
        source = random_source(model, seed=seed)
        described, arrays = source.description, next(source.samples).arrays
    else:
        expect_list("inputs", inputs, "arrays")
        described, arrays = "given", array_sample(model, list(inputs), "inputs").arrays
    expect_function("progress", progress)
    tell = progress or untold
    purpose = purpose_of(preference)
    began = time.perf_counter()
    with compile_model(model, backend, purpose, relaxed=relaxed, device=device) as compiled:
        compiling = time.perf_counter() - began
        first = _timed(compiled, arrays)
        for _ in range(warmup):
            compiled(*arrays)
        times = _ordinary_runs(compiled, arrays, (runs + 1) // 2, tell)
        traces, together = _traces(compiled, arrays, max(runs // 2, 1), tell)
        return Profile(
            model=model.name,
            backend=compiled.backend,
            device=compiled.device,
            preference=purpose.name,
            inputs=described,
            method=traces[0].trace.method,
            runs=runs,
            compile_seconds=compiling,
            first_seconds=first,
            run_seconds=times[0],
            device_seconds=statistics.median(together) if together else None,
            upload_seconds=times[1],
            encode_seconds=times[2],
            readback_seconds=statistics.median(_readback(traced.trace) for traced in traces),
            rows=_rows(traces),
            spans=traces[-1].trace.spans,
        )


class _Traced(NamedTuple):
    """A traced run, and the placement of its operations: some are made anew in each run."""

    trace: Trace
    placement: Sequence[Placement]

    @property
    def seconds(self) -> dict[int, float]:
        """Return the time of each operation that has one, by its place."""
        found: dict[Operation, float] = {}
        for span in self.trace.spans:
            if span.operation is not None:
                found[span.operation] = found.get(span.operation, 0.0) + span.seconds
        places = enumerate(self.placement)
        return {n: found[p.operation] for n, p in places if p.backend != ALIAS and p.operation in found}


def _traces(
    compiled: Compilation, arrays: Sequence[Array], count: int, tell: Progress
) -> tuple[list[_Traced], list[float]]:
    """Trace runs, and time as many as a whole: return the traces, and the times on the device."""
    traces: list[_Traced] = []
    together: list[float] = []
    for number in range(count):
        traces.append(_Traced(compiled.trace(*arrays), compiled.placement))
        whole = compiled.trace(*arrays, whole=True)
        if whole.device_seconds is not None:
            together.append(whole.device_seconds)
        tell("tracing", number + 1, count)
    return traces, together


def _ordinary_runs(
    compiled: Compilation, arrays: Sequence[Array], count: int, tell: Progress
) -> tuple[float, float, float]:
    """Measure the median seconds of a run, and the seconds of uploading and of encoding per run."""
    before = compiled.stats
    times: list[float] = []
    for number in range(count):
        times.append(_timed(compiled, arrays))
        tell("running", number + 1, count)
    after = compiled.stats
    uploading, encoding = (
        after.upload_seconds - before.upload_seconds,
        after.encode_seconds - before.encode_seconds,
    )
    return statistics.median(times), uploading / count, encoding / count


def _timed(compiled: Compilation, arrays: Sequence[Array]) -> float:
    began = time.perf_counter()
    compiled(*arrays)
    return time.perf_counter() - began


def _readback(trace: Trace) -> float:
    return sum(s.seconds for s in trace.spans if s.name == "read back" and s.operation is None)


def _rows(traces: Sequence[_Traced]) -> tuple[Row, ...]:
    """Make a row for each operation that runs; aliases and operations with empty results have none."""
    placement, seconds = traces[-1].placement, [traced.seconds for traced in traces]
    medians = {n: statistics.median(found[n] for found in seconds) for n in seconds[-1]}
    total = sum(medians.values())
    before, behind = prepended(placement), appended(placement)
    rows = []
    for n, median in medians.items():
        operation = placement[n].operation
        others = before.get(operation, ()), behind.get(operation, ())
        rows.append(_row(n, placement[n], others, median, total))
    return tuple(rows)


def _row(
    index: int,
    placement: Placement,
    others: tuple[Sequence[Operation], Sequence[Operation]],
    seconds: float,
    total: float,
) -> Row:
    """Make the row of an operation; others: those that it computes, too, before it and behind it."""
    operation, (before, behind) = placement.operation, others
    operations = (*before, operation, *behind)
    between = {o.outputs[0] for o in operations[:-1]}
    operands = dict.fromkeys(o for p in operations for o in (*p.outputs, *p.inputs) if o is not None)
    shown = next(o for o in (*operation.outputs, *operation.inputs) if o is not None)
    moved = sum(o.type.nbytes for o in operands if o not in between)
    flops = sum(o.definition.count_flops(o.call()) for o in operations)
    return Row(
        index=index,
        name=shown.name,
        op=operation.op,
        activation=operation.activation,
        origin=operation.origin,
        prepended=_named(before),
        appended=_named(behind),
        shape=shown.type.shape,
        backend=placement.backend,
        kernels=tuple(k.name for k in placement.kernels),
        seconds=seconds,
        share=seconds / total if total else 0.0,
        flops=flops,
        bytes=moved,
        flops_per_second=flops / seconds if flops and seconds else None,
        bytes_per_second=moved / seconds if seconds else None,
    )


def _named(operations: Sequence[Operation]) -> tuple[AppendedRow, ...]:
    return tuple(AppendedRow(o.op, o.activation, o.origin) for o in operations)


def _event(span: Span, track: int) -> dict[str, Any]:
    """Make a complete event of the Trace Event Format."""
    arguments: dict[str, Any] = {}
    if span.operation is not None:
        arguments = {"operation": span.operation.origin}
        if span.operation.outputs:
            arguments["result"] = span.operation.outputs[0].name
    if span.kernel is not None:
        arguments |= {"groups": list(span.kernel.groups), "workgroup": list(span.kernel.workgroup)}
    return {
        "name": span.name,
        "ph": "X",
        "pid": 1,
        "tid": track,
        "ts": span.begin * 1e6,
        "dur": span.seconds * 1e6,
        "args": arguments,
    }
