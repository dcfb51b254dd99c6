"""Fixtures of tests of compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpunn.ops import compiled
from gpunn.ops.compiled import tiles
from tests.ops.compiled.plain import PLAIN


@pytest.fixture
def machine_code() -> Iterator[compiled.Loops]:
    """The loops in use as machine code, where numba is installed."""
    pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    made = compiled.load()
    assert made is not None
    with compiled.in_use(made):
        yield made


@pytest.fixture(params=["plain", "compiled"])
def found(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[compiled.Loops]:
    """The loops in use: plain Python with small blocks of products, and machine code."""
    if request.param == "compiled":
        yield request.getfixturevalue("machine_code")
        return
    monkeypatch.setattr(tiles, "BLOCK", 1 << 10)
    with compiled.in_use(PLAIN):
        yield PLAIN
