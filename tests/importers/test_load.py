"""load(): what is no model says so in one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import FormatError, ModelError, ModelFileError
from gpunn.model import load
from gpunn.types import float32
from tests.tflite_builder import single_op

FILE = single_op("RELU", [float32(1, 4)], [float32(1, 4)])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_make_a_model(kind: type) -> None:
    model = load(kind(FILE))
    assert model.operations[0].origin == "model: operation 0, RELU"
    assert [str(o.type) for o in (*model.inputs, *model.outputs)] == ["float32[1, 4]"] * 2


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_makes_a_model_named_after_the_file(tmp_path: Path, kind: type) -> None:
    path = tmp_path / "some name.bin"
    path.write_bytes(FILE)
    model = load(kind(path))
    assert model.name == "some name.bin"
    assert model.operations[0].origin == "some name.bin: operation 0, RELU"


CONTENTS = {
    "empty": (b"", "is empty"),
    "short": (b"TFL3", "has only 4 bytes"),
    "text": (b"a text that has nothing to do with models\n", "looks like text"),
    "photo": (b"\x89PNG\r\n\x1a\n" + bytes(range(64)), "not a model"),
    "zeros": (bytes(4096), "not a model"),
    "identifier only": (b"\0\0\0\0TFL3" + bytes(16), "schema version 3"),
    "half": (FILE[: len(FILE) // 2], "corrupt or truncated|schema version"),
}


@pytest.mark.parametrize(("content", "reason"), CONTENTS.values(), ids=CONTENTS)
def test_what_is_no_model_says_so_in_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "thing.tflite"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=reason) as caught:
        load(path)
    assert str(caught.value).startswith("thing.tflite: ")
    assert "\n" not in str(caught.value)


def test_an_op_that_refuses_what_a_file_gives_it_is_an_error_of_the_file_and_of_the_graph() -> None:
    for operator, inputs, message in (
        ("ADD", [float32(2), float32(3)], "cannot be broadcast"),
        ("RANGE", [np.array(n, np.int32) for n in (0, 5, -1)], "do not lead from 0 to 5"),
        ("DILATE", [float32(2), np.array([0], np.int32), np.float32(0)], "steps should be at least 1"),
    ):
        for error in (FormatError, ModelError, ModelFileError):
            with pytest.raises(error, match=f"operation 0, {operator}.*{message}"):
                load(single_op(operator, inputs, [float32(1)]))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.tflite"
    for path, reason in (
        (missing, "no such file or directory"),
        (tmp_path, "is not a file"),
        ("", "the path of the model is empty"),
        ("a\0b", "null (byte|character)"),
        ("x" * 5000, "name too long"),
    ):
        with pytest.raises(FormatError, match=reason) as caught:
            load(path)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="is not a file"):
        load(tmp_path / "pipe")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.tflite"
    with path.open("wb") as stream:
        stream.truncate(1 << 32)
    with pytest.raises(FormatError, match="has 4294967296 bytes, a model at most"):
        load(path)


def test_weights_are_views_of_the_bytes() -> None:
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    file = single_op("FULLY_CONNECTED", [float32(2, 4), weights], [float32(2, 3)])
    constant = load(file).operations[0].inputs[1]
    assert constant is not None and constant.value is not None
    assert np.shares_memory(constant.value, np.frombuffer(file, np.uint8))
    assert not constant.value.flags.writeable
    np.testing.assert_array_equal(constant.value, weights)


def test_a_file_must_be_loaded_before() -> None:
    calls: tuple[Callable[[Any], Any], ...] = (
        gpunn.profile,
        gpunn.tune,
        lambda given: gpunn.update(given, []),
        gpunn.vision.classifier,
        gpunn.vision.score_output,
    )
    for call in calls:
        with pytest.raises(ModelError, match=r"expected a gpunn\.Model, as gpunn\.load\(\) returns it"):
            call("model.tflite")
