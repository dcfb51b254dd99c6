"""Completion of command lines by a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpunn
from gpunn.backends.adapter import DeviceInfo
from gpunn.cli.complete import device_names, listed
from tests.resources import ENVIRONMENT

posix = pytest.mark.skipif(sys.platform == "win32", reason="bash and its paths are those of other systems")


def adapter(name: str, backend: str = "webgpu") -> DeviceInfo:
    """Make a device of that name."""
    return DeviceInfo(name, backend, "DiscreteGPU", "", "Vulkan", {}, ())


@pytest.mark.parametrize(
    ("incomplete", "found"),
    [
        ("", ["0", "GeForce", "1", "Quadro"]),
        ("ge", ["GeForce"]),
        ("1", ["1"]),
        ("nvidia", []),  # both are
    ],
)
def test_devices(monkeypatch: pytest.MonkeyPatch, incomplete: str, found: list[str]) -> None:
    infos = adapter("NVIDIA GeForce 4090 (rev 2)"), adapter("NVIDIA Quadro"), adapter("cpu (numpy)", "cpu")
    monkeypatch.setattr(gpunn, "devices", lambda: infos)
    names = device_names(incomplete)
    assert [word for word, _ in names] == found
    assert {name for _, name in names} <= {info.name for info in infos}


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise gpunn.DeviceError("no driver")

    monkeypatch.setattr(gpunn, "devices", fail)
    assert device_names("") == []


def test_names_between_commas() -> None:
    complete = listed(("webgpu", "cpu", "cpu64"))
    assert complete("") == ["webgpu", "cpu", "cpu64"]
    assert complete("c") == ["cpu", "cpu64"]
    assert complete("webgpu,") == ["webgpu,cpu", "webgpu,cpu64"]
    assert complete("cpu,cpu6") == ["cpu,cpu64"]


@posix
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ins"], ["inspect"]),
        (["classify", "--backend", "w"], ["webgpu"]),
        (["classify", "--preference", "s"], ["sustained-speed"]),
        (["compare", "m.tflite", "--backends", "cpu,lit"], ["cpu,litert", "cpu,litert-ref"]),
        (["classify", "-", "--prefe"], ["--preference"]),
        (["inspect", "mod"], []),  # so that bash completes the file
    ],
)
def test_bash(tmp_path: Path, words: list[str], found: list[str]) -> None:
    """Bash evaluates what gpunn gives it, and asks gpunn."""
    command = tmp_path / "gpunn"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpunn "$@"\n')
    command.chmod(0o755)
    line = " ".join(f"'{word}'" for word in ["gpunn", *words])
    script = f"""
        eval "$(_GPUNN_COMPLETE=source_bash gpunn)"
        COMP_WORDS=({line}) COMP_CWORD={len(words)}
        _gpunn_completion gpunn
        printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p gpunn >&2
    """
    environment = ENVIRONMENT | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == found
    assert "complete -o default" in done.stderr  # files where gpunn knows nothing
