"""The comparison on several drivers: how a driver is named and chosen, the table, the chart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.adapters import Compared, Driver, draw, table
from gpunn.bench.conditions import Conditions
from gpunn.bench.result import Benchmark, Entrant, Result

OURS = "gpunn-webgpu"
PEERS = ("ncnn-vulkan", "litert-gpu")


def result(peer: str, seconds: float, failed: str = "", batch: int = 1) -> Result:
    times = [] if failed else [[seconds, seconds], [2 * seconds]]
    entrant = Entrant(peer, peer, 2, batch)
    return Result(
        entrant, failed, "1", "an adapter", [0.1], [0.2], [10 * seconds], times, [seconds], [1 / seconds]
    )


def compared(model: str, *results: Result, batch: int = 1) -> Compared:
    now = Conditions("a machine", {}, "now", 0.0)
    return Compared(model, batch, Benchmark(model, "random", "itself", 1, 2, 1.0, PEERS, now, 0.0, results))


MEASURED = [
    compared("first", result(OURS, 0.5), result("ncnn-vulkan", 1.0), result("litert-gpu", 1.0, "no adapter")),
    compared("second", result(OURS, 3.0), result("ncnn-vulkan", 1.0), result("litert-gpu", 4.0)),
    compared("third", result(OURS, 1.0, "refused"), result("ncnn-vulkan", 1.0)),
]


def test_a_driver_is_chosen_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "before")
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    with Driver.of("Mesa 25=icd.json:libraries").chosen():
        assert os.environ["VK_DRIVER_FILES"] == os.environ["VK_ICD_FILENAMES"] == "icd.json"
        assert os.environ["LD_LIBRARY_PATH"] == "libraries"
    assert os.environ["LD_LIBRARY_PATH"] == "before"
    assert "VK_DRIVER_FILES" not in os.environ
    assert "LD_LIBRARY_PATH" not in Driver.of("Mesa 25=icd.json").variables


@pytest.mark.parametrize("text", ["", "Mesa", "=icd.json", "Mesa="])
def test_a_driver_has_a_name_and_a_file(text: str) -> None:
    with pytest.raises(ValueError, match="^" + text + "$"):
        Driver.of(text)


def test_the_table_of_an_adapter() -> None:
    grid, notes = table(MEASURED, PEERS)
    assert [name.split()[-1] for name in grid.header[2:]] == list(PEERS)
    assert grid.rows == (
        ("first", "500.00", "0.50 / 0.50 / 0.50", "-"),
        ("second", "3,000.00", "3.00 / 3.00 / 3.00", "0.75 / 0.75 / 0.75"),
        ("third", "-", "-", "-"),
    )
    assert notes == ["litert-gpu: no adapter (first)", f"{OURS}: refused (third)"]


def test_batches_have_rows_of_their_own() -> None:
    results = [
        result(peer, seconds, batch=batch)
        for batch, pair in ((1, (1.0, 4.0)), (8, (2.0, 4.0)))
        for peer, seconds in zip(("gpunn-webgpu-f16", "litert-gpu"), pair, strict=True)
    ]
    results.append(result("ncnn-vulkan", 1.0, "no batch axis", batch=8))
    rows = [compared("net", *results, batch=batch) for batch in (1, 8)]
    grid, notes = table(rows, PEERS)
    assert grid.rows == (
        ("net", "1,000.00", "0.25 / 0.25 / 0.25"),
        ("net x8", "2,000.00", "0.50 / 0.50 / 0.50"),
    )
    assert notes == ["ncnn-vulkan: no batch axis (net x8)"]


def test_the_chart_has_a_panel_for_each_adapter(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, which draws charts, is not installed")
    chart = tmp_path / "ratios.svg"
    draw({"an adapter": MEASURED, "another": MEASURED[:2]}, PEERS, chart)
    assert chart.read_text().startswith("<?xml")
