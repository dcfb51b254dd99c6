"""The tree is clean: ruff over everything, mypy --strict over the package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.resources import ROOT


@pytest.mark.parametrize(
    ("tool", "args"), [("ruff", ("check", ".")), ("mypy", ("--strict", "gpunn"))], ids=["ruff", "mypy"]
)
def test_tool_has_no_complaint(tool: str, args: tuple[str, ...]) -> None:
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed (extra: dev)")
    done = subprocess.run([sys.executable, "-m", tool, *args], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
