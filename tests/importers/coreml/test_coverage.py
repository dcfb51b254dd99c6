"""docs/coreml.md says what is so."""

from __future__ import annotations

from tests.importers.coreml.coverage import PAGE, refreshed


def test_the_table_is_that_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert refreshed(text) == text, "python -m tests.importers.coreml.coverage rewrites the table"
