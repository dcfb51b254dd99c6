"""gpunn classify: results, JSON, folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.types import float32
from tests.cli.conftest import Run
from tests.resources import shared
from tests.tflite_builder import single_op


def test_table(run: Run, photo: Path) -> None:
    outcome = run("classify", photo, "--backend", "cpu", "--top", 3)
    assert (outcome.code, outcome.err) == (0, "")
    first, verdict, header, *rows = outcome.out.splitlines()
    assert first == str(photo)
    assert verdict.startswith("nothing I know for sure (most like: ")  # the photo is noise
    assert header.split() == ["#", "class", "probability"]
    labels = gpunn.load(vision.default_model()).labels
    for rank, row in enumerate(rows[:3], 1):
        number, label, probability, *_ = row.split()
        assert int(number) == rank
        assert label in labels
        assert probability.endswith("%")
    assert rows[3] == ""
    assert rows[4] == f"cifar10_mobilenet.tflite knows 10 classes: {', '.join(labels)}"
    assert rows[5] == "pixels as -1..1 (default; --pixels changes it)"
    assert rows[6].startswith("1 photo in ")
    assert "backend cpu" in rows[6]


def test_json(run: Run, photo: Path) -> None:
    document = run("classify", photo, "--backend", "cpu", "--json").json
    expected = {"model", "knows", "threshold", "backend", "device", "preference", "pixels", "seconds"}
    assert document.keys() == expected | {"photos", "skipped"}
    assert document["threshold"] == 0.9
    assert document["backend"] == "cpu"
    assert document["preference"] == "fast-single-answer"
    assert document["seconds"].keys() == {"compile", "photos"}
    assert document["skipped"] == []
    (result,) = document["photos"]
    assert result.keys() == {"photo", "scores", "known", "top"}
    assert result["known"] is False
    assert (result["photo"], result["scores"], len(result["top"])) == (str(photo), "probabilities", 5)
    assert [guess["rank"] for guess in result["top"]] == [1, 2, 3, 4, 5]
    scores = [guess["score"] for guess in result["top"]]
    assert scores == sorted(scores, reverse=True)
    labels = gpunn.load(vision.default_model()).labels
    assert all(labels[guess["index"]] == guess["label"] for guess in result["top"])


def test_a_worker_process_gives_the_same_answer(run: Run, photo: Path) -> None:
    here, isolated = (
        run("classify", photo, "--backend", "cpu", "--json", *flag).json for flag in ((), ("--isolate",))
    )
    assert isolated["photos"] == here["photos"]


def test_relaxed_answers_are_nearly_the_same(run: Run, photo: Path) -> None:
    exact, relaxed = (
        [guess["score"] for guess in run("classify", photo, *flag, "--json").json["photos"][0]["top"]]
        for flag in ((), ("--relaxed",))
    )
    assert relaxed != exact
    np.testing.assert_allclose(relaxed, exact, atol=0.02)  # some 30 layers, each rounded to 2^-11


@pytest.mark.parametrize("preference", ["low-power", "fast-single-answer", "sustained-speed"])
def test_every_preference_gives_the_same_answers(run: Run, tmp_path: Path, preference: str) -> None:
    rng = np.random.default_rng(2)
    for number in range(5):
        pixels = rng.integers(0, 256, (20 + number, 30, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    document = run("classify", tmp_path, "--backend", "cpu", "--preference", preference, "--json").json
    assert document["preference"] == preference
    assert [Path(r["photo"]).name for r in document["photos"]] == [f"{n}.png" for n in range(5)]
    for result in document["photos"]:
        (alone,) = run("classify", result["photo"], "--backend", "cpu", "--json").json["photos"]
        found = [[entry.pop("score") for entry in photo["top"]] for photo in (alone, result)]
        assert alone == result
        # Compiled loops round their sums otherwise than numpy; the general promise for a layer is 1e-5.
        np.testing.assert_allclose(*found, atol=1e-5)


def test_folders_are_searched_recursively_and_other_files_counted(run: Run, photo: Path) -> None:
    folder = photo.parent
    (folder / "b").mkdir()
    shutil.copy(photo, folder / "b" / "inner.png")
    (folder / "a.txt").write_text("no photo")
    (folder / "broken.png").write_bytes(photo.read_bytes()[:200])
    document = run("classify", folder, "--backend", "cpu", "--json").json
    assert [r["photo"] for r in document["photos"]] == [str(folder / "b" / "inner.png"), str(photo)]
    assert [Path(s["file"]).name for s in document["skipped"]] == ["a.txt", "broken.png"]
    assert document["preference"] == "sustained-speed"

    text = run("classify", folder, "--backend", "cpu")
    assert text.code == 0
    assert text.err == "skipped 2 files that are no photos\n"
    assert "2 photos in " in text.out


def test_labels_from_a_file(run: Run, photo: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"thing [red]{n}\n" for n in range(10)))
    outcome = run("classify", photo, "--labels", labels, "--backend", "cpu")
    assert outcome.code == 0
    assert "thing [red]" in outcome.out


def test_labels_cannot_control_the_terminal(run: Run, photo: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"\x1b[2Jname{n}\n" for n in range(10)))
    outcome = run("classify", photo, "--labels", labels, "--backend", "cpu")
    assert "name" in outcome.out
    assert "\x1b[2J" not in outcome.out


def test_top_beyond_the_classes_shows_all(run: Run, photo: Path) -> None:
    (result,) = run("classify", photo, "--top", 1000, "--backend", "cpu", "--json").json["photos"]
    assert len(result["top"]) == 10
    # Each class is calibrated by itself, so the sum is about 1.
    assert sum(guess["score"] for guess in result["top"]) == pytest.approx(1, abs=0.1)


def test_mean_and_std_reach_the_model(run: Run, photo: Path) -> None:
    args = ("classify", photo, "--backend", "cpu", "--json")
    plain = run(*args).json["photos"]
    assert run(*args, "--mean", 127.5, "--std", 127.5).json["photos"] == plain
    assert run(*args, "--mean", 0, "--std", 255).json["photos"] != plain


def test_egyptian_cat(run: Run, backend: str) -> None:
    outcome = run(
        "classify",
        shared("models/images/cat.bmp"),
        *("--model", shared("models/tflite/mobilenet_v1_1.0_224.tflite")),
        *("--labels", shared("models/labels/labels_mobilenet_quant_v1_224.txt")),
        *("--backend", backend),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[2].startswith("1  Egyptian cat ")
    assert f"backend {backend}" in outcome.out


def test_egyptian_cat_quantised(run: Run, backend: str) -> None:
    """Inputs and outputs are uint8; the scores are LiteRT's, in 256ths."""
    args = (
        *("classify", shared("models/images/cat.bmp")),
        *("--model", shared("models/tflite/mobilenet_v1_1.0_224_quant.tflite")),
        *("--labels", shared("models/labels/labels_mobilenet_quant_v1_224.txt")),
        *("--backend", backend, "--json"),
    )
    (photo,) = run(*args, "--top", 3).json["photos"]
    assert photo["scores"] == "probabilities"
    found = [(guess["label"], guess["score"] * 256) for guess in photo["top"]]
    assert found == [("Egyptian cat", 211), ("tiger cat", 29), ("tabby", 8)]
    # The input's scale is 1/128 and its zero point 128: this mean and std give the same bytes.
    (same,) = run(*args, "--top", 3, "--mean", 128, "--std", 128).json["photos"]
    assert same == photo


def test_signed_bytes(run: Run, backend: str) -> None:
    outcome = run(
        "classify",
        shared("models/labelled/cifar10/automobile_0000.png"),
        *("--model", shared("models/tflite/cifar10_resnet8_int8.tflite")),
        *("--labels", shared("models/labels/cifar10.txt")),
        *("--backend", backend),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[1].split() == ["#", "class", "probability"]
    assert outcome.out.splitlines()[2].startswith("1  automobile ")


@pytest.mark.parametrize("preference", ["fast-single-answer", "sustained-speed"])
def test_model_of_batch_two_without_softmax(run: Run, tmp_path: Path, preference: str) -> None:
    """Three photos run through a model that takes two at once and returns their pixels."""
    file = tmp_path / "pixels.tflite"
    shape = np.array([2, 4], np.int32)
    file.write_bytes(single_op("RESHAPE", [float32(2, 2, 2, 1), shape], [float32(2, 4)]))
    photos = []
    for brightest in range(3):
        pixels = np.full(4, 50, np.uint8)
        pixels[brightest] = 100
        photos.append(tmp_path / f"{brightest}.png")
        Image.fromarray(pixels.reshape(2, 2)).save(photos[-1])
    options = ("--mean", 0, "--std", 1, "--top", 2, "--backend", "cpu", "--preference", preference)
    results = run("classify", *photos, "--model", file, *options, "--json").json["photos"]
    assert [r["photo"] for r in results] == [str(p) for p in photos]
    assert {r["scores"] for r in results} == {"raw"}
    for brightest, result in enumerate(results):
        best, second = result["top"]
        assert (best["index"], best["label"], best["score"]) == (brightest, f"class {brightest}", 100)
        assert second["score"] == 50
    outcome = run("classify", photos[0], "--model", file, *options)
    assert outcome.out.splitlines()[1].split() == ["#", "class", "score"]
    assert outcome.out.splitlines()[2].split() == ["1", "class", "0", "100"]


def test_batch_gives_the_same_answers(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for number in range(3):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(tmp_path / f"{number}.png")
    alone, together = (
        run("classify", tmp_path, "--backend", "cpu", *options, "--json").json["photos"]
        for options in ((), ("--batch", 2))
    )
    assert [r["photo"] for r in together] == [r["photo"] for r in alone]
    for one, other in zip(alone, together, strict=True):
        assert [g["index"] for g in one["top"]] == [g["index"] for g in other["top"]]
        assert [g["score"] for g in one["top"]] == pytest.approx([g["score"] for g in other["top"]], rel=1e-4)


def test_batch_is_positive(run: Run, photo: Path) -> None:
    assert run("classify", photo, "--batch", 0).code == 2
