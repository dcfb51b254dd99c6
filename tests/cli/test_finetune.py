"""gpunn finetune: what it prints and writes, and errors of one line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn.importers.coreml.messages import model_class
from tests.cli.conftest import Run
from tests.finetuning.models import two_layers
from tests.importers.coreml import twins


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a small classifier; what commands write goes beside it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pets.tflite"
    path.write_bytes(two_layers())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write folders of red and of blue photos, and a file that is no photo."""
    for colour in ("red", "blue"):
        inside = tmp_path / "photos" / colour
        inside.mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (9, 9), colour).save(inside / f"{number}.png")
    (tmp_path / "photos" / "red" / "notes.txt").write_text("no photo")
    return tmp_path / "photos"


@pytest.mark.parametrize("exists", [False, True])
def test_a_file_that_may_not_be_written_is_refused_first(
    run: Run, model: Path, folder: Path, exists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = model.with_name("new.tflite")
    if exists:
        target.touch()
    closed = target if exists else target.parent
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK or Path(path).resolve() != closed)
    monkeypatch.setattr("gpunn.finetune", lambda *args, **options: pytest.fail("it was trained"))
    command = run("finetune", model, folder, "--labels-from-folders", "--output", target)
    command.must_fail_with("new.tflite: there is no permission to write it")


FAST = ("--epochs", 20, "--learning-rate", 0.05, "--backend", "cpu", "--batch", 4)


def test_the_new_model_names_the_new_classes(run: Run, model: Path, folder: Path) -> None:
    outcome = run("finetune", model, folder, "--labels-from-folders", *FAST)
    assert (outcome.code, outcome.err) == (0, "skipped 1 file that is no photo\n")
    lines = outcome.out.splitlines()
    assert lines[:4] == [
        "pets.tflite",
        "2 classes: blue, red; the last layer is new",
        "8 photos to train on, 2 that measure the accuracy",
        "pixels as -1..1 (default; --pixels changes it)",
    ]
    assert lines[5].split() == ["epoch", "loss", "accuracy"]
    assert lines[25].split()[::2] == ["20", "100.0%"]
    assert lines[-1].startswith("wrote pets_finetuned.tflite (")
    for colour in ("red", "blue"):
        photo = folder / colour / "0.png"
        document = run(
            "classify", photo, "--model", "pets_finetuned.tflite", "--backend", "cpu", "--json"
        ).json
        assert document["photos"][0]["top"][0]["label"] == colour


def test_json_and_plot(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: demo)")
    (folder / "red" / "notes.txt").unlink()
    options = ("--labels-from-folders", "--json", "--plot", "loss.png", "--output", "new.tflite", *FAST)
    document = run("finetune", model, folder, *options).json
    assert (document["output"], document["labels"], document["before"]) == (
        "new.tflite",
        ["blue", "red"],
        None,
    )
    assert len(document["epochs"]) == 20
    assert len(document["losses"]) == 40
    with Image.open(tmp_path / "loss.png") as drawn:
        assert len(np.unique(np.asarray(drawn.convert("L")))) > 50
    assert gpunn.load("new.tflite").labels == ("blue", "red")


def test_class_names_beside_a_model_that_has_no_place_for_them(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    made = model_class().FromString(twins.mlmodel())
    network = made.neuralNetworkClassifier
    made.neuralNetwork.layers.extend(network.layers)
    made.neuralNetwork.preprocessing.extend(network.preprocessing)
    del made.description.output[1:]
    made.description.output[0].type.multiArrayType.dataType = 65568
    path, target = tmp_path / "pets.mlmodel", tmp_path / "new.mlmodel"
    path.write_bytes(made.SerializeToString())
    names = tmp_path / "new_labels.txt"
    names.mkdir()
    options = ("--labels-from-folders", "--output", target, *FAST)
    with monkeypatch.context() as patch:
        patch.setattr("gpunn.finetune", lambda *args, **options: pytest.fail("it was trained"))
        run("finetune", path, folder, *options).must_fail_with("new_labels.txt: is a folder")
    names.rmdir()
    outcome = run("finetune", path, folder, *options)
    assert outcome.code == 0
    assert names.read_text() == "blue\nred\n"
    assert str(names) in outcome.out
    photo = folder / "red" / "0.png"
    found = run("classify", photo, "--model", target, "--labels", names, "--backend", "cpu", "--json").json
    assert {guess["label"] for guess in found["photos"][0]["top"]} == {"red", "blue"}


@pytest.mark.parametrize("augment", [(), ("--augment",)])
def test_a_threshold_of_the_file_is_left_out(
    run: Run, model: Path, folder: Path, augment: tuple[str, ...]
) -> None:
    """It is said, as the new model names a class for every photo."""
    (folder / "red" / "notes.txt").unlink()
    options = ("--labels-from-folders", *FAST[2:], "--epochs", 2, *augment)
    assert run("finetune", model, folder, *options).err == ""
    assert run("finetune", model, folder, *options, "--json").json["scoring_dropped"] is False
    model.write_bytes(two_layers(threshold=0.75))
    outcome = run("finetune", model, folder, *options)
    assert (outcome.code, outcome.err) == (0, "")
    assert "left out: the calibration and the threshold of scores" in outcome.out
    assert gpunn.load("pets_finetuned.tflite").scoring is None
    document = run("finetune", model, folder, *options, "--json").json
    assert (document["scoring_dropped"], document["augmented"]) == (True, bool(augment))


def test_errors(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    def fails(*args: object, words: tuple[str, ...]) -> None:
        run("finetune", *args, "--backend", "cpu").must_fail_with(*words)

    from_folders = "--labels-from-folders"
    fails(model, tmp_path / "none", from_folders, words=("none: is no folder",))
    fails(model, folder / "red", from_folders, words=("has no subfolders",))
    fails(model, folder, words=("'blue' is no class of pets.tflite, which has no names",))
    fails(model, folder, from_folders, "--output", "new.mlmodel", words=("is written as .tflite",))
    fails(model, folder, from_folders, "--output", "no/new.tflite", words=("no: is no folder",))
    fails(model, folder, from_folders, "--plot", "loss.txt", words=("plots are written as",))
    fails(model, folder, from_folders, "--plot", "no/loss.png", words=("no: is no folder",))
    fails(model, folder, from_folders, "--epochs", 0, words=("--epochs",))
    fails(model, folder, from_folders, "--validation", 1, words=("--validation",))
    fails(model, folder, from_folders, "--learning-rate", 3e38, "--optimizer", "sgd", words=("the loss is",))
    (folder / "empty").mkdir()
    fails(model, folder, from_folders, words=("the folder holds no files",))
    (folder / "empty" / "notes.txt").write_text("no photo")
    fails(model, folder, from_folders, words=("class 'empty' has 0 photos; skipped 2 files",))
    assert not [*tmp_path.glob("*finetuned*")]
