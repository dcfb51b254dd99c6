"""gpunn tune."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunn import vision
from gpunn.tuning import measurement, records
from tests.cli.conftest import Run
from tests.ops.harness import limit_device

MODEL = vision.default_model()


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gpunn.cache.cache_folder", lambda: tmp_path)
    monkeypatch.setattr(records, "_known", {})


def test_json_and_what_is_known_the_second_time(run: Run, gpu: str) -> None:
    first, second = (run("tune", MODEL, "--json").json for _ in range(2))
    assert first["calls"] and all(call["measured"] for call in first["calls"])
    assert not any(call["measured"] for call in second["calls"])
    assert [call["chosen"] for call in first["calls"]] == [call["chosen"] for call in second["calls"]]
    for call in first["calls"]:
        assert call["op"] in ("conv2d", "depthwise_conv2d", "fully_connected", "separable_conv2d")
        assert call["ways"][call["chosen"]]["seconds"] > 0


def test_the_table_fits_80_columns(run: Run, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.cli.show.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    outcome = run("tune", MODEL)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:4] == ["operation", "result", "calls", "way"] for line in lines)
    assert any("*" in line and "conv2d" in line for line in lines)
    again = run("tune", MODEL)
    assert "known from before: " in again.out and "0 calls measured" in again.out


def test_what_cannot_be_remembered(
    run: Run, gpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr("gpunn.cache.cache_folder", lambda: file)
    assert f"{file} cannot be written: other processes will measure again" in run("tune", MODEL).out
    assert "cannot be written" not in run("tune", MODEL).out, "this process has nothing to write"


def test_other_shapes_and_wrong_devices(run: Run, gpu: str) -> None:
    document = run("tune", MODEL, "--shape", "image=2,32,32,3", "--json").json
    assert all(call["shape"][0] == 2 for call in document["calls"])
    run("tune", MODEL, "--device", "no such GPU").must_fail_with("there is no GPU adapter 'no such GPU'")


def test_inspect_shows_what_was_measured(run: Run, gpu: str) -> None:
    options = ("--plan", "--preference", "sustained-speed", "--json")
    plan = run("inspect", MODEL, *options).json["plan"]
    assert any("; measured: " in row["reason"] for row in plan)


def test_what_is_quicker_as_a_whole(run: Run, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on hardware; some kernel other than the first one wins, whatever it takes."""
    limit_device(monkeypatch, software=False)
    monkeypatch.setattr(measurement, "MARGIN", 1e9)
    found = iter([(1e-3, 2e-3), (4e-3, 3e-3)])
    monkeypatch.setattr(measurement.Bench, "compare", lambda *_: next(found))
    said = run("tune", MODEL).out
    assert "all together: 2 ms with these, 1 ms by the rule; sustained-speed takes the rule's\n" in said
    assert (
        "all together: 3 ms with parameters as constants, 4 ms in a buffer; sustained-speed takes constants\n"
        in said
    )
    changes = run("tune", MODEL, "--json").json["wholes"]
    assert [whole["change"] for whole in changes] == ["chosen", "inlined"]
