"""Docstrings: those of functions begin with a verb, those of modules and classes are noun phrases."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resources import ROOT

QUESTIONS = {"How", "That", "What", "When", "Where", "Whether", "Which", "Why"}
# Words that begin a noun phrase or a condition; there are too many verbs to list them.
NO_VERBS = QUESTIONS | {
    *(
        "A",
        "All",
        "An",
        "Any",
        "Each",
        "Every",
        "For",
        "No",
        "None",
        "Of",
        "One",
        "Some",
        "The",
        "Those",
        "Two",
    ),
    *("DeviceError", "FormatError", "ModelError", "UnsupportedError", "BAD_DATA", "UNEXPECTED_NULL"),
}


def docstrings(tree: ast.Module) -> Iterator[tuple[bool, int, str]]:
    """Yield for each docstring whether it is a function's, its line, and its text."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if text:
                yield function, getattr(node, "lineno", 1), text


def wrong(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the line numbers and first lines of docstrings that begin otherwise."""
    return [
        (line, text.splitlines()[0])
        for function, line, text in docstrings(tree)
        if text.split()[0].rstrip(",.:;") in (NO_VERBS if function else QUESTIONS)
    ]


@pytest.mark.parametrize("folder", ["gpunn", "demos", "benchmarks"])
def test_docstrings_begin_as_they_should(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(Path(ROOT, folder).rglob("*.py"))
        for line, text in wrong(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


def test_other_beginnings_are_found() -> None:
    module = '''"""What numbers are."""\n
def f():
    """The number."""\n
def g():
    """Return the number."""\n
class C:
    """A number."""
'''
    assert wrong(ast.parse(module)) == [(1, "What numbers are."), (3, "The number.")]
