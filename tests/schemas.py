"""docs/schemas: JSON Schemas of the commands' output with --json."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.resources import ROOT

FOLDER = ROOT / "docs" / "schemas"


def schema(command: str) -> dict[str, Any]:
    """Return the schema of a command's document."""
    found: dict[str, Any] = json.loads((FOLDER / f"{command}.schema.json").read_text(encoding="utf-8"))
    return found


def validate(command: str, document: Any) -> None:
    """Fail if a document does not follow its schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (extra: dev)")
    errors = list(jsonschema.Draft202012Validator(schema(command)).iter_errors(document))
    assert not errors, "\n".join(f"{error.json_path}: {error.message[:300]}" for error in errors[:5])
