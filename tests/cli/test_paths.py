"""The argument - is standard input, and patterns are expanded."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gpunn import vision
from gpunn.cli import paths
from tests.cli.conftest import Run

Stdin = Callable[[bytes], None]
MODEL = vision.default_model()


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stdin]:
    """Return a function that sets the bytes of standard input; check that no copy of them is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    def set_bytes(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    yield set_bytes
    assert not list(folder.iterdir())


def arrays(save: Callable[..., None] = np.save) -> bytes:
    """Return an input of the model as the bytes of a file."""
    data = io.BytesIO()
    save(data, np.zeros((1, 32, 32, 3), np.float32))
    return data.getvalue()


def test_a_photo(run: Run, photo: Path, stdin: Stdin) -> None:
    wanted = run("classify", photo, "--json").json["photos"][0]
    stdin(photo.read_bytes())
    (found,) = run("classify", "-", "--json").json["photos"]
    assert found == wanted | {"photo": "-"}
    stdin(photo.read_bytes())
    assert run("classify", "-").out.startswith("-\n")


@pytest.mark.parametrize(
    "command",
    [("inspect", "-"), ("profile", "-", "--runs", 2), ("compare", "-", "--random", 1, "--backends", "cpu")],
)
def test_a_model(run: Run, stdin: Stdin, command: tuple[object, ...]) -> None:
    stdin(MODEL.read_bytes())
    options = () if command[0] == "compare" else ("--backend", "cpu")
    assert run(*command, *options, "--json").json["model"] == "stdin"


def test_the_model_of_a_classifier(run: Run, photo: Path, stdin: Stdin) -> None:
    stdin(MODEL.read_bytes())
    assert run("classify", photo, "--model", "-", "--json").json["model"] == "stdin"


def test_the_model_of_a_benchmark(run: Run, stdin: Stdin) -> None:
    stdin(MODEL.read_bytes())
    options = ("--backends", "cpu", "--rounds", 1, "--turn", 0, "--preferences", "low-power")
    assert run("bench", "-", *options, "--json").json["model"] == "stdin"


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_arrays(run: Run, stdin: Stdin, save: Callable[..., None]) -> None:
    stdin(arrays(save))
    assert run("profile", MODEL, "-", "--backend", "cpu", "--runs", 2, "--json").json["inputs"] == "given"
    stdin(arrays(save))
    found = run("compare", MODEL, "-", "--backends", "cpu", "--json").json["inputs"]
    assert (found["samples"], found["description"][:15]) == (1, "arrays of stdin")


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "standard input is empty"), (b"some text", "gpunn: standard input: not a picture in a format")],
)
def test_what_is_no_photo(run: Run, stdin: Stdin, data: bytes, words: str) -> None:
    stdin(data)
    run("classify", "-").must_fail_with(words)


def test_standard_input_is_read_once(run: Run, photo: Path, stdin: Stdin) -> None:
    stdin(photo.read_bytes())
    run("classify", "-", "-").must_fail_with("standard input can be read once")
    stdin(photo.read_bytes())
    run("classify", "-", "--model", "-").must_fail_with("standard input can be read once")


def test_a_closed_and_a_long_standard_input(
    run: Run, photo: Path, stdin: Stdin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    run("classify", "-").must_fail_with("standard input is closed")
    stdin(photo.read_bytes())
    monkeypatch.setattr(paths, "MAX_FILE_BYTES", 100)
    run("classify", "-").must_fail_with("standard input has more than 100 bytes")
