"""The table of formats: a format made up here is read like those that gpunn brings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpunn import importers
from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.importers.common.answers import PREVIOUS, Step, as_steps
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.format import Format
from gpunn.importers.common.names import Names
from gpunn.limits import Limits
from gpunn.model import load
from gpunn.types import float32
from tests.tflite_builder import single_op

OPS = {"R": "relu", "N": "neg"}
RELU = single_op("RELU", [float32(1, 4)], [float32(1, 4)])
PHOTO = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


def read_letters(data: bytes, name: str, limits: Limits, repeat: int = 1) -> Graph:
    """Return the graph of a file that has a letter for each op, after the word OPS."""
    graph = Graph(name)
    x = graph.input("x", float32(1, 4))
    letters = data.decode("ascii").removeprefix("OPS ").strip() * repeat
    if not set(letters) <= set(OPS):
        raise ModelError(f"{name}: only {', '.join(OPS)} are ops")
    steps = [Step(OPS[letter], (PREVIOUS if at else x,)) for at, letter in enumerate(letters)]
    outputs, _ = Builder(graph, Names()).add(as_steps(steps), f"{name}: letters", ["y"])
    graph.output(*outputs)
    return graph


LETTERS = Format(
    name="Letters",
    suffixes=(".ops", ".letters"),
    recognise=lambda data: data.startswith(b"OPS "),
    read=read_letters,
    min_bytes=4,
    mark="the word OPS at the start",
    found=lambda data: repr(data[:3]),
    options=("repeat",),
)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "FORMATS", (*importers.FORMATS, LETTERS))


def test_a_file_of_a_made_up_format_runs(letters: None, backend: str, tmp_path: Path) -> None:
    path = tmp_path / "two.ops"
    path.write_bytes(b"OPS RN\n")
    model = load(path)
    x = np.array([[-1, 0, 2, 3]], np.float32)
    with model.compile(backend) as compiled:
        assert np.asarray(compiled(x)).tolist() == [[0, 0, -2, -3]]
    assert [operation.origin for operation in model.operations] == ["two.ops: letters"] * 2


def test_the_content_decides_not_the_name(letters: None, tmp_path: Path) -> None:
    path = tmp_path / "relu.ops"
    path.write_bytes(RELU)
    assert load(path).operations[0].origin == "relu.ops: operation 0, RELU"


def test_an_option_goes_to_the_format_that_has_it(letters: None) -> None:
    assert len(importers.read(b"OPS RN", {"repeat": 3, "custom": None}).operations) == 6
    with pytest.raises(FormatError, match="model: Letters files are read without the option 'custom'"):
        load(b"OPS R", custom={})
    with pytest.raises(FormatError, match="TensorFlow Lite files are read without the option 'repeat'"):
        importers.read(RELU, {"repeat": 2})


def test_what_the_reader_raises_is_raised(letters: None) -> None:
    with pytest.raises(ModelError, match="model: only R, N are ops"):
        load(b"OPS RX")


def test_an_unknown_file_is_told_how_each_format_is_recognised(letters: None) -> None:
    tflite = ".tflite files have 'TFL3' at byte 4"
    coreml = ".mlmodel files have a version and a description at byte 0"
    ops = ".ops and .letters files have the word OPS at the start"
    messages = {
        b"ab": "model: has only 2 bytes, which is no model",
        b"a text about something else": f"model: not a model: {tflite}; {coreml}; {ops}, "
        "this looks like text",
        PHOTO: f"model: not a model: {tflite}, this one has b'\\r\\n\\x1a\\n'; "
        f"{coreml}, this one has b'\\x89PNG'; {ops}, this one has b'\\x89PN'",
    }
    for data, message in messages.items():
        with pytest.raises(FormatError) as caught:
            load(data)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "found"),
    [(PHOTO, ", this one has b'\\r\\n\\x1a\\n'"), (b"nothing but a text", ", this looks like text")],
)
def test_an_unknown_file_beside_one_format(data: bytes, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "FORMATS", importers.FORMATS[:1])
    with pytest.raises(FormatError) as caught:
        load(data)
    assert str(caught.value) == f"model: not a model: .tflite files have 'TFL3' at byte 4{found}"
