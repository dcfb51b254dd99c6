"""Fixtures of the tests of the tuner: a cache of their own, and what begins as a new process would."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gpunn.tuning import records
from tests.ops.harness import limit_device
from tests.tuning import candidates


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the cache folder, which is empty, and forget what is known in this process."""
    found = tmp_path / "cache"
    monkeypatch.setattr("gpunn.cache.cache_folder", lambda: found)
    monkeypatch.setattr(records, "_known", {})
    return found


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that forgets what is known in this process."""
    return lambda: monkeypatch.setattr(records, "_known", {})


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that says which candidates the made-up op offers."""
    return lambda *ways: monkeypatch.setattr(candidates, "WAYS", list(ways))


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return limit_device() for the test."""
    return partial(limit_device, monkeypatch)
