"""Every error is one line on stderr with exit code 2, without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from gpunn import vision
from tests.cli.conftest import Outcome, Run
from tests.resources import ENVIRONMENT, shared

PACKAGED = vision.default_model().read_bytes()


@pytest.mark.parametrize("kept", [0, 3, 7, 100, 4096, len(PACKAGED) // 2])
def test_truncated_model(run: Run, photo: Path, tmp_path: Path, kept: int) -> None:
    model = tmp_path / "cut.tflite"
    model.write_bytes(PACKAGED[:kept])
    run("classify", photo, "--model", model).must_fail_with("cut.tflite")
    run("inspect", model).must_fail_with("cut.tflite")


def test_text_file_as_model(run: Run, photo: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_text("This is a text file, quite long enough to hold the head of a model.\n" * 20)
    run("classify", photo, "--model", model).must_fail_with("model.tflite", "text")


def test_missing_model(run: Run, photo: Path, tmp_path: Path) -> None:
    run("classify", photo, "--model", tmp_path / "none.tflite").must_fail_with("none.tflite")
    run("classify", photo, "--model", tmp_path).must_fail_with(str(tmp_path))


def test_file_that_is_no_photo(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "notes.jpg"
    path.write_text("no photo")
    run("classify", path).must_fail_with("notes.jpg", "not a picture")


def test_truncated_photo(run: Run, photo: Path) -> None:
    photo.write_bytes(photo.read_bytes()[:2000])
    run("classify", photo).must_fail_with("photo.png", "cannot be read")


def test_one_bad_photo_among_good_ones_names_it(run: Run, photo: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"\x89PNG")
    run("classify", photo, bad, photo).must_fail_with("bad.png")


def test_decompression_bomb(run: Run, photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow refuses twice as many, gpunn those beyond
    run("classify", photo).must_fail_with("photo.png", "has too many pixels, at most 100 are read")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    run("classify", photo).must_fail_with("photo.png", "has 64 x 48 pixels, at most 2000 are read")


def test_missing_photo_and_empty_folder(run: Run, tmp_path: Path) -> None:
    run("classify", tmp_path / "none.jpg").must_fail_with("none.jpg: No such file or directory")
    run("classify", tmp_path).must_fail_with("the folder holds no files")
    (tmp_path / "a.txt").write_text("no photo")
    run("classify", tmp_path).must_fail_with("no photo among 1 file")


@pytest.mark.parametrize("count", [9, 11])
def test_wrong_number_of_labels(run: Run, photo: Path, tmp_path: Path, count: int) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("thing\n" * count)
    outcome = run("classify", photo, "--labels", labels)
    outcome.must_fail_with("labels.txt", f"{count} labels", "10 classes")


def test_labels_that_are_not_text(run: Run, photo: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_bytes(b"\xff\xfe\x00")
    run("classify", photo, "--labels", labels).must_fail_with("labels.txt", "UTF-8")
    run("classify", photo, "--labels", tmp_path / "none.txt").must_fail_with("none.txt: No such file")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("autoencoder_ad01", "shape [1, 640], expected [batch, height, width, 1 or 3]"),
        ("deeplabv3_257_mv_gpu", "is not a classifier: its output"),
        ("face_detection_front", "has 2 outputs, a photo classifier has one"),
    ],
)
def test_model_that_is_no_classifier(run: Run, photo: Path, model: str, words: str) -> None:
    path = shared(f"models/tflite/{model}.tflite")
    run("classify", photo, "--model", path).must_fail_with(f"{model}.tflite", words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--top", "0"), "'--top'"),
        (("--top", "many"), "'--top'"),
        (("--backend", "tpu"), "'tpu' is not one of 'auto', 'webgpu', 'cpu'"),
        (("--preference", "cheap"), "'cheap' is not one of"),
        (("--std", "0"), "std must be finite and not 0, got 0"),
        (("--mean", "nan"), "finite"),
        (("--colour", "red"), "--colour"),
    ],
)
def test_bad_option(run: Run, photo: Path, args: tuple[str, ...], words: str) -> None:
    run("classify", photo, *args).must_fail_with(words)


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        (("compare", "--backends", "nobody"), ("--report",), "out.html"),
        (("compare", "--backends", "nobody"), ("--save-layer", "1", "--case"), "layer.npz"),
        (("profile", "--device", "nobody"), ("--trace",), "trace.json"),
        (("profile", "--device", "nobody"), ("--plot",), "plot.png"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    option: tuple[str, ...],
    name: str,
) -> None:
    args = (*command, vision.default_model(), *option)
    (tmp_path / name).mkdir()
    run(*args, tmp_path / "nowhere" / name).must_fail_with("nowhere: is no folder")
    run(*args, tmp_path / name).must_fail_with(f"{name}: is a folder")
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    run(*args, tmp_path / f"new_{name}").must_fail_with("there is no permission to write it")
    monkeypatch.undo()
    run(*args, tmp_path / f"new_{name}").must_fail_with("nobody")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_bad_command_line(run: Run) -> None:
    run("classify").must_fail_with("PHOTO")
    run("paint").must_fail_with("paint")
    run("inspect").must_fail_with("MODEL")


def test_no_adapter(photo: Path) -> None:
    """Without any Vulkan driver webgpu is refused, auto takes the CPU, and devices still lists it."""
    code, out, err = _without_driver("classify", str(photo), "--backend", "webgpu")
    Outcome(code, out, err).must_fail_with("adapter")
    code, out, err = _without_driver("classify", str(photo))
    assert (code, err) == (0, "")
    assert "backend cpu" in out
    code, out, err = _without_driver("devices")
    assert (code, err) == (0, "")
    assert "numpy" in out


def _without_driver(*args: str) -> tuple[int, str, str]:
    nowhere = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), "/nonexistent.json")
    done = subprocess.run(
        [sys.executable, "-m", "gpunn", *args],
        env={**ENVIRONMENT, **nowhere},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr
