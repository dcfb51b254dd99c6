"""The tuner of tests of several operations in one kernel."""

from __future__ import annotations

import pytest

from gpunn.compilation import compiler
from tests.ops.harness import limit_device
from tests.planning.fusing import Last


@pytest.fixture
def tuner(gpu: str, monkeypatch: pytest.MonkeyPatch) -> Last:
    """Let kernels be made for a small device that is no software, and a tuner take those for several
    operations, which the rule takes only for larger devices.
    """
    limit_device(monkeypatch, software=False, parallel_invocations=1)
    found = Last()
    monkeypatch.setattr(compiler, "_tuner", lambda *_: found)
    return found
