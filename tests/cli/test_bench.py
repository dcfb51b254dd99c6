"""gpunn bench."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gpunn
from gpunn import vision
from gpunn.bench.peers import FLOAT16, FLOAT32, OTHERS, PEERS
from tests.cli.conftest import Run

MODEL = vision.default_model()
EXACT = tuple(name for name, kind in OTHERS.items() if kind.precision == FLOAT32)
SHORT = ("--rounds", 1, "--turn", 0, "--threads", 1)
TOLERANCE = 1e-5  # of the output's range; all peers sum in float32, in different orders


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Hide all peers in float32 but LiteRT on the CPU, as if they were not installed."""
    names = tuple(name for name in EXACT if name != "litert")
    for name in names:
        monkeypatch.setitem(PEERS, name, replace(PEERS[name], packages={"no_such_module": name}))
    return names


def test_json(run: Run, gpu: str, hidden: tuple[str, ...]) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed (extra: compare)")
    document = run(
        "bench", MODEL, *SHORT, "--batch", 2, "--preferences", "sustained-speed", "--peers", "--json"
    ).json
    assert document["bases"] == ["litert"]
    results = {result["label"]: result for result in document["results"]}
    measured = ["gpunn-webgpu/sustained-speed x2", "gpunn-cpu/sustained-speed x2", "litert x2"]
    assert list(results) == measured + [f"{name} x2" for name in hidden]
    for label in measured:
        found = results[label]
        assert not found["failed"]
        assert len(found["rounds"]) == 1 and len(found["rounds"][0]) >= 2
        assert found["error"] <= TOLERANCE
        assert found["figures"]["samples_per_s"] == pytest.approx(2 * found["rates"][0])
        assert [ratio["base"] for ratio in found["ratios"]] == ["litert x2"]
    assert results[measured[0]]["version"] == gpunn.__version__
    assert "package ncnn is not installed" in results["ncnn x2"]["failed"]


def test_markdown_with_a_peer_that_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "ncnn", replace(PEERS["ncnn"], packages={"no_such_module": "ncnn"}))
    names = ("--preferences", "fast-single-answer", "--backends", "cpu", "--peers", "ncnn")
    outcome = run("bench", MODEL, *SHORT, *names, "--base", "gpunn-cpu", "--markdown")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| warm |"))
    header, _, row, end = (line.split(" | ") for line in lines[start : start + 4])
    assert end == [""], "the other peer has failed"
    cells = dict(zip(header, row, strict=True))
    assert cells["| warm"] == "| gpunn-cpu/fast-single-answer"
    assert cells["time / gpunn-cpu"] == cells["samples / gpunn-cpu"] == "1.00"
    assert "- adapters: none" in lines
    assert "- ncnn: the package ncnn is not installed" in lines


def test_float16_has_names_of_its_own(run: Run, gpu: str) -> None:
    names = ("--backends", "webgpu-f16", "--preferences", "fast-single-answer")
    found = run("bench", MODEL, *SHORT, *names, "--json").json["results"]
    assert [result["entrant"]["peer"] for result in found] == ["gpunn-webgpu-f16"]
    assert TOLERANCE < found[0]["error"] < 0.1, "tensors are rounded to float16, and right all the same"
    assert {name for name, kind in OTHERS.items() if kind.precision == FLOAT16} == {
        name for name in OTHERS if name.endswith("-f16")
    }


def test_peers_without_names_are_all_peers_in_float32(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OTHERS:
        monkeypatch.setitem(PEERS, name, replace(PEERS[name], packages={"no_such_module": name}))
    run("bench", MODEL, "--peers", "--backends", "").must_fail_with("nothing could be measured", *EXACT)
    run("bench", "--backends", "", MODEL, "--peers").must_fail_with("nothing could be measured", *EXACT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--preferences", "fastest"), "no preference 'fastest', only low-power"),
        (("--batch", "1,x"), "--batch"),
        (("--peers", "nobody"), "no peer 'nobody', only litert"),
        (("--base", "litert"), "not measured"),
        (("--backends", "cpu", "--device", "nope"), "device 'nope' is for gpunn-webgpu, gpunn-webgpu-f16"),
        (("--onnx", MODEL), "an ONNX file is for onnxruntime, onnxruntime-webgpu, torch, "),
        (("--backends", "webgpu,cpu", "--device", "nope"), "there is no GPU adapter 'nope' (adapters: "),
    ],
)
def test_wrong_options_are_refused(run: Run, words: tuple[str, ...], message: str) -> None:
    run("bench", MODEL, *words).must_fail_with(message)
