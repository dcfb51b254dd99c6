"""The table of subcommands, and that each is imported only when it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gpunn import cli
from gpunn.cli.commands import SHORT_HELP, load
from tests.cli.conftest import Run
from tests.resources import ROOT

FOLDER = Path(cli.__file__).parent


def test_every_module_with_an_application_is_in_the_table() -> None:
    made = [
        path.stem
        for path in FOLDER.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node) == "app = subcommand()"
    ]
    assert sorted(made) == sorted(SHORT_HELP)


@pytest.mark.parametrize("name", SHORT_HELP)
def test_a_subcommand_is_loaded_by_its_name(name: str) -> None:
    command = load(name)
    assert command.name == command.callback.__name__ == name
    assert command.short_help is None  # stated in one place


def test_the_short_help_of_a_command_without_one_of_its_own_begins_its_help() -> None:
    assert load("classify").help.startswith(SHORT_HELP["classify"])


def test_the_help_names_them_in_the_order_of_the_table(run: Run) -> None:
    _, _, shown = run("--help").out.partition("Commands:\n")
    assert [line.split(None, 1) for line in shown.splitlines()] == [[*row] for row in SHORT_HELP.items()]


def test_only_the_one_that_is_asked_for_is_imported() -> None:
    program = (
        "from gpunn.cli import main; main(['devices', '--help']); "
        "import sys; print(*(n for n in sys.modules if n.startswith('gpunn.cli.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = {name.removeprefix("gpunn.cli.") for name in done.stderr.split()}
    assert imported & SHORT_HELP.keys() == {"devices"}
