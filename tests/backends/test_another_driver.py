"""A part of the tests on SwiftShader, the software Vulkan of browsers: a driver other than the system's.

It has subgroups of four and binds ten buffers. NaN, subnormal numbers, quotients by constants, and accesses
beyond a buffer have other results than on lavapipe, as WGSL allows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resources import ROOT

LIBRARY = "libvk_swiftshader.so"
FOLDERS = (  # of Debian's and other packages of Chromium, and of Chrome
    "/usr/lib/chromium",
    "/usr/lib64/chromium-browser",
    "/usr/lib/chromium-browser",
    "/opt/google/chrome",
    "/opt/chromium.org/chromium",
)
SELECTED = (
    "ops/test_half.py",  # a call of each shader
    "ops/contraction/test_broadcast_tile.py::test_products",
    "ops/contraction/test_shared_integers.py::test_shared_rows",
    "ops/contraction/test_winograd.py::test_convolutions",
    "ops/elementwise/test_unary.py::test_nan_and_infinities",
    "ops/normalization/test_softmax.py::test_nan_and_infinities_fill_their_row",
    "ops/normalization/test_softmax.py::test_log_softmax_of_large_values_and_nan",
    "planning/test_join.py::test_single_rows_are_joined_if_fours_end_with_them",
    "backends/test_loop_kernels.py::test_elements_of_8_bits",
    "test_packaged_model.py::test_the_quantised_one_has_the_same_bits_on_both_backends",
)
SECONDS = 600  # on a busy machine; 30 on one that does nothing else


def library() -> Path:
    """Return the driver's library; skip the test where none is installed."""
    found = next((file for folder in FOLDERS if (file := Path(folder, LIBRARY)).exists()), None)
    if found is None:
        pytest.skip(f"no package of Chromium or Chrome has installed {LIBRARY}")
    return found


def test_a_part_of_the_tests(tmp_path: Path) -> None:
    driver = tmp_path / "icd.json"
    icd = {"library_path": str(library()), "api_version": "1.0.5"}
    driver.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}), encoding="utf-8")
    chosen = {"VK_DRIVER_FILES": str(driver), "VK_ICD_FILENAMES": str(driver), "GPUNN_REQUIRE_GPU": "1"}
    python = [sys.executable, "-c", "import gpunn; print(gpunn.devices()[0].name)"]
    run = {"env": {**os.environ, **chosen}, "cwd": ROOT, "capture_output": True, "text": True}
    name = subprocess.run(python, timeout=SECONDS, check=True, **run).stdout  # type: ignore[call-overload]
    if "SwiftShader" not in name:
        pytest.skip(f"the Vulkan loader does not take this driver: the adapter is {name.strip()}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-k", "not cpu"]
    command += [f"tests/{selected}" for selected in SELECTED]
    tests = subprocess.run(command, timeout=SECONDS, check=False, **run)  # type: ignore[call-overload]
    assert tests.returncode == 0, tests.stdout[-5000:] + tests.stderr[-2000:]
    assert " passed" in tests.stdout
