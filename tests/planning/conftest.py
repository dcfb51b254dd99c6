"""The tuner of tests of several operations in one kernel."""

from __future__ import annotations

import pytest

from gpunn.compilation import compiler
from tests.ops.harness import limit_device
from tests.planning.fusing import Last


@pytest.fixture
def tuner(gpu: str, monkeypatch: pytest.MonkeyPatch) -> Last:
    """Let kernels be made for a device that is no software, and a tuner take those for several operations."""
    limit_device(monkeypatch, software=False)
    found = Last()
    monkeypatch.setattr(compiler, "_tuner", lambda *_: found)
    return found
