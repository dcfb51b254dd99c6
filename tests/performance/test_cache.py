"""Capabilities are measured once, even if the file is damaged or cannot be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpunn.cache import CacheFile, Key
from gpunn.errors import DeviceError
from gpunn.performance import Capabilities, PerformanceInfo, cache, remembered

KEY = Key("an adapter", "its driver", "Vulkan")


def of(time: float) -> Capabilities:
    return Capabilities(PerformanceInfo(time, 0.5), PerformanceInfo(time / 2, None, "no counter"))


class Measurement:
    """A measurement whose times are 1, 2, 3 ..."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> Capabilities:
        self.count += 1
        return of(float(self.count))


@pytest.fixture
def measure() -> Measurement:
    return Measurement()


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that clears the cache of this process."""
    return lambda: monkeypatch.setattr(cache, "_known", {})


def test_measured_once_in_a_process_and_once_on_a_machine(
    measure: Measurement, new_process: Callable[[], None], tmp_path: Path
) -> None:
    folder = tmp_path / "not" / "there yet"
    first = remembered(KEY, measure, folder)
    assert remembered(KEY, measure, folder) is first
    new_process()
    assert remembered(KEY, measure, folder) == first == of(1)
    assert [file.name.partition("-")[0] for file in folder.iterdir()] == ["performance"]


@pytest.mark.parametrize(
    "other",
    [
        {"adapter": "another"},
        {"driver": "its next"},
        {"api": "Metal"},
        {"version": "0.0.1"},
        {"wgpu": "0.0.1"},
        {"machine": "abacus"},
        {"processors": 100},
    ],
    ids=str,
)
def test_measured_again_under_other_circumstances(
    measure: Measurement, other: dict[str, Any], tmp_path: Path
) -> None:
    assert remembered(KEY, measure, tmp_path) == of(1)
    assert remembered(replace(KEY, **other), measure, tmp_path) == of(2)


def change(file: Path, *keys: str, value: Any) -> None:
    """Set a member of a document, given its path."""
    document = inner = json.loads(file.read_text())
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_text(""),
        lambda file: file.write_text("[1, 2"),
        lambda file: file.write_text("[" * 60_000),
        lambda file: file.write_text("[]"),
        lambda file: file.write_text("3"),
        lambda file: file.write_bytes(b"\xff\xfe\x00"),
        lambda file: file.write_text(" " * 70_000 + file.read_text()),
        lambda file: change(file, "key", "adapter", value="another"),
        lambda file: change(file, "float32", value=None),
        lambda file: change(file, "float32", value={}),
        lambda file: change(file, "float32", "exec_time", value=-1.0),
        lambda file: change(file, "float32", "exec_time", value=float("nan")),
        lambda file: change(file, "float32", "exec_time", value=float("inf")),
        lambda file: change(file, "quantized8", "exec_time", value="1.0"),
        lambda file: change(file, "quantized8", "power_usage", value=0.0),
    ],
)
def test_a_damaged_file_is_ignored_and_replaced(
    measure: Measurement,
    new_process: Callable[[], None],
    damage: Callable[[Path], object],
    tmp_path: Path,
) -> None:
    remembered(KEY, measure, tmp_path)
    (file,) = tmp_path.iterdir()
    damage(file)
    new_process()
    assert remembered(KEY, measure, tmp_path) == of(2)
    assert list(tmp_path.iterdir()) == [file]
    new_process()
    assert remembered(KEY, measure, tmp_path) == of(2)


def test_a_folder_that_cannot_be_written_is_no_error(
    measure: Measurement, new_process: Callable[[], None], tmp_path: Path
) -> None:
    folder = tmp_path / "a file"
    folder.write_text("")
    assert remembered(KEY, measure, folder) == of(1)
    new_process()
    assert remembered(KEY, measure, folder) == of(2)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_that_cannot_be_replaced_leaves_no_other_file(measure: Measurement, tmp_path: Path) -> None:
    CacheFile(tmp_path, "performance", KEY, 1).path.mkdir()
    assert remembered(KEY, measure, tmp_path) == of(1)
    assert [path.is_dir() for path in tmp_path.iterdir()] == [True]


def test_failures_are_not_cached(measure: Measurement, tmp_path: Path) -> None:
    def fail() -> Capabilities:
        raise DeviceError("lost")

    with pytest.raises(DeviceError):
        remembered(KEY, fail, tmp_path)
    assert not list(tmp_path.iterdir())
    assert remembered(KEY, measure, tmp_path) == of(1)
