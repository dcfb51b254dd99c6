"""From measured times to figures, and from figures to a table on the terminal or in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
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


def report(described: Mapping[str, str], grid: Grid, markdown: bool) -> None:
    """Print a description of what was measured, and the table."""
    if markdown:
        print("\n".join(f"- {name}: {value}" for name, value in described.items()))
        print(f"\n{grid.markdown()}\n")
        return
    console = Console()
    for name, value in described.items():
        console.print(f"{name}: {value}", highlight=False, markup=False)
    grid.show(console)


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
    """A column for each peer; peers that failed are notes."""
    by_label = {r.label: r for r in results if not r.failed}
    measured = list(by_label.values())
    rows = [("threads", *(str(r.threads) for r in measured))]
    for name, figure in FIGURES.items():
        rows.append((name, *(number(figure(r), 2) for r in measured)))
    for base in (by_label[label] for label in bases if label in by_label):
        rows.append((f"time / {base.label}", *(number(ratio(r, base), 2) for r in measured)))
        rows.append((f"first / {base.label}", *(number(first_ratio(r, base), 2) for r in measured)))
    rows.append(("err", *(ABSENT if r.error is None else f"{r.error:.0e}" for r in measured)))
    notes = tuple(f"{r.label}: {r.failed}" for r in results if r.failed)
    return Grid(("", *by_label), tuple(rows), notes)


def all_times(result: Result) -> list[float]:
    """The time of every call of every round."""
    return [time for times in result.rounds for time in times]


FIGURES: dict[str, Callable[[Result], float]] = {
    "import s": lambda r: statistics.median(r.import_s),
    "load s": lambda r: statistics.median(r.load_s),
    "first answer s": lambda r: statistics.median(r.first_s),
    "median ms": lambda r: 1e3 * statistics.median(all_times(r)),
    "min ms": lambda r: 1e3 * min(all_times(r)),
    "CPU ms": lambda r: 1e3 * statistics.median(r.cpu_s),
}


def number(value: float | None, digits: int) -> str:
    """A number with that many digits behind the point, or the sign for none."""
    return ABSENT if value is None else f"{value:,.{digits}f}"
