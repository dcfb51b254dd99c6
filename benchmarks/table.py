"""From measured times to figures, and from figures to a table on the terminal or in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.group import Result

ABSENT = "-"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text; all columns but the first are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """As GitHub writes tables, the notes as a list below."""
        ruler = ("---", *("---:" for _ in self.header[1:]))
        lines = [f"| {' | '.join(row)} |" for row in (self.header, ruler, *self.rows)]
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([*lines, "", *notes] if notes else lines)

    def show(self, console: Console) -> None:
        """On the terminal."""
        table = Table()
        for index, name in enumerate(self.header):
            table.add_column(name, justify="right" if index else "left", no_wrap=index == 0)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(note, highlight=False, markup=False)


def round_medians(result: Result) -> list[float]:
    """The median time of each round."""
    return [statistics.median(times) for times in result.rounds]


def ratio(result: Result, base: Result) -> float | None:
    """Time relative to `base`: the median over the rounds of the ratio of the two medians of a round.

    A disturbance that lasts for a round slows both alike, so this stands when medians of all times do not.
    """
    pairs = list(zip(round_medians(result), round_medians(base), strict=False))
    return statistics.median(own / other for own, other in pairs) if pairs else None


def first_ratio(result: Result, base: Result) -> float | None:
    """Time from an empty cache to the first answer, relative to `base`."""
    if not result.first_s or not base.first_s:
        return None
    return statistics.median(result.first_s) / statistics.median(base.first_s)


def peers_table(results: Sequence[Result], bases: Sequence[str]) -> Grid:
    """A row for each peer; peers that failed are notes."""
    by_label = {r.label: r for r in results if not r.failed}
    found = [by_label[label] for label in bases if label in by_label]
    header = ["peer", "threads", "import s", "load s", "first answer s", "median ms", "min ms", "CPU ms"]
    header += [f"time / {base.label}" for base in found]
    header += [f"first / {base.label}" for base in found] + ["err"]
    rows = tuple(_row(result, found) for result in by_label.values())
    return Grid(tuple(header), rows, tuple(f"{r.label}: {r.failed}" for r in results if r.failed))


def _row(result: Result, bases: Sequence[Result]) -> tuple[str, ...]:
    starts = (result.import_s, result.load_s, result.first_s)
    times = [t for times in result.rounds for t in times]
    return (
        result.label,
        str(result.threads),
        *(number(statistics.median(s), 2) for s in starts),
        *(
            number(1e3 * t, 2)
            for t in (statistics.median(times), min(times), statistics.median(result.cpu_s))
        ),
        *(number(ratio(result, base), 2) for base in bases),
        *(number(first_ratio(result, base), 2) for base in bases),
        ABSENT if result.error is None else f"{result.error:.0e}",
    )


def number(value: float | None, digits: int) -> str:
    """A number with that many digits behind the point, or the sign for none."""
    return ABSENT if value is None else f"{value:,.{digits}f}"
