"""The name of the machine, and the versions of the installed packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from gpunn.wording import counted


def describe_machine() -> str:
    """Describe the processor, the number of its cores, and the system."""
    return f"{_processor()}, {counted(os.cpu_count() or 1, 'core')}, {platform.system()} {platform.release()}"


def _processor() -> str:
    """Return the processor's name as the system gives it."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python, the system and these packages, as far as they are installed."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
