"""Tables for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.show import plain, stdout
from gpunn.cli.wrap import say

ABSENT = "-"
LEAST_NAME = 18  # columns of the terminal for the first column of a table


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text; all columns but the first are numbers.

    rare: names of columns that a terminal shows only to those who ask for all. spare: names of columns that
    it leaves out where there is no room, the last one first.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rare: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()

    def columns(self) -> tuple[Column, ...]:
        """Return the columns as a terminal shows them."""
        name, *numbers = self.header
        order = {spare: number for number, spare in enumerate(self.spare, 1)}
        return (
            Column(name, least=LEAST_NAME),
            *(Column(n, number=True, rare=n in self.rare, spare=order.get(n, 0)) for n in numbers),
        )

    def markdown(self) -> str:
        """Format the table as GitHub writes tables."""
        ruler = ("---", *("---:" for _ in self.header[1:]))
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.header, ruler, *self.rows))


def report(
    described: Mapping[str, str],
    grids: Sequence[Grid],
    notes: Sequence[str] = (),
    *,
    markdown: bool,
    every: bool = False,
) -> None:
    """Print what was measured on what, the tables, and notes below them.

    Markdown has all columns of the tables, a terminal only with `every`.
    """
    if markdown:
        lists = [[f"- {name}: {value}" for name, value in described.items()], [f"- {n}" for n in notes]]
        head, tail = ("\n".join(lines) for lines in lists)
        print("\n\n".join(part for part in (head, *(grid.markdown() for grid in grids), tail) if part))
        print()
        return
    console = stdout()
    for name, value in described.items():
        say(console, plain(value), f"{name}: ")
    for grid in grids:
        console.print()
        rows = [Row(tuple(map(plain, cells))) for cells in grid.rows]
        print_table(console, grid.columns(), rows, every=every)
    if notes:
        console.print()
    for note in notes:
        say(console, plain(note))


def number(value: float | None, digits: int) -> str:
    """Format a number with that many digits after the point; ABSENT for None."""
    return ABSENT if value is None else f"{value:,.{digits}f}"
