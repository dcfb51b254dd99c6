"""Fixtures of tests of compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpunn.ops import compiled
from tests.ops.compiled.plain import PLAIN


@pytest.fixture(params=["plain", "compiled"])
def found(request: pytest.FixtureRequest) -> Iterator[compiled.Loops]:
    """The loops in use: plain Python, and machine code where numba is installed."""
    if request.param == "compiled":
        pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    made = PLAIN if request.param == "plain" else compiled.load()
    assert made is not None
    with compiled.in_use(made):
        yield made
