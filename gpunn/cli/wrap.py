"""Text that fits the terminal: lines break between words, and too long words lose their middle."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gpunn import wording


def shortened(text: str, width: int) -> str:
    """Cut the middle of a text that takes more than `width` columns; wide characters take two."""
    length = max(1, min(len(text), width))
    while cell_len(cut := wording.shortened(text, length)) > width and length > 1:
        length -= 1
    return cut


def wrapped(text: Text, width: int) -> list[Text]:
    """Break a text between words into lines of at most `width` columns; longer words lose their middle."""
    return [text] if cell_len(text.plain) <= width else filled(text.split(" "), " ", width)


def filled(pieces: Iterable[Text], separator: str, width: int) -> list[Text]:
    """Put pieces of text into lines of at most `width` columns; longer pieces are wrapped, or shortened."""
    lines: list[Text] = []
    for piece in pieces:
        if lines and cell_len(lines[-1].plain) + cell_len(separator) + cell_len(piece.plain) <= width:
            lines[-1] = Text(separator).join((lines[-1], piece))
        elif cell_len(piece.plain) <= width:
            lines.append(piece)
        elif " " in piece.plain:
            lines += wrapped(piece, width)
        else:
            lines.append(Text(shortened(piece.plain, width), piece.style))
    return lines


def say(console: Console, text: Text | str, label: str = "", style: str = "") -> None:
    """Print a label and a text. Where they need several lines, all but the first are indented below it."""
    shown = Text(text) if isinstance(text, str) else text
    indent = cell_len(label)
    for line in wrapped(shown, max(1, console.width - indent)):
        console.print(Text(label) + line, style=style, soft_wrap=True)
        label = " " * indent
