"""Fixtures for kernels of devices that are no software."""

from __future__ import annotations

import pytest

from tests.ops.harness import limit_device


@pytest.fixture
def hardware_gpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let kernels be made for a device that is no software."""
    limit_device(monkeypatch, software=False)
    return gpu
