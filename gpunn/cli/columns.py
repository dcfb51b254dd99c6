"""Tables that fit the terminal. No word is broken, and what there is no room for is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gpunn.cli.wrap import filled, say, shortened, wrapped

GAP = 2  # blanks between two columns
LEAST_SENTENCE = 30  # columns beside a row that are enough for sentences; with fewer they stand below it


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and how it may change when there is little room.

    number: cells stand at the right. least: names may be shortened to so many columns of the terminal.
    sentences: cells may be broken between words. rare: only for those who ask for all columns. shared: if
    all rows agree, their value is printed once above the table. spare: if there is no room, the columns with
    the largest number are left out first; those with 0 never are.
    """

    heading: str
    number: bool = False
    least: int | None = None
    sentences: bool = False
    rare: bool = False
    shared: bool = False
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, one for each column, and its style."""

    cells: tuple[Text, ...]
    style: str = ""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns beside each other with their widths, in order, and those that stand below each row."""

    beside: Mapping[int, int]
    below: tuple[int, ...] = ()


def print_table(
    console: Console, columns: Sequence[Column], rows: Sequence[Row], *, every: bool | None = None
) -> None:
    """Print a table that is at most as wide as the console.

    every: also print the rare columns; None if the command has no option for it. If there is not enough room,
    spare columns are left out, and a line names them. With `every`, or if that is not enough, each row
    becomes a paragraph.
    """
    shown = [k for k, column in enumerate(columns) if every or not column.rare]
    agreed = [k for k in shown if columns[k].shared and _agree(rows, k)]
    common = [f"{columns[k].heading}: {text}" for k in agreed if (text := rows[0].cells[k].plain)]
    if common:
        say(console, "; ".join(common), "in every row  ", "dim")
    shown = [k for k in shown if k not in agreed]
    left: list[str] = []
    while (layout := _layout(columns, rows, shown, console.width)) is None:
        last = max(columns[k].spare for k in shown)
        if every or last == 0:
            break
        left += [columns[k].heading for k in shown if columns[k].spare == last and columns[k].heading]
        shown = [k for k in shown if columns[k].spare != last]
    if layout is None:
        _print_paragraphs(console, columns, rows, shown)
    else:
        _print_rows(console, columns, rows, layout)
    if left:
        hint = "" if every is None else " (--all prints all columns)"
        say(console, f"no room in {console.width} columns for: {', '.join(left)}{hint}", style="dim")


def _agree(rows: Sequence[Row], column: int) -> bool:
    """Tell whether a column can be said once: all of several rows agree, or there is nothing to say."""
    values = {row.cells[column].plain for row in rows}
    return values == {""} or (len(values) == 1 and len(rows) > 1)


def _layout(
    columns: Sequence[Column], rows: Sequence[Row], shown: Sequence[int], room: int
) -> _Layout | None:
    """Return the widest layout that there is room for; None if there is none."""
    cells = {k: max((cell_len(row.cells[k].plain) for row in rows), default=0) for k in shown}
    full = {k: max(width, cell_len(columns[k].heading)) for k, width in cells.items()}
    if _total(full) <= room:
        return _Layout(full)
    folded = {k: _folded(columns[k].heading) for k in shown}
    sentences = tuple(k for k in shown if columns[k].sentences)
    beside = {k: max(width, folded[k]) for k, width in cells.items() if k not in sentences}
    rest = room - _total(beside) - GAP
    if len(sentences) == 1 and rest >= min(full[sentences[0]], LEAST_SENTENCE):
        return _Layout({k: beside.get(k, rest) for k in shown})
    while _total(beside) > room:
        longer = [k for k in beside if beside[k] > max(columns[k].least or room, folded[k])]
        if not longer:
            return None
        beside[max(longer, key=beside.__getitem__)] -= 1
    for k in sorted(beside, key=lambda k: full[k] - beside[k]):
        if _total(widened := beside | {k: full[k]}) <= room:
            beside = widened
    return _Layout(beside, sentences)


def _folded(heading: str) -> int:
    """Return the width of a heading in two lines."""
    words = heading.split()
    halves = ((" ".join(words[:k]), " ".join(words[k:])) for k in range(len(words) + 1))
    return min(max(map(cell_len, pair)) for pair in halves)


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _print_rows(console: Console, columns: Sequence[Column], rows: Sequence[Row], layout: _Layout) -> None:
    heading = Row(tuple(Text(column.heading) for column in columns), "dim")
    indent = " " * (next(iter(layout.beside.values()), 0) + GAP)
    for row in (heading, *rows):
        blocks = [
            _block(columns[k], row.cells[k], width, heading=row is heading)
            for k, width in layout.beside.items()
        ]
        height = max(map(len, blocks))
        for block in blocks:
            missing = [Text(" " * cell_len(block[0].plain))] * (height - len(block))
            block[:] = [*missing, *block] if row is heading else [*block, *missing]
        for cells in zip(*blocks, strict=True):
            line = Text(" " * GAP).join(cells)
            line.rstrip()
            console.print(line, style=row.style, soft_wrap=True)
        for k in layout.below:
            if row.cells[k].plain:
                say(console, row.cells[k], indent, row.style or "dim")


def _block(column: Column, cell: Text, width: int, *, heading: bool) -> list[Text]:
    """Return the lines of a cell, each of exactly that width."""
    if heading or column.sentences:
        lines = wrapped(cell, width)
    elif cell_len(cell.plain) <= width:
        lines = [cell]
    else:
        lines = [Text(shortened(cell.plain, width), cell.style)]
    blanks = (Text(" " * (width - cell_len(line.plain))) for line in lines)
    return [b + line if column.number else line + b for line, b in zip(lines, blanks, strict=True)]


def _print_paragraphs(
    console: Console, columns: Sequence[Column], rows: Sequence[Row], shown: Sequence[int]
) -> None:
    """Print the first cells of each row, up to a name, and below them the others with their headings."""
    name = next((k for k in shown if not columns[k].number), shown[0])
    for row in rows:
        title = Text(" ").join(row.cells[k] for k in shown if k <= name)
        say(console, title, style=row.style or "bold")
        others = [k for k in shown if k > name and row.cells[k].plain]
        parts = [Text(f"{columns[k].heading} ".lstrip()) + row.cells[k] for k in others]
        for part in parts[:-1]:
            part.append(",")
        for line in filled(parts, " ", console.width - GAP):
            console.print(Text(" " * GAP) + line, style=row.style, soft_wrap=True)
