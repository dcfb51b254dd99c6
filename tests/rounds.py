"""Loops round by round, for comparison with those that a GPU runs in one dispatch."""

from __future__ import annotations

from typing import Any

import pytest

from gpunn.backends.webgpu import lower as lowering
from gpunn.backends.webgpu.device import open_device
from gpunn.device import SUBGROUPS
from gpunn.kernel import Unsupported
from gpunn.ops.control import while_loop
from tests.ops.harness import limit_device


def by_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host ask for each round of all loops, of the kernels that loops have."""

    def refuse(*_: Any) -> None:
        raise Unsupported(while_loop.host_reason)

    monkeypatch.setattr(lowering, "lower_loop", refuse)
    monkeypatch.setattr("gpunn.compilation.assembly.MAX_HOST_FLOPS", -1)
    features = open_device(None, False).properties.features
    limit_device(monkeypatch, features=features - {SUBGROUPS})
