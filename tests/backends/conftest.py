"""Fixtures for tests of loops and bundles."""

from __future__ import annotations

import pytest

from gpunn import passes
from gpunn.passes.step_loops import fuse_step_loops
from gpunn.passes.unrolled import fuse_steps


@pytest.fixture
def steps_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the steps of recurrent layers stay as they are, in loops or one after the other."""
    left_out = fuse_step_loops, fuse_steps
    rest = (p for p in passes.PIPELINE if getattr(p, "__wrapped__", p) not in left_out)
    monkeypatch.setattr(passes, "PIPELINE", tuple(rest))
