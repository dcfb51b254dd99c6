"""Wording of what people read: counts in sentences, and names that are too long."""

from __future__ import annotations


def counted(count: float, one: str, many: str = "", form: str = "") -> str:
    """Write a count with its noun, in the plural unless it is 1: "1 file", "2 files".

    many: the plural, by default `one` with an s; either may go on with a verb: "1 layer is". form: how the
    number is formatted.
    """
    return f"{count:{form}} {one if count == 1 else many or f'{one}s'}"


def shortened(text: str, length: int) -> str:
    """Cut the middle of a text that is longer than `length`."""
    if len(text) <= length:
        return text
    return f"{text[: length // 2]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (length - 1) // 2 :]}"
