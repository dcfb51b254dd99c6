"""README.md is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpunn.importers.tflite.rules.table import OPERATORS
from tests.resources import ENVIRONMENT, ROOT, shared

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_operators() -> None:
    listed = re.search(r"^ABS, .*?\.$", README, re.MULTILINE | re.DOTALL)
    assert listed
    assert re.findall(r"\w+", listed[0]) == sorted(OPERATORS)


def test_links_have_targets() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_test_command_is_that_of_the_ci() -> None:
    command = ".venv/bin/python -m pytest -n auto"
    assert any(block.rstrip().endswith(command) for block in blocks("sh"))
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_shown_lines_for_a_new_operation_are_in_the_code() -> None:
    unary, rule = (block.strip() for block in blocks("python")[1:])
    assert unary in (ROOT / "gpunn/ops/elementwise/unary.py").read_text(encoding="utf-8")
    assert rule in (ROOT / "gpunn/importers/tflite/rules/table.py").read_text(encoding="utf-8")


def test_library_example_runs(tmp_path: Path) -> None:
    example = blocks("python")[0]
    (name,) = re.findall(r'load\("(.*)"\)', example)
    (tmp_path / name).symlink_to(shared(f"models/tflite/{name}"))
    done = subprocess.run(
        [sys.executable, "-c", example.replace("range(100)", "range(3)")],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_library_example_is_typed(tmp_path: Path) -> None:
    """A program that uses the result of a call passes mypy --strict, without a cast."""
    pytest.importorskip("mypy", reason="mypy is not installed (extra: dev)")
    program = tmp_path / "program.py"
    more = "\nbest: int = int(y.argmax())\nfirst = named['output'].sum() + same.mean()\n"
    program.write_text(blocks("python")[0] + more, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_transcript_is_the_output_of_the_command(tmp_path: Path, gpu: str) -> None:
    """Photo, ranks and classes are equal; last digits may depend on the machine, and the last line does."""
    data = pytest.importorskip("skimage.data", reason="scikit-image is not installed (extra: demo)")
    prompt, *lines = blocks("console")[0].splitlines()
    assert prompt.startswith("$ gpunn ")
    photo = Path(data.__file__).with_name("chelsea.png")
    (tmp_path / photo.name).symlink_to(photo)
    done = subprocess.run(
        [sys.executable, "-m", "gpunn", *prompt.split()[2:]],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown, printed = ([line.split()[:2] for line in text] for text in (lines, done.stdout.splitlines()))
    assert printed[:-1] == shown[:-1]
