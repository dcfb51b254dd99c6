"""The conditions of a measurement."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import gpunn
from gpunn.machine import describe_machine, versions

ROOT = Path(gpunn.__file__).resolve().parent.parent
PACKAGES = ("numpy", "wgpu", "ai-edge-litert", "onnxruntime", "onnxruntime-webgpu", "ncnn", "torch")


@dataclass(frozen=True, slots=True)
class Conditions:
    """A machine at a time; peers report their adapters.

    load: the mean number of processes that wanted to run in the last minute; None if the system does not
    tell. On a quiet machine it is about 0.
    """

    machine: str
    versions: Mapping[str, str]
    time: str
    load: float | None

    @classmethod
    def now(cls) -> Conditions:
        """Describe this machine now."""
        ours = {"gpunn": f"{gpunn.__version__} ({_revision()})"}
        return cls(
            machine=describe_machine(),
            versions=versions(()) | ours | versions(PACKAGES),
            time=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            load=load(),
        )

    def described(self) -> dict[str, str]:
        """Return texts by title; the machine's text includes the system."""
        packages = (f"{name} {number}" for name, number in self.versions.items() if name != "system")
        return {
            "machine": self.machine,
            "versions": ", ".join(packages),
            "time": self.time,
            "load before": load_text(self.load),
        }


def load() -> float | None:
    """Return the load of the machine, see Conditions."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def load_text(value: float | None) -> str:
    """Format a load."""
    return "unknown" if value is None else f"{value:.1f}"


def _revision() -> str:
    """Return the commit that is checked out, and whether the package or its shaders differ from it."""
    if not (ROOT / ".git").exists():
        return "no commit"  # installed; a repository around it is another one
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", "gpunn", "shaders")
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return f"{commit} with changes" if changed else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
