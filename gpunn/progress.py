"""Progress: the function that long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Told what is under way, how much of it is done, and how much there is, where that is known."""


def untold(what: str, done: int, total: int | None) -> None:
    """Tell nobody."""
