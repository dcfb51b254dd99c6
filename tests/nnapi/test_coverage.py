"""docs/nnapi.md is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpunn.importers.nnapi.table import OPERATIONS
from gpunn.nnapi import OperationCode
from tests.nnapi.coverage import COLUMNS, PAGE, SAMPLES, host_reason, refreshed
from tests.resources import ROOT

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_operation_is_in_the_table() -> None:
    names = sorted(code.name for code in OperationCode)
    assert sorted(SAMPLES) == sorted(code.name for code in OPERATIONS) == names
    block = TEXT.partition("<!-- coverage -->")[2]
    assert re.findall(r"^\| ([A-Z]\w+) \|", block, re.MULTILINE) == names
    assert len(names) == 33 + 5


def test_the_table_is_current() -> None:
    assert refreshed(TEXT) == TEXT, "python -m tests.nnapi.coverage rewrites the table"


def test_three_operations_stay_on_the_cpu() -> None:
    hosted = {code.name for code in OperationCode for column in COLUMNS if host_reason(code, column)}
    assert hosted == {"HASHTABLE_LOOKUP", "LSH_PROJECTION", "LSTM"}


def test_the_example_prints_the_shown_output(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (_, example), (_, shown) = blocks
    exec(compile(example, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_links_have_targets(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target
