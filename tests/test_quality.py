"""The tree is clean: ruff over everything, mypy --strict over the package, short files and lines."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.resources import ROOT

MAX_LINES = 350  # of a file, which has one subject
FOLDERS = ("benchmarks", "demos", "docs", "gpunn", "shaders", "tests")


@pytest.mark.parametrize(
    ("tool", "args"), [("ruff", ("check", ".")), ("mypy", ("--strict", "gpunn"))], ids=["ruff", "mypy"]
)
def test_tool_reports_nothing(tool: str, args: tuple[str, ...]) -> None:
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed (extra: dev)")
    done = subprocess.run([sys.executable, "-m", tool, *args], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_shaders_have_short_lines() -> None:
    """No tool checks shaders: their lines have up to 120 characters."""
    files = sorted((ROOT / "shaders").rglob("*.wgsl"))
    lines = [
        f"{file.name}: {line}" for file in files for line in file.read_text().splitlines() if len(line) > 120
    ]
    assert files and not lines


def test_files_are_short() -> None:
    """A long file has several subjects and is split between two of them."""
    files = [f for folder in FOLDERS for kind in ("py", "wgsl") for f in (ROOT / folder).rglob(f"*.{kind}")]
    lengths = {f.relative_to(ROOT).as_posix(): len(f.read_text("utf-8").splitlines()) for f in files}
    assert len(lengths) > 100  # otherwise the folders were renamed
    assert not {name: n for name, n in lengths.items() if n > MAX_LINES}
