"""An installed package is complete: shaders, model, command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.resources import ROOT

BIN = "Scripts" if os.name == "nt" else "bin"


def command(*args: object, cwd: Path) -> str:
    """Run a command outside the repository, so that it can find only the installed package."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(a) for a in args], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the source distribution."""
    pytest.importorskip("build", reason="build is not installed (extra: dev)")
    pytest.importorskip("hatchling", reason="hatchling is not installed (extra: dev)")
    folder = tmp_path_factory.mktemp("dist")
    command(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a virtual environment with gpunn from the wheel and the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv = folder / "venv"
    command(sys.executable, "-m", "venv", "--without-pip", venv, cwd=folder)
    python = venv / BIN / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    command(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    Path(command(python, "-c", asked, cwd=folder).strip(), "dependencies.pth").write_text(
        "".join(f"{sysconfig.get_path(kind)}\n" for kind in ("purelib", "platlib"))
    )
    return venv


def test_wheel_contains_shaders_model_and_templates(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shaders = {p.relative_to(ROOT / "shaders").as_posix() for p in (ROOT / "shaders").rglob("*.wgsl")}
    assert shaders
    assert {f"gpunn/shaders/{name}" for name in shaders} <= names
    assets = (f"report/assets/{name}" for name in ("report.html", "parts.html", "report.css", "report.js"))
    data = (
        "data/cifar10_mobilenet.tflite",
        "data/cifar10_mobilenet_int8.tflite",
        "data/cifar10_mobilenet.md",
        "py.typed",
        *assets,
    )
    assert {f"gpunn/{name}" for name in data} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gpunn"}
    assert any(name.endswith("/LICENSE") for name in names)


def test_command_works_where_the_wheel_is_installed(venv: Path, tmp_path: Path) -> None:
    where = command(venv / BIN / "python", "-c", "import gpunn; print(gpunn.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(venv)
    assert "numpy" in command(venv / BIN / "gpunn", "devices", cwd=tmp_path)
    assert classified(venv, tmp_path, "cpu") == "cpu"


def test_installed_shaders_run_on_the_gpu(venv: Path, tmp_path: Path, gpu: str) -> None:
    assert classified(venv, tmp_path, "webgpu") == "webgpu"


def classified(venv: Path, folder: Path, backend: str) -> str:
    """Classify a photo with the installed command; return the backend that it reports."""
    photo = folder / "photo.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(photo)
    text = command(venv / BIN / "gpunn", "classify", photo, "--backend", backend, "--json", cwd=folder)
    document = json.loads(text)
    assert len(document["photos"][0]["top"]) == 5
    return str(document["backend"])
