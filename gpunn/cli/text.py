"""Text for the terminal without control characters, and remarks on stderr."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Replace control characters, which a terminal might obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(message: str) -> str:
    """Replace every run of white space in a message, including line breaks, by one blank."""
    return printable(" ".join(message.split()))


def remark(text: str) -> None:
    """Print one line on stderr, if there is one."""
    if sys.stderr is not None:
        print(one_line(text), file=sys.stderr)
