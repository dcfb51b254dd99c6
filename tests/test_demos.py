"""The demos run as their first lines describe."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.types import float32
from tests.importers.coreml import twins
from tests.resources import ENVIRONMENT, ROOT, shared
from tests.tflite_builder import single_op


def run(name: str, *args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "demos" / name, *map(str, args)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def demo(name: str, *args: object) -> str:
    done = run(name, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Write a folder with two photos and another file."""
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "notes.txt").write_text("no photo")
    for name, colour in (("a.png", "navy"), ("b.png", "olive")):
        Image.new("RGB", (40, 30), colour).save(folder / name)
    return folder


def test_classify_names_three_classes(tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(5).integers(0, 256, (40, 40, 3), np.uint8)).save(photo)
    *guesses, verdict, known, pixels, where = demo("classify.py", photo, "--backend", "cpu").splitlines()
    labels = gpunn.load(vision.default_model()).labels
    assert len(guesses) == 3
    assert verdict.startswith("nothing I know for sure (most like: ")
    assert known == f"cifar10_mobilenet.tflite knows 10 classes: {', '.join(labels)}"
    assert all(line.split()[1] in labels for line in guesses)
    assert pixels == "pixels as -1..1 (default; photo_input(mean=, std=) changes it)"
    assert where.startswith("on ")


def test_classify_knows_the_cat_of_scikit_image() -> None:
    pytest.importorskip("skimage", reason="scikit-image is not installed (extra: demo)")
    lines = demo("classify.py", "--backend", "cpu").splitlines()
    assert lines[0].endswith("cat")
    assert lines[3] == "cat 99%"


@pytest.mark.parametrize("path", sorted((ROOT / "demos").glob("*.py")), ids=lambda path: path.stem)
def test_demo_uses_the_public_interface(path: Path) -> None:
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    ours = [
        (node.module, alias.name) for node in imports for alias in node.names if "gpunn" in str(node.module)
    ]
    assert set(ours) <= {("gpunn", "vision")}


def test_compare_backends_shows_errors_and_answers(photos: Path) -> None:
    out = demo("compare_backends.py", photos, "--backends", "cpu")
    assert [line.split()[:2] for line in out.splitlines() if "100.0%" in line] == [["cpu", "cpu64"]]
    assert [line.split()[0] for line in out.splitlines() if ".png" in line] == ["a.png", "b.png"]
    assert any(line.startswith("pixels as -1..1") for line in out.splitlines())
    assert out.splitlines()[-1] == "every output is within its tolerance"


def test_bench_times_each_preference() -> None:
    rows = demo("bench.py", "--backends", "cpu", "--seconds", "0.01").splitlines()[1:]
    assert [row.split()[2] for row in rows] == [preference.name for preference in gpunn.Preference]
    for row in rows:
        rates = [float(cell.removesuffix("/s")) for cell in row.split() if cell.endswith("/s")]
        assert len(rates) == 2
        assert min(rates) > 0


def test_stream_counts_the_frames_of_a_folder_and_of_a_gif(photos: Path, tmp_path: Path) -> None:
    folder = demo("stream.py", photos, "--backend", "cpu").splitlines()
    assert [line.split()[:2] for line in folder[:2]] == [["frame", "1"], ["frame", "2"]]
    assert all("/s" in line for line in folder[:2])
    assert folder[-1] == "2 frames on cpu (numpy)"
    assert folder[-2].startswith("pixels as -1..1")
    assert folder[-3].startswith("cifar10_mobilenet.tflite knows 10 classes: airplane, ")
    colours = [Image.new("RGB", (20, 20), colour) for colour in ("red", "lime", "blue", "white")]
    colours[0].save(tmp_path / "colours.gif", save_all=True, append_images=colours[1:])
    some = demo("stream.py", tmp_path / "colours.gif", "--backend", "cpu", "--most", 3).splitlines()
    assert some[-1] == "3 frames on cpu (numpy)"


def test_stream_reads_a_video(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="PyAV is not installed (extra: demo)")
    with av.open(str(tmp_path / "video.mp4"), "w") as container:
        track = container.add_stream("mpeg4", rate=10)
        track.width, track.height, track.pix_fmt = 64, 48, "yuv420p"
        for number in range(5):
            picture = Image.new("RGB", (64, 48), (50 * number, 0, 0))
            container.mux(track.encode(av.VideoFrame.from_image(picture)))
        container.mux(track.encode())
    out = demo("stream.py", tmp_path / "video.mp4", "--backend", "cpu").splitlines()
    assert out[-1] == "5 frames on cpu (numpy)"
    (tmp_path / "text.mp4").write_text("no video")
    for source in (tmp_path / "text.mp4", "camera:nowhere"):
        done = run("stream.py", source, "--backend", "cpu")
        assert done.returncode == 1
        assert "no picture, video or camera that can be read" in done.stderr
        assert "Traceback" not in done.stderr


def test_segmentation_paints_the_classes_found(tmp_path: Path) -> None:
    weights = np.array([[0, 0, 0], [1, -1, -1], [-1, -1, 1]], np.float32).reshape(3, 1, 1, 3)
    bias = np.array([2, 0, 0], np.float32)  # a 1x1 convolution whose classes are: else, reddish, bluish
    shapes = [float32(1, 16, 32, 3)], [float32(1, 16, 32, 3)]
    options = {"stride_w": 1, "stride_h": 1, "padding": "SAME"}
    (tmp_path / "m.tflite").write_bytes(single_op("CONV_2D", [*shapes[0], weights, bias], shapes[1], options))
    (tmp_path / "labels.txt").write_text("else\nreddish\nbluish\n")
    photo = Image.new("RGB", (256, 128), "black")
    photo.paste((255, 0, 0), (0, 0, 64, 128))
    photo.paste((0, 0, 255), (128, 64, 256, 128))
    photo.save(tmp_path / "photo.png")
    files = [tmp_path / name for name in ("m.tflite", "photo.png", "labels.txt", "out.png")]
    out = demo("segmentation.py", *files[:2], "--labels", files[2], "--output", files[3], "--backend", "cpu")
    assert out.splitlines()[:3] == [" 50.0%  else", " 25.0%  reddish", " 25.0%  bluish"]
    before, after = (np.asarray(Image.open(files[index]), int) for index in (1, 3))
    changed = (before != after).any(-1)
    inside = np.s_[80:124, 4:60], np.s_[80:124, 140:250]  # away from edges, and from the legend at the top
    assert all(changed[part].all() for part in inside)
    assert not changed[80:, 72:120].any()
    assert len({tuple(after[part][0, 0]) for part in inside}) == 2
    assert changed[12:30, 72:80].any()  # the legend, outside of the painted areas


def test_segmentation_of_a_core_ml_model(tmp_path: Path) -> None:
    model, photo = tmp_path / "m.mlmodel", tmp_path / "photo.png"
    model.write_bytes(twins.mlmodel(classes=False))
    Image.new("RGB", (70, 60), "teal").save(photo)
    out = demo("segmentation.py", model, photo, "--output", tmp_path / "out.png", "--backend", "cpu")
    with gpunn.load(model).compile("cpu") as compiled:
        scores = compiled(np.uint8(vision.photo_input(compiled.model).values(Image.open(photo)))[None])
    assert out.splitlines()[0] == f"100.0%  class {scores[:, 0, 0].argmax()}"


def test_detection_draws_a_box_round_the_cat(tmp_path: Path) -> None:
    model = shared("models/tflite/coco_ssd_mobilenet_v1_1.0_quant.tflite")
    cat, labels = shared("models/images/cat.bmp"), shared("models/labels/coco_labelmap.txt")
    output = tmp_path / "out.png"
    out = demo("detection.py", model, cat, "--labels", labels, "--output", output, "--backend", "cpu")
    assert [line.split()[1] for line in out.splitlines()[:-1]] == ["cat"]
    before, after = (np.asarray(Image.open(path).convert("RGB"), int) for path in (cat, output))
    changed = (before != after).any(-1)
    assert 0.001 < changed.mean() < 0.1  # lines and a name, not the cat itself


@pytest.mark.sample(2)
@pytest.mark.parametrize("content", [None, "no photo and no model"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bench", []),
        ("classify", []),
        ("compare_backends", ["--backends", "cpu"]),
        ("detection", []),
        ("segmentation", []),
        ("stream", []),
    ],
)
def test_errors_are_one_line(tmp_path: Path, name: str, options: list[str], content: str | None) -> None:
    file = tmp_path / "given"
    if content is not None:
        file.write_text(content)
    done = run(f"{name}.py", file, *options)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "given" in done.stderr


@pytest.mark.parametrize("name", ["finetune", "quantize_cifar10"])
@pytest.mark.parametrize("content", [None, "no archive"])
def test_errors_of_archives_are_one_line(tmp_path: Path, name: str, content: str | None) -> None:
    file = tmp_path / "given"
    if content is not None:
        file.write_text(content)
    done = run(f"{name}.py", "--data", file)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert ("given: No such" if content is None else "given: no archive that tar can read") in done.stderr


def test_a_port_that_cannot_be_is_refused() -> None:
    done = run("web_app.py", "--port", 99999)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("--port is a number from 0 to 65535, got 99999")


def test_detection_refuses_a_classifier(photos: Path) -> None:
    done = run("detection.py", vision.default_model(), photos / "a.png", "--backend", "cpu")
    assert done.returncode == 1
    assert "is no detector" in done.stderr
    assert "Traceback" not in done.stderr


def test_quantize_writes_the_packaged_weights(tmp_path: Path) -> None:
    """Only scales of activations depend on the pictures; int8 weights and the others do not."""
    archive, output = tmp_path / "pictures.tar.gz", tmp_path / "int8.tflite"
    with tarfile.open(archive, "w:gz") as files:
        for name, colour in (
            ("train/cat/0000", "gold"),
            ("train/dog/0001", "teal"),
            ("test/cat/0000", "red"),
        ):
            data = io.BytesIO()
            Image.new("RGB", (32, 32), colour).save(data, "JPEG")
            entry = tarfile.TarInfo(f"{name}.jpg")
            entry.size = len(data.getvalue())
            files.addfile(entry, io.BytesIO(data.getvalue()))
    out = demo("quantize_cifar10.py", "--data", archive, "--every", 1, "--output", output)
    assert out.startswith("2 pictures gave the ranges")
    made, packaged = gpunn.load(output), gpunn.load(vision.default_model(quantised=True))
    assert made.labels == packaged.labels
    for one, other in zip(made.operations, packaged.operations, strict=True):
        assert one.op == other.op
        weights = [o.inputs[1].value for o in (one, other) if "conv" in o.op and o.inputs[1] is not None]
        assert not weights or np.array_equal(*weights)


def test_finetune_teaches_two_classes(tmp_path: Path) -> None:
    archive = tmp_path / "pictures.tar.gz"
    with tarfile.open(archive, "w:gz") as files:
        for label, colour in (("cat", "red"), ("dog", "blue")):
            stream = io.BytesIO()
            Image.new("RGB", (32, 32), colour).save(stream, "JPEG")
            for number in range(14):
                member = tarfile.TarInfo(f"test/{label}/{number:04}.jpg")
                member.size = stream.tell()
                files.addfile(member, io.BytesIO(stream.getvalue()))
    output = tmp_path / "new.tflite"
    arguments = ("--data", archive, "--photos", 4, "--asked", 10, "--output", output, "--backend", "cpu")
    lines = demo("finetune.py", *arguments).splitlines()
    assert [line.split(":")[0] for line in lines[:10]] == [f"epoch {k}" for k in range(1, 11)]
    assert lines[-2].split()[-1] == "100.0%"
    assert gpunn.load(output).labels == ("cat", "dog")
    done = run("finetune.py", "--data", archive, "--photos", 9)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("has 14 pictures test/cat/*.jpg, 209 are needed")
