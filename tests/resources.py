"""Paths of tests: the repository, and the shared models beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}  # for subprocesses that use this tree


def shared(path: str) -> Path:
    """Return a file of ../shared; without it skip the test, or fail if CI is set."""
    found = SHARED / path
    if not found.exists():
        reason = f"../shared/{path} is not there"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
