"""Fixtures of the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gpunn.cli import main
from tests.schemas import validate


@dataclass(frozen=True)
class Outcome:
    """The output and the exit code of a run of the command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return standard output as JSON; assert that the run succeeded."""
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out)

    def must_fail_with(self, *words: str) -> None:
        """Assert one line on stderr with these words, exit code 2, and no other output."""
        assert self.code == 2
        assert self.out == ""
        assert len(self.err.splitlines()) == 1, self.err
        assert self.err.startswith("gpunn: ")
        for word in words:
            assert word in self.err


Run = Callable[..., Outcome]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the gpunn command in this process and checks JSON against its schema."""

    def runs(*args: object) -> Outcome:
        words = [str(a) for a in args]
        code = main(words)
        out, err = capfd.readouterr()
        if "--json" in words and out:
            validate(words[0], json.loads(out))
        return Outcome(code, out, err)

    return runs


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Write a photo of random pixels; return its path."""
    pixels = np.random.default_rng(1).integers(0, 256, (48, 64, 3), np.uint8)
    path = tmp_path / "photo.png"
    Image.fromarray(pixels).save(path)
    return path
