"""Every subcommand works on an .mlmodel file as on a .tflite file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.importers.coreml import twins
from tests.resources import shared

SCALE = ("--mean", twins.MEAN, "--std", twins.STD)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Write a small classifier with an image input and class names."""
    path = tmp_path / "pets.mlmodel"
    path.write_bytes(twins.mlmodel())
    return path


@pytest.fixture
def twin(tmp_path: Path) -> Path:
    """Write the same model as a .tflite file."""
    path = tmp_path / "pets.tflite"
    path.write_bytes(twins.tflite())
    return path


def test_classify(run: Run, model: Path, twin: Path, photo: Path, backend: str) -> None:
    document = run("classify", photo, "--model", model, "--backend", backend, "--json").json
    (found,) = document["photos"]
    assert (document["model"], found["scores"]) == ("pets.mlmodel", "probabilities")
    labels = twin.with_name("labels.txt")
    labels.write_text("\n".join(twins.LABELS))
    args = ("classify", photo, "--model", twin, "--labels", labels, "--backend", backend, *SCALE, "--json")
    (expected,) = run(*args).json["photos"]
    assert [guess["label"] for guess in found["top"]] == [guess["label"] for guess in expected["top"]]
    for ours, theirs in zip(found["top"], expected["top"], strict=True):
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-6)
    refused = run("classify", photo, "--model", model, "--backend", backend, *SCALE)
    refused.must_fail_with("pets.mlmodel takes pixels as they are and scales them itself")


def test_classify_leaves_out_optional_inputs(run: Run, model: Path, photo: Path) -> None:
    args = ("classify", photo, photo, "--model", model, "--backend", "cpu", "--json")
    plain = run(*args).json["photos"]
    model.write_bytes(twins.mlmodel(optional=0))
    assert run(*args).json["photos"] == plain


def test_inspect(run: Run, model: Path, backend: str) -> None:
    document = run("inspect", model, "--backend", backend, "--json").json
    assert document["inputs"][0]["declared"] == f"uint8[1, {twins.HEIGHT}, {twins.WIDTH}, 3]"
    assert (document["labels"], document["stops"]) == (4, None)
    origins = {row["origin"] for row in document["placement"]}
    expected = "layer 0 'conv', convolution", "layer 3 'softmax', softmax"
    assert {f"pets.mlmodel: {where}" for where in expected} <= origins
    shown = run("inspect", model, "--backend", backend).out
    assert "layer 0 'conv', convolution" in shown and "pets.mlmodel: layer" not in shown


def test_plan_and_shader(run: Run, model: Path, gpu: str) -> None:
    plan = run("inspect", model, "--backend", gpu, "--plan", "--json").json["plan"]
    (number,) = (k for k, row in enumerate(plan) if row["op"] == "conv2d")
    assert "layer 0 'conv', convolution" in run("inspect", model, "--wgsl", number).out


def test_profile(run: Run, model: Path, photo: Path, backend: str) -> None:
    document = run("profile", model, photo, "--backend", backend, "--runs", 2, "--json").json
    assert {"conv2d", "softmax"} <= {row["op"] for row in document["rows"]}
    assert all(row["origin"].startswith("pets.mlmodel: ") for row in document["rows"])


def test_bench(run: Run, model: Path) -> None:
    args = ("--backends", "cpu", "--preferences", "fast-single-answer", "--rounds", 1, "--turn", 0)
    document = run("bench", model, *args, "--threads", 1, "--peers", "litert", "--json").json
    ours, theirs = document["results"]
    assert not ours["failed"] and ours["error"] == 0
    if "not installed" not in theirs["failed"]:
        assert theirs["failed"] == "litert runs .tflite files, pets.mlmodel is none"


def test_compare_backends(run: Run, model: Path, photo: Path, tmp_path: Path, gpu: str) -> None:
    report = tmp_path / "report.html"
    args = ("compare", model, photo, "--backends", f"{gpu},cpu", "--per-layer", "--report", report)
    document = run(*args, "--json").json
    assert document["ok"]
    assert {guess["label"] for guess in document["answers"][0]["guesses"]["cpu"]} == set(twins.LABELS)
    page = report.read_text(encoding="utf-8")
    assert "layer 0 &#39;conv&#39;, convolution" in page
    assert all(label in page for label in twins.LABELS)


def test_compare_formats(run: Run, model: Path, twin: Path, photo: Path) -> None:
    args = ("compare", model, photo, "--other", twin, "--backends", "cpu", *SCALE)
    document = run(*args, "--json").json
    assert document["ok"]
    assert [side["name"] for side in document["sides"]] == ["cpu64", "cpu", "pets.tflite"]
    shown = run(*args, "--per-layer").out
    assert "in the other file" in shown and "every layer and output is within its tolerance" in shown
    run("compare", model, twin).must_fail_with(f"{twin} is a model; compare it with --other {twin}")
    run("compare", model, "--other", twin, "--random", 1, *SCALE)


@pytest.mark.parametrize("name", ["MNIST", "mnistCNN"])
def test_accuracy_of_given_models(run: Run, name: str) -> None:
    digits = shared("models/labelled/mnist")
    path = shared(f"models/coreml/{name}.mlmodel")
    document = run("compare", path, "--truth", digits, "--backends", "cpu", "--json").json
    assert document["ok"]
    assert all(row["top1"]["value"] >= 0.97 for row in document["accuracy"])


def test_squeezenet_names_a_cat(run: Run, backend: str) -> None:
    path, cat = shared("models/coreml/SqueezeNet.mlmodel"), shared("models/images/cat.bmp")
    shown = run("classify", cat, "--model", path, "--backend", backend).out.splitlines()
    assert shown[2].split()[1:4] == ["Egyptian", "cat", "78.5%"]
