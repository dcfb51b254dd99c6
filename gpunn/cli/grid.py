"""Tables for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpunn.cli.show import plain, stdout, table

ABSENT = "-"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text; all columns but the first are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Format the table as GitHub writes tables."""
        ruler = ("---", *("---:" for _ in self.header[1:]))
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.header, ruler, *self.rows))


def report(
    described: Mapping[str, str], grids: Sequence[Grid], notes: Sequence[str] = (), *, markdown: bool
) -> None:
    """Print what was measured on what, the tables, and notes below them."""
    if markdown:
        lists = [[f"- {name}: {value}" for name, value in described.items()], [f"- {n}" for n in notes]]
        head, tail = ("\n".join(lines) for lines in lists)
        print("\n\n".join(part for part in (head, *(grid.markdown() for grid in grids), tail) if part))
        print()
        return
    console = stdout()
    for name, value in described.items():
        console.print(plain(f"{name}: {value}"), soft_wrap=True)
    for grid in grids:
        shown = table(*grid.header, right=grid.header[1:])
        for row in grid.rows:
            shown.add_row(*map(plain, row))
        console.print()
        console.print(shown)
    if notes:
        console.print()
    for note in notes:
        console.print(plain(note), soft_wrap=True)


def number(value: float | None, digits: int) -> str:
    """Format a number with that many digits after the point; ABSENT for None."""
    return ABSENT if value is None else f"{value:,.{digits}f}"
