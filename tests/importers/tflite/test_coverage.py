"""docs/tflite.md is true."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.importers.tflite.coverage import PAGE, TABLES, refreshed, schema_operators
from tests.resources import shared

TEXT = PAGE.read_text(encoding="utf-8")
CLASSIFIERS = ("classification", "MNIST digits", "CIFAR-10", "text classification", "keyword spotting")


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_current(name: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert computes the shapes of the cases")
    assert refreshed(TEXT, name) == TEXT, "python -m tests.importers.tflite.coverage rewrites the tables"


def test_every_operator_of_the_schema_has_a_line() -> None:
    operators = schema_operators()
    assert len(operators) == 97
    lines = re.findall(r"^\| ([A-Z][A-Z0-9_]+) \|", TEXT, re.MULTILINE)
    assert lines == operators
    schema = shared("seeds/tflite_schema_2018-11.txt").read_text(encoding="utf-8")
    assert all(re.search(rf"^\s*{name} = \d+", schema, re.MULTILINE) for name in operators)


def test_most_operations_of_the_given_models_run_on_the_gpu() -> None:
    """At least 95 of 100; of classifiers all but LSTM, which runs on the numpy backend."""
    rows = re.findall(
        r"^\| (\w\S+\.tflite) \| (.*?) \| \d+ \| (.*?) \| (.*?) \| (.*?) \|$", TEXT, re.MULTILINE
    )
    assert len(rows) == 21
    for name, task, _, _, host in rows:
        on_host = host.replace("1 (lstm: LSTM runs on the numpy backend)", "0")
        assert on_host in ("0", "-") or not task.startswith(CLASSIFIERS), name
    (share,) = re.findall(r"run on the GPU: ([\d.]+) %", TEXT)
    assert float(share) >= 95


def test_no_sentence_is_repeated() -> None:
    """Joined reasons could repeat a sentence."""
    prose = " ".join(line for line in TEXT.splitlines() if not line.startswith("|"))
    counts = Counter(s for s in re.split(r"(?<=[.:;]) +", prose) if len(s) > 30)
    assert [sentence for sentence, count in counts.items() if count > 1] == []
