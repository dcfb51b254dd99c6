"""Repeated measurement for a page of documentation."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import gpunn
from benchmarks import document
from gpunn.bench import measure
from gpunn.cli import main
from tests.resources import ROOT


def test_the_output_of_commands_goes_into_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    page = "Text.\n\n```sh\n{}\n```\n\n<!-- figures -->\n{}<!-- end of figures -->\n\n```sh\nls\n```\n"
    command = "A=1 B=2 python -m \\\n  this"
    path.write_text(page.format(command, "old\n"))
    asked = []

    def run(arguments: list[str], variables: dict[str, str]) -> str:
        asked.append((arguments, variables))
        return "\n- new\n\n"

    document.refresh(path, run)
    assert asked == [(["python", "-m", "this"], {"A": "1", "B": "2"})]
    assert path.read_text() == page.format(command, "- new\n")
    document.refresh(path, run)
    assert path.read_text() == page.format(command, "- new\n")


class UnderstoodError(Exception):
    """A command has reached the point where it loads its file."""


def test_commands_of_the_performance_page_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: Path) -> gpunn.Model:
        raise UnderstoodError(path)

    monkeypatch.setattr(measure, "load_model", load)
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    commands = re.findall(r"^gpunn (bench (?:.*\\\n)*.*)$", page, re.MULTILINE)
    assert len(commands) > 3
    for command in commands:
        with pytest.raises(UnderstoodError):
            main(shlex.split(command.replace("\\\n", " ")))
