"""How photos become inputs: --pixels, what the file says, and what is printed. Patterns of paths; -h."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn.cli.paths import expanded
from gpunn.types import float32
from tests.cli.conftest import Run
from tests.importers.coreml import twins
from tests.metadata import metadata
from tests.tflite_builder import Graph


def network(folder: Path, scale: tuple[list[float], list[float]] | None) -> Path:
    """A model that gives back the four pixels of a grey photo."""
    graph = Graph()
    x, shape = graph.input(float32(1, 2, 2, 1)), graph.constant(np.array([1, 4], np.int32))
    ends = graph.add("RESHAPE", [x, shape], [float32(1, 4)])
    path = folder / f"net{'' if scale is None else '_scale'}.tflite"
    path.write_bytes(graph.build(ends, metadata=scale and {"TFLITE_METADATA": metadata(scale)}))
    return path


@pytest.fixture
def grey(tmp_path: Path) -> Path:
    path = tmp_path / "grey.png"
    Image.new("L", (2, 2), 51).save(path)
    return path


@pytest.mark.parametrize(
    ("scale", "options", "value", "line"),
    [
        (None, (), -0.6, "pixels as -1..1 (default; --pixels changes it)"),
        (None, ("--pixels", "-1..1"), -0.6, "pixels as -1..1 (as given)"),
        (None, ("--pixels=0..1",), 0.2, "pixels as 0..1 (as given)"),
        (None, ("--pixels", "0..255"), 51, "pixels as 0..255 (as given)"),
        (None, ("--mean", 1, "--std", 10), 5, "pixels as (byte - 1) / 10 (as given)"),
        (([0], [255]), (), 0.2, "pixels as 0..1 (from the file's metadata; --pixels changes it)"),
        (([0], [255]), ("--pixels", "-1..1"), -0.6, "pixels as -1..1 (as given)"),
        (([0], [0]), (), -0.6, "pixels as -1..1 (default; --pixels changes it)"),
    ],
)
def test_classify(
    run: Run,
    tmp_path: Path,
    grey: Path,
    scale: tuple[list[float], list[float]] | None,
    options: tuple[object, ...],
    value: float,
    line: str,
) -> None:
    args = ("classify", grey, "--model", network(tmp_path, scale), "--backend", "cpu", *options)
    document = run(*args, "--json").json
    assert document["photos"][0]["top"][0]["score"] == pytest.approx(value, rel=1e-6)
    kind, _, origin = document["pixels"]["as"], document["pixels"]["mean"], document["pixels"]["from"]
    assert line.startswith(f"pixels as {kind} (")
    assert (origin == "given") == ("as given" in line) and (origin == "file") == ("file's" in line)
    assert run(*args).out.splitlines()[-2] == line


def test_a_model_that_scales_photos_itself(run: Run, tmp_path: Path, grey: Path) -> None:
    model = tmp_path / "net.mlmodel"
    model.write_bytes(twins.mlmodel())
    args = ("classify", grey, "--model", model, "--backend", "cpu")
    assert run(*args).out.splitlines()[-2] == "pixels as 0..255 (the model scales them itself)"
    assert run(*args, "--json").json["pixels"]["from"] == "model"
    assert run(*args, "--pixels", "0..255").code == 0
    run(*args, "--pixels", "0..1").must_fail_with("scales them itself")


@pytest.mark.parametrize("command", ["classify", "compare", "profile"])
def test_refusals(run: Run, tmp_path: Path, grey: Path, command: str) -> None:
    model = network(tmp_path, None)
    args = (command, grey, "--model", model) if command == "classify" else (command, model, grey)
    run(*args, "--pixels", "0..1", "--std", 2).must_fail_with("--pixels", "exclude each other")
    run(*args, "--pixels", "0..2").must_fail_with("--pixels", "0..2")


@pytest.mark.parametrize("command", ["compare", "profile"])
def test_other_commands_take_ranges(run: Run, tmp_path: Path, grey: Path, command: str) -> None:
    backend = ("--backends" if command == "compare" else "--backend", "cpu")
    outcome = run(command, network(tmp_path, None), grey, *backend, "--pixels", "0..255", "--json")
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("command", ["compare", "profile"])
def test_other_commands_say_what_became_of_the_pixels(
    run: Run, tmp_path: Path, grey: Path, command: str
) -> None:
    args = (command, network(tmp_path, None), "--backends" if command == "compare" else "--backend", "cpu")
    line = "pixels as 0..1 (as given)"
    assert line in [said.strip() for said in run(*args, grey, "--pixels", "0..1").out.splitlines()]
    assert "pixels as" not in run(*args).out
    if command == "compare":
        found = run(*args, grey, "--pixels", "0..1", "--json").json["inputs"]["pixels"]
        assert found == {"as": "0..1", "mean": [0.0], "std": [255.0], "from": "given"}
        assert run(*args, "--json").json["inputs"]["pixels"] is None


def test_two_files_of_one_model_get_the_same_pixels(tmp_path: Path, grey: Path) -> None:
    plain, stated = network(tmp_path, None), network(tmp_path, ([0], [255]))
    for one, other in ((plain, stated), (stated, plain)):
        found = gpunn.compare(one, grey, ["cpu"], other=other)
        assert found.pair(other.name).outputs[0].metrics.max_abs_error < 1e-6


def test_patterns_stand_for_the_files_that_they_match(run: Run, tmp_path: Path, grey: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("b.png", "a.png", "c.txt"):
        shutil.copy(grey, inner / name)
    odd = tmp_path / "a[1].png"
    shutil.copy(grey, odd)
    assert expanded([inner / "*.png", odd]) == [inner / "a.png", inner / "b.png", odd]
    assert expanded([tmp_path / "**" / "c.*"]) == [inner / "c.txt"]
    photos = run("classify", inner / "*.png", "--backend", "cpu", "--json").json["photos"]
    assert [Path(found["photo"]).name for found in photos] == ["a.png", "b.png"]
    run("classify", inner / "*.gif").must_fail_with("*.gif")


@pytest.mark.parametrize("command", ["classify", "compare", "bench", "inspect", "profile", "devices", None])
def test_h_is_help(run: Run, command: str | None) -> None:
    words = () if command is None else (command,)
    short, long = run(*words, "-h"), run(*words, "--help")
    assert (short.code, short.err) == (0, "")
    assert short.out == long.out and "Usage: gpunn" in short.out
