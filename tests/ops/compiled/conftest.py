"""Fixtures of tests of compiled loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpunn.ops import compiled
from gpunn.ops.compiled import sharing, tiles
from gpunn.ops.compiled.team_code import memory_of
from gpunn.types import Array
from tests.ops.compiled.plain import PLAIN


class Threads:
    """A team of which no thread helps, so that loops have parts."""

    threads = 3

    def asked(self, ends: Array, operands: tuple[Any, ...]) -> Array:
        """Return memory of a team of one."""
        return memory_of(1)


@pytest.fixture
def machine_code() -> Iterator[compiled.Loops]:
    """The loops in use as machine code, where numba is installed."""
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    made = compiled.load()
    assert made is not None
    with compiled.in_use(made):
        yield made


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loops that have as many parts as there can be, whatever they take."""
    monkeypatch.setattr(sharing, "LEAST", 1e-9)
    token = sharing.TEAM.set(Threads())
    yield
    sharing.TEAM.reset(token)


@pytest.fixture(params=["plain", "plain parts", "compiled", "compiled parts"])
def found(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[compiled.Loops]:
    """The loops in use, whole and in parts: plain Python with small blocks of products, and machine code."""
    if "parts" in request.param:
        request.getfixturevalue("divided")
    if "compiled" in request.param:
        yield request.getfixturevalue("machine_code")
        return
    monkeypatch.setattr(tiles, "BLOCK", 1 << 10)
    with compiled.in_use(PLAIN):
        yield PLAIN
