"""The packages of docs/architecture.md: all are listed, and imports run one way."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resources import ROOT

PACKAGE = ROOT / "gpunn"
WITH_PACKAGES_INSIDE = ("ops", "importers", "backends")


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a file imports, also for type checking and in functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def package(module: str, known: dict[str, Path]) -> str:
    """Return the package of a module, or the module beside packages, as the table names it."""
    parts = module.split(".")[1:]
    if not parts:
        return "gpunn"
    if parts[0] not in WITH_PACKAGES_INSIDE or len(parts) == 1:
        return parts[0]
    is_package = known[".".join(["gpunn", *parts[:2]])].name == "__init__.py"
    return f"{parts[0]}{'/' if is_package else '.'}{parts[1]}"


def listed() -> list[str]:
    """Return the packages and modules in the order of the table."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, table = text.partition("\n## Packages and what they may import\n")
    return re.findall(r"^\| `([\w./]+)` \|", table.partition("\n## ")[0], re.MULTILINE)


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that all reach one another (strongly connected components, by Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(start: str, graph: dict[str, set[str]], done: list[str]) -> None:
        stack = [(start, iter(graph.get(start, ())))]
        seen.add(start)
        while stack:
            module, following = stack[-1]
            nearest = next((m for m in following if m not in seen), None)
            if nearest is None:
                done.append(module)
                stack.pop()
            else:
                seen.add(nearest)
                stack.append((nearest, iter(graph.get(nearest, ()))))

    for module in edges:
        if module not in seen:
            visit(module, edges, order)
    backwards: dict[str, set[str]] = {}
    for module, targets in edges.items():
        for target in targets:
            backwards.setdefault(target, set()).add(module)
    seen.clear()
    found = set()
    for module in reversed(order):
        if module not in seen:
            component: list[str] = []
            visit(module, backwards, component)
            if len(component) > 1:
                found.add(frozenset(component))
    return found


def test_every_package_is_listed_once() -> None:
    known = modules()
    found = {package(module, known) for module in known}
    assert sorted(listed()) == sorted(found - {"backends"})  # which has no code of its own


def test_packages_import_only_those_above_them() -> None:
    known = modules()
    place = {name: position for position, name in enumerate(listed())}
    wrong = [
        f"{module} imports {target}"
        for module, path in known.items()
        for target in imports(path, known)
        if package(module, known) != package(target, known)
        and place[package(target, known)] > place[package(module, known)]
    ]
    assert not wrong


def test_formats_do_not_know_one_another() -> None:
    known = modules()
    formats = {name for name in listed() if name.startswith("importers/")} - {"importers/common"}
    assert len(formats) > 1
    wrong = [
        f"{module} imports {target}"
        for module, path in known.items()
        for target in imports(path, known)
        if package(module, known) in formats and package(target, known) in formats - {package(module, known)}
    ]
    assert not wrong


def test_no_modules_import_one_another_in_a_circle() -> None:
    known = modules()
    edges = {module: set(imports(path, known)) - {module} for module, path in known.items()}
    assert not circles(edges)


def test_circles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert circles(edges) == {frozenset({"b", "c"})}


def test_only_one_package_imports_wgpu() -> None:
    known = modules()
    users = {
        package(module, known)
        for module, path in known.items()
        if re.search(r"^\s*(import|from) wgpu\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users == {"backends/webgpu"}


def walk() -> list[tuple[str, str]]:
    """Return the files of the walk, each with its sentence."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = re.search(r"^## From load\(\) to a dispatch\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    return re.findall(r"^\d+\. `([\w/.]+)`: (.*?)(?=^\d+\. |\Z)", section[1], re.MULTILINE | re.DOTALL)


def test_the_walk_goes_from_file_to_file() -> None:
    known = modules()
    names = {path.relative_to(ROOT).as_posix(): name for name, path in known.items()}
    files = [file for file, _ in walk()]
    assert 5 < len(files) <= 10
    assert not {*files} - {*names}
    for file, following in itertools.pairwise(files):
        forward = names[following] in imports(ROOT / file, known)
        backward = names[file] in imports(ROOT / following, known)
        assert forward or backward, f"neither {file} nor {following} imports the other"


@pytest.mark.parametrize(("file", "words"), walk())
def test_the_names_of_the_walk_are_defined_in_its_files(file: str, words: str) -> None:
    name = re.match(r"`(?:\w+\.)?(\w+)(?:\(\))?`", words)
    assert name is not None, f"{file}: the sentence should begin with what to read there"
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^\s*(?:def|class) {name[1]}\b", text, re.MULTILINE)
