"""The updater: what Model.update() calls, since training stands below models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_updater: list[Callable[..., Any]] = []


def update_by(updater: Callable[..., Any]) -> None:
    """Let Model.update() call a function with the model and its own arguments."""
    _updater[:] = [updater]


def updated(*args: Any, **options: Any) -> Any:
    """Call what updates models."""
    return _updater[0](*args, **options)
