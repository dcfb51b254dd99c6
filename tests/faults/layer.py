"""The Vulkan layer of layer.c: how tests build it, and the environment of processes that load it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.resources import ENVIRONMENT

NAME = "VK_LAYER_GPUNN_faults"
COMPILERS = ("cc", "gcc", "clang", "tcc")
OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST, MEMORY_MAP_FAILED = -1, -2, -4, -5  # VkResult

Environment = Callable[..., dict[str, str]]  # environment() of a library that is built


def built(folder: Path) -> Path:
    """Compile the layer into a folder, and return the library beside its manifest.

    Without a C compiler the test is skipped, or fails if GPUNN_REQUIRE_GPU=1 requires its GPU.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None or not sys.platform.startswith("linux"):
        reason = "there is no C compiler" if sys.platform.startswith("linux") else "made for Linux"
        if os.environ.get("GPUNN_REQUIRE_GPU") == "1":
            pytest.fail(f"GPUNN_REQUIRE_GPU=1, but {reason}")
        pytest.skip(f"the layer that injects faults cannot be built: {reason}")
    library = folder / "libfaults.so"
    source = Path(__file__).with_name("layer.c")
    options = ("-std=c99", "-Wall", "-shared", "-fPIC", "-nostdlib")
    subprocess.run([compiler, *options, "-o", library, source], check=True, timeout=60)
    layer = {
        "name": NAME,
        "type": "GLOBAL",
        "library_path": str(library),
        "api_version": "1.3.0",
        "implementation_version": "1",
        "description": "makes calls of the driver fail",
    }
    manifest = library.with_name("faults.json")
    manifest.write_text(json.dumps({"file_format_version": "1.1.2", "layer": layer}))
    return library


def environment(library: Path, fault: str | None = None) -> dict[str, str]:
    """Return the environment of a process that loads the layer; `fault`: see GPUNN_FAULT in layer.c."""
    loads = {
        "VK_LAYER_PATH": str(library.parent),
        "VK_INSTANCE_LAYERS": NAME,
        "GPUNN_FAULTS_LAYER": str(library),
    }
    return ENVIRONMENT | loads | ({} if fault is None else {"GPUNN_FAULT": fault})
