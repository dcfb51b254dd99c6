"""The measurements of a benchmark, and the figures that follow from them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpunn.bench.conditions import Conditions
from gpunn.document import as_document


@dataclass(frozen=True, slots=True)
class Entrant:
    """A participant of a benchmark: a peer with a number of threads and a batch; for gpunn also a preference.

    series: the name that distinguishes it from the others of its batch.
    """

    series: str
    peer: str
    threads: int
    batch: int
    preference: str | None = None

    @property
    def label(self) -> str:
        """Return the name that distinguishes it from all others."""
        return self.series if self.batch == 1 else f"{self.series} x{self.batch}"


@dataclass(slots=True)
class Result:
    """The measurements of an entrant, times in seconds; `failed` says why there are none, or no more.

    import_s, load_s, first_s: of each cold start; first_s includes both others. rounds: the time of every
    call of every round. cpu_s, rates: of each round, the CPU time of a call and the calls per second of a
    stream. error: see error_of().
    """

    entrant: Entrant
    failed: str = ""
    version: str = ""
    device: str = ""
    import_s: list[float] = field(default_factory=list)
    load_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    rounds: list[list[float]] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    error: float | None = None

    @property
    def label(self) -> str:
        """Return the entrant's label."""
        return self.entrant.label

    def started(self, report: Mapping[str, Any]) -> None:
        """Take in a worker's first report."""
        self.version, self.device = report["version"], report["device"]
        for name in ("import_s", "load_s", "first_s"):
            getattr(self, name).append(report[name])

    def turned(self, report: Mapping[str, Any]) -> None:
        """Take in a turn."""
        self.rounds.append(report["times"])
        self.cpu_s.append(report["cpu_s"])
        self.rates.append(report["rate"])

    @property
    def figures(self) -> dict[str, float | None]:
        """Return the figures by name, in seconds and per second; None for figures that were not measured."""
        return {name: figure(self) if self.rounds else None for name, figure in FIGURES.items()}


def _every(result: Result) -> list[float]:
    """Return the time of every call of every round."""
    return [time for times in result.rounds for time in times]


FIGURES: dict[str, Callable[[Result], float]] = {
    "import_s": lambda r: statistics.median(r.import_s),
    "load_s": lambda r: statistics.median(r.load_s),
    "first_s": lambda r: statistics.median(r.first_s),
    "median_s": lambda r: statistics.median(_every(r)),
    "p95_s": lambda r: float(np.percentile(_every(r), 95)),  # interpolated between the two next to it
    "min_s": lambda r: min(_every(r)),
    "cpu_s": lambda r: statistics.median(r.cpu_s),
    "samples_per_s": lambda r: r.entrant.batch * statistics.median(r.rates),
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """A result relative to a base.

    time: the median over the rounds of the ratio of the two medians of a round. A disturbance that lasts for
    a round slows both sides, so this ratio is stable when medians of all times are not. throughput: the same
    for the rates. first: the ratio of the medians of first_s. None if a value is missing.
    """

    base: str
    time: float | None
    throughput: float | None
    first: float | None

    @classmethod
    def of(cls, result: Result, base: Result) -> Ratio:
        own, other = ([statistics.median(times) for times in r.rounds] for r in (result, base))
        started = result.first_s and base.first_s
        return cls(
            base.label,
            quotient(own, other),
            quotient(result.rates, base.rates),
            statistics.median(result.first_s) / statistics.median(base.first_s) if started else None,
        )


def quotient(values: Sequence[float], base: Sequence[float]) -> float | None:
    """Return the median over the rounds of value / base, for the rounds that both have."""
    pairs = list(zip(values, base, strict=False))
    return statistics.median(v / b for v, b in pairs) if pairs else None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The result of gpunn bench. bases: what ratios are relative to, series or peers.

    conditions: before the measurement; load_after: see Conditions. reference: what answers are compared with.
    """

    model: str
    inputs: str
    reference: str
    starts: int
    rounds: int
    turn_seconds: float
    bases: tuple[str, ...]
    conditions: Conditions
    load_after: float | None
    results: tuple[Result, ...]

    def ratios(self, result: Result) -> tuple[Ratio | None, ...]:
        """Return the ratio to each base at the result's batch; of several, the one with its threads and
        preference.
        """
        return tuple(self._ratio(result, base) for base in self.bases)

    def _ratio(self, result: Result, base: str) -> Ratio | None:
        own = result.entrant
        found = [r for r in self.results if names(base, r.entrant) and r.entrant.batch == own.batch]
        nearest = max(
            found,
            key=lambda r: (r.entrant.threads == own.threads, r.entrant.preference == own.preference),
            default=None,
        )
        return None if nearest is None or nearest.failed else Ratio.of(result, nearest)

    def to_json(self) -> dict[str, Any]:
        """Return the benchmark as plain data."""
        document: dict[str, Any] = as_document(self)
        for result, entry in zip(self.results, document["results"], strict=True):
            entry["label"] = result.label
            entry["figures"] = as_document(result.figures)
            entry["ratios"] = [as_document(ratio) for ratio in self.ratios(result) if ratio is not None]
        return document


def names(base: str, entrant: Entrant) -> bool:
    """Tell whether a base names this entrant: by its series, or by its peer, which others may share."""
    return base in (entrant.series, entrant.peer)
