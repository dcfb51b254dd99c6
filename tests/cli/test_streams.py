"""Standard output that closes or is full, names that are not UTF-8, pipes and files that cannot be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from gpunn import vision
from tests.cli.conftest import Run
from tests.resources import ENVIRONMENT

MODEL = vision.default_model()
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs a file system of bytes, and /dev/full")
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
GPUNN = [sys.executable, "-m", "gpunn"]


@posix
@pytest.mark.parametrize("options", [(), ("--json",), ("--backend", "cpu", "--plan")])
def test_nobody_reads_standard_output(options: tuple[str, ...]) -> None:
    """The code is that of a program which SIGPIPE ends: 1 would say of gpunn compare that results differ."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*GPUNN, "inspect", str(MODEL), *options], stdout=writer, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@linux
def test_standard_output_is_full() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*GPUNN, "inspect", str(MODEL)], stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
    assert (done.returncode, done.stderr) == (2, "gpunn: No space left on device\n")


@posix
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    command = f'"$0" -m gpunn inspect "$1" --backend cpu {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(MODEL)], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stdout + done.stderr


@linux
def test_names_that_are_not_utf8(run: Run, photo: Path, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    odd = Path(os.fsdecode(folder + b"/caf\xe9.png"))
    odd.write_bytes(photo.read_bytes())
    (found,) = json.loads(run("classify", odd, "--json").out)["photos"]
    assert os.fsencode(found["photo"]) == os.fsencode(odd)
    assert run("classify", odd).out.startswith(f"{tmp_path}/caf\N{REPLACEMENT CHARACTER}.png\n")
    report = Path(os.fsdecode(folder + b"/r\xe9port.html"))
    outcome = run("compare", MODEL, odd, "--backends", "cpu", "--report", report)
    assert (outcome.code, outcome.err) == (0, "")
    assert "caf\N{REPLACEMENT CHARACTER}.png" in report.read_text(encoding="utf-8")


@linux
def test_a_plot_of_a_model_whose_name_is_not_utf8(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: demo)")
    model = Path(os.fsdecode(os.fsencode(tmp_path) + b"/mod\xe8le$1$.tflite"))
    model.write_bytes(MODEL.read_bytes())
    plot = tmp_path / "plot.svg"
    outcome = run("profile", model, "--backend", "cpu", "--runs", 2, "--plot", plot)
    assert (outcome.code, outcome.err) == (0, "")
    assert plot.stat().st_size > 1000


@posix
@pytest.mark.parametrize("place", ["photo", "model", "labels", "input", "onnx"])
def test_a_pipe_is_not_waited_for(run: Run, photo: Path, tmp_path: Path, place: str) -> None:
    path = tmp_path / ("pipe.npy" if place == "input" else "pipe")
    os.mkfifo(path)
    command = {
        "photo": ("classify", path),
        "model": ("classify", photo, "--model", path),
        "labels": ("classify", photo, "--labels", path),
        "input": ("profile", MODEL, path),
        "onnx": ("bench", MODEL, "--onnx", path),
    }[place]
    run(*command).must_fail_with(str(path), "is not a")


def test_files_that_cannot_be_read_are_not_called_no_photos(
    run: Run, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, text = tmp_path / "locked.png", tmp_path / "notes.txt"
    Image.new("RGB", (8, 8)).save(locked)
    text.write_text("no photo")
    opened = os.open

    def refuse(path: str | os.PathLike[str], *options: int) -> int:
        if Path(path) == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *options)

    monkeypatch.setattr(os, "open", refuse)
    said = f"1 file that is no photo, and 1 file that cannot be read ({locked}: Permission denied)"
    assert run("classify", tmp_path).err == f"skipped {said}\n"
    assert run("compare", MODEL, tmp_path, "--backends", "cpu").err == f"skipped {said}\n"
    found = run("compare", MODEL, tmp_path, "--backends", "cpu", "--json").json["inputs"]
    assert found["skipped"] == [str(text)]
    assert found["unreadable"] == [f"{locked}: Permission denied"]
    skipped = run("classify", tmp_path, "--json").json["skipped"]
    assert skipped[1] == {"file": str(locked), "reason": f"{locked}: Permission denied"}
    photo.unlink()
    run("classify", tmp_path).must_fail_with("no photo among 2 files", f"{locked}: Permission denied")
    run("classify", locked).must_fail_with(f"{locked}: Permission denied")


def test_a_folder_goes_on_after_a_picture_with_too_many_pixels(
    run: Run, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("L", (100, 100)).save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5000)
    document = run("classify", tmp_path, "--json").json
    assert [Path(found["photo"]).name for found in document["photos"]] == [photo.name]
    assert "at most 5000 are read" in document["skipped"][0]["reason"]


def test_a_video_is_told_from_a_photo(run: Run, tmp_path: Path) -> None:
    video = tmp_path / "film.mp4"
    video.write_bytes(b"\0\0\0\x18ftypmp42")
    run("classify", video).must_fail_with("film.mp4: is a video", "demos/stream.py")


@pytest.mark.parametrize("command", ["inspect", "profile"])
def test_a_number_without_a_device(run: Run, gpu: str, command: str) -> None:
    """It is no part of a version in the name of another device."""
    for number in ("5", "99"):
        run(command, MODEL, "--device", number).must_fail_with(f"there is no GPU adapter '{number}'")
