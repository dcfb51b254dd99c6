"""Loops round by round, for comparison with those that a GPU runs in one dispatch."""

from __future__ import annotations

from typing import Any

import pytest

from gpunn.backends.webgpu import lower as lowering
from gpunn.kernel import Unsupported
from gpunn.ops.control import while_loop


def by_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host run each round of all loops."""

    def refuse(*_: Any) -> None:
        raise Unsupported(while_loop.host_reason)

    monkeypatch.setattr(lowering, "lower_loop", refuse)
