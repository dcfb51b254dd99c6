"""Fixtures for tests of loops."""

from __future__ import annotations

import pytest

from gpunn import passes
from gpunn.passes.step_loops import fuse_step_loops


@pytest.fixture
def loops_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loops over the steps of recurrent layers stay loops."""
    monkeypatch.setattr(passes, "PIPELINE", tuple(p for p in passes.PIPELINE if p is not fuse_step_loops))
