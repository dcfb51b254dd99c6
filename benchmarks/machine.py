"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gpunn

LIBRARIES = ("numpy", "wgpu", "ncnn", "ai-edge-litert")


def describe() -> dict[str, str]:
    """The machine, its load, and the versions; adapters are the peers' to report."""
    versions = {"Python": platform.python_version(), "gpunn": gpunn.__version__}
    versions |= {name: _version(name) for name in LIBRARIES}
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "time": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "load before": load(),
    }


def load() -> str:
    """How many processes wanted to run over the last minute; a quiet machine says about 0."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    """The processor's name as the system tells it."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
