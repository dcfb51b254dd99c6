"""Packages (.mlpackage): folders with a manifest, which names the .mlmodel file in them."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gpunn
from gpunn.cli import app
from tests.importers.coreml.builder import layer, model

FILE = "com.apple.CoreML/model.mlmodel"
ROOT_ID, OTHER_ID = "5A9F4C7E", "11D0C2B4"


def contents() -> bytes:
    made = model((3,), exact=True)
    layer(made, "sin")
    return made.SerializeToString()


def manifest(path: Any = FILE) -> dict[str, Any]:
    """A manifest, as coremltools writes it."""
    return {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": {
            OTHER_ID: {"author": "com.apple.CoreML", "name": "weights", "path": "com.apple.CoreML/weights"},
            ROOT_ID: {"author": "com.apple.CoreML", "name": "model.mlmodel", "path": path},
        },
        "rootModelIdentifier": ROOT_ID,
    }


def package(folder: Path, stated: Any = None, data: bytes | None = None) -> Path:
    """Write a package into a folder, and return it."""
    file = folder / "Data" / FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(contents() if data is None else data)
    text = stated if isinstance(stated, bytes) else json.dumps(stated or manifest()).encode()
    (folder / "Manifest.json").write_bytes(text)
    return folder


@pytest.mark.parametrize("name", ["net.mlpackage", "NET.MLPACKAGE", "renamed"])
def test_a_package_is_read(name: str, tmp_path: Path) -> None:
    loaded = gpunn.load(package(tmp_path / name))
    assert loaded.name == name
    with loaded.compile("cpu") as compiled:
        assert compiled(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    assert gpunn.load(str(tmp_path / name / "Data" / FILE)).name == "model.mlmodel"


def test_commands_take_a_package(gpu: str, tmp_path: Path) -> None:
    path = str(package(tmp_path / "net.mlpackage"))
    shown = CliRunner().invoke(app, ["inspect", path, "--backend", "cpu"])
    assert shown.exit_code == 0 and "net.mlpackage" in shown.output
    compared = CliRunner().invoke(app, ["compare", path, "--other", path, "--backends", f"cpu,{gpu}"])
    assert compared.exit_code == 0, compared.output


BROKEN: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "Manifest.json is no JSON"),
    "no text": (b"\xff\xfe{}", "Manifest.json is no JSON"),
    "deep": (b"[" * 100_000, "Manifest.json is no JSON"),
    "long": (b" " * ((1 << 20) + 1), "Manifest.json has more than 1048576 bytes"),
    "list": ([1, 2], "names no root model"),
    "no root": ({"itemInfoEntries": {}}, "names no root model"),
    "no entry": ({"itemInfoEntries": {}, "rootModelIdentifier": ROOT_ID}, "names no root model"),
    "root of a strange type": ({"itemInfoEntries": {}, "rootModelIdentifier": {}}, "names no root model"),
    "number": (manifest(3), "names no root model"),
    "empty": (manifest(""), "names no root model"),
    "null": (manifest("a\0b"), "names no root model"),
    "missing": (manifest("com.apple.CoreML/other"), "names 'Data/com.apple.CoreML/other', which is no file"),
    "folder": (manifest("com.apple.CoreML"), "names 'Data/com.apple.CoreML', which is no file"),
    "upwards": (manifest(f"../../{FILE}"), f"names '../../{FILE}', which is not in the package"),
    "manifest itself": (manifest("../Manifest.json"), "which is not in the package"),
    "absolute": (manifest(str(Path(__file__).resolve())), "which is not in the package"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_manifests_that_contradict_themselves(name: str, tmp_path: Path) -> None:
    stated, message = BROKEN[name]
    (tmp_path / "com.apple.CoreML").mkdir()
    (tmp_path / FILE).write_bytes(contents())  # beside the package
    with pytest.raises(gpunn.FormatError, match=message) as caught:
        gpunn.load(package(tmp_path / "net.mlpackage", stated))
    assert str(caught.value).startswith("net.mlpackage: ")
    assert len(str(caught.value)) < 1000


def test_a_link_out_of_the_package_is_not_followed(tmp_path: Path) -> None:
    folder = package(tmp_path / "net.mlpackage")
    (tmp_path / "secret").write_bytes(contents())
    file = folder / "Data" / FILE
    file.unlink()
    try:
        os.symlink(tmp_path / "secret", file)
    except OSError:
        pytest.skip("the system makes no links here")
    with pytest.raises(gpunn.FormatError, match="which is not in the package"):
        gpunn.load(folder)


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "net.mlpackage").mkdir()
    with pytest.raises(gpunn.FormatError, match=r"net\.mlpackage: has no Manifest\.json"):
        gpunn.load(tmp_path / "net.mlpackage")


def _named(folder: Path) -> Path:
    made = folder / "net.mlmodelc"
    made.mkdir()
    return made


def _with_its_file(folder: Path) -> Path:
    (folder / "coremldata.bin").write_bytes(b"\0")
    return folder


@pytest.mark.parametrize("make", [_named, _with_its_file])
def test_compiled_models_are_refused_by_name(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(gpunn.UnsupportedError, match=r"is a compiled model \(.mlmodelc\), which only Apple"):
        gpunn.load(make(tmp_path))


def test_an_ml_program_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    program = b"\x08\x07\x12\x00\xb2\x1f\x00"  # version 7, an empty description, field 502
    folder = package(tmp_path / "net.mlpackage", data=program)
    with pytest.raises(gpunn.UnsupportedError, match=r"of the kind mlProgram.*convert_to='neuralnetwork'"):
        gpunn.load(folder)


def test_a_pickled_model_of_a_package_is_its_file(tmp_path: Path) -> None:
    folder = package(tmp_path / "net.mlpackage")
    stored = pickle.dumps(gpunn.load(folder))
    (folder / "Manifest.json").unlink()
    again = pickle.loads(stored)
    assert (again.name, [o.op for o in again.operations]) == ("net.mlpackage", ["sin"])
