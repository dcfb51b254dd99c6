"""SECURITY.md names tests and files that exist."""

from __future__ import annotations

import re

import pytest

from tests.resources import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_the_named_tests_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(named) >= 8
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_web_*.py")]
    for name in named:
        assert any(f"def {name}(" in source for source in sources), name


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tests|demos)/[\w/.]+)`", TEXT))))
def test_the_named_files_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_stated_limits_are_the_defaults() -> None:
    app = (ROOT / "demos" / "web_app.py").read_text(encoding="utf-8")
    answers = (ROOT / "demos" / "web_answers.py").read_text(encoding="utf-8")
    for option, default in (("seconds", "20.0"), ("upload", "200"), ("memory", "4096")):
        assert re.search(rf'"--{option}", type=\w+, default={default}[,)]', app), option
        assert f"`--{option}`" in TEXT
    assert "after 20 s" in TEXT and "at most 200 MB" in TEXT and "above 4096 MB" in TEXT
    assert "killed 5 s after" in TEXT and "FINISH = 5.0" in answers
    assert "16 wait" in TEXT and "WAITING = 16" in app
    assert "deleted after an hour" in TEXT and "delete_cache=(60, 3600)" in app
