"""The schemas themselves; the tests of the command line validate documents with them."""

from __future__ import annotations

import pytest

from gpunn.cli.commands import SHORT_HELP, load
from tests.schemas import FOLDER, schema

NAMES = sorted(path.name.removesuffix(".schema.json") for path in FOLDER.iterdir())


def test_every_command_with_json_has_a_schema() -> None:
    assert sorted(name for name in SHORT_HELP if any(p.name == "as_json" for p in load(name).params)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_valid(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (extra: dev)")
    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["title"] == f"gpunn {name} --json"


def closed(part: object) -> bool:
    """Tell whether every object with properties refuses others: new entries must be documented."""
    if isinstance(part, list):
        return all(map(closed, part))
    if not isinstance(part, dict):
        return True
    inside = all(closed(value) for value in part.values())
    return inside and ("properties" not in part or part.get("additionalProperties") is False)


@pytest.mark.parametrize("name", NAMES)
def test_schema_allows_only_named_entries(name: str) -> None:
    assert closed(schema(name))
