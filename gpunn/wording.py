"""Wording: counts in the sentences that people read."""

from __future__ import annotations


def counted(count: float, one: str, many: str = "", form: str = "") -> str:
    """Write a count with its noun, in the plural unless it is 1: "1 file", "2 files".

    many: the plural, by default `one` with an s; either may go on with a verb: "1 layer is". form: how the
    number is formatted.
    """
    return f"{count:{form}} {one if count == 1 else many or f'{one}s'}"
