"""docs/architecture.md, "To add something": a copy of the package with its lines runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn.types import DType, TensorType
from tests.gpu import require_gpu
from tests.resources import ENVIRONMENT, ROOT
from tests.tflite_builder import Array, single_op

INT = TensorType(DType.INT32, (2,))
EPS = float(np.finfo(np.float32).eps)
PAGE = ROOT / "docs" / "architecture.md"
# Reads a file and its inputs, and writes the results of each backend.
RUN = """
import sys
import gpunn, numpy
for backend in ("cpu", "webgpu"):
    inputs = numpy.load("inputs.npz")
    with gpunn.load("model.tflite").compile(backend) as compiled:
        numpy.save(f"{backend}.npy", compiled(*inputs.values()))
        print(gpunn.__file__, *{row.backend for row in compiled.placement})
"""


@dataclass(frozen=True)
class Addition:
    """Lines to add to a file: into a table, before a name, or as the whole file."""

    file: str
    place: str
    name: str
    text: str

    def apply(self, root: Path) -> None:
        """Add the lines to the file of that tree."""
        path = root / self.file
        if not self.place:
            assert not path.exists(), f"{self.file} is no new file"
            path.write_text(self.text, encoding="utf-8")
            return
        before = path.read_text(encoding="utf-8")
        start = re.search(rf"^{self.name}\b[^\n]*\n", before, re.MULTILINE)
        assert start is not None, f"{self.file} has no {self.name}"
        at = start.end() if self.place == "in" else start.start()
        text = textwrap.indent(self.text, "    ") if self.place == "in" else f"{self.text}\n\n"
        path.write_text(before[:at] + text + before[at:], encoding="utf-8")


def additions(title: str) -> list[Addition]:
    """Return the additions of a section of the page."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^### {title}\n(.*?)^##", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the page has no section {title!r}"
    pattern = r"^In `([^`]+)`(?:, (in|before) `(\w+)`)?:\n\n```\w+\n(.*?)^```"
    blocks = re.finditer(pattern, found[1], re.MULTILINE | re.DOTALL)
    return [Addition(m[1], m[2] or "", m[3] or "", m[4]) for m in blocks]


def run(
    folder: Path, added: list[Addition], operator: str, inputs: list[Array], result: Array
) -> list[Array]:
    """Run a file of one operator in a copy of the package with the additions; return results by backend."""
    for name in ("gpunn", "shaders"):
        ignored = shutil.ignore_patterns("__pycache__", "data")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for addition in added:
        addition.apply(folder)
    types = [TensorType(DType.of(x.dtype), x.shape) for x in (*inputs, result)]
    (folder / "model.tflite").write_bytes(single_op(operator, types[:-1], types[-1:]))
    np.savez(folder / "inputs.npz", *inputs)
    environment = {**ENVIRONMENT, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    file = folder / "gpunn" / "__init__.py"
    assert done.stdout.splitlines() == [f"{file} cpu", f"{file} webgpu"]
    return [np.load(folder / f"{backend}.npy") for backend in ("cpu", "webgpu")]


def test_an_element_wise_op_is_one_place_and_one_line_for_a_format(tmp_path: Path) -> None:
    require_gpu()
    added = additions("An element-wise op")
    assert [a.file.split("/")[1] for a in added] == ["ops", "importers"]
    assert all(len(a.text.splitlines()) == 1 for a in added)
    a = np.array([[7, -7, 2**31 - 1], [0, 5, -(2**31)]], np.int32)
    b = np.array([3, 4, -1000], np.int32)
    for found in run(tmp_path, added, "STABLEHLO_REMAINDER", [a, b], a):
        np.testing.assert_array_equal(found, np.fmod(a, b))


def test_an_op_with_a_shader_is_two_places_and_one_line_for_a_format(tmp_path: Path) -> None:
    require_gpu()
    added = additions("An op with a shader")
    module, shader, line, *gathering = added
    assert [a.file.partition("/")[0] for a in (module, shader)] == ["gpunn", "shaders"]
    assert line.text.count("\n") == 1
    assert {a.file for a in gathering} == {"gpunn/ops/__init__.py"}
    x = np.array([[27, -8, 0], [1e-3, 1e9, -0.125]], np.float32)
    for found in run(tmp_path, added, "STABLEHLO_CBRT", [x], x):
        np.testing.assert_allclose(found, np.cbrt(x.astype(np.float64)), atol=1e-5, rtol=5 * EPS)


def test_an_op_with_an_expansion_is_one_place_and_one_line_for_a_format(tmp_path: Path) -> None:
    """1 / 3 as float32 is 1e-8 too large, which moves the root of 1e9 by 2e-7 of it: 2 eps more."""
    require_gpu()
    module, line, *gathering = additions("An op that is written in other ops")
    assert (module.file.split("/")[1], line.text.count("\n")) == ("ops", 1)
    x = np.array([[27, -8, 0], [1e-3, 1e9, -0.125]], np.float32)
    for found in run(tmp_path, [module, line, *gathering], "STABLEHLO_CBRT", [x], x):
        np.testing.assert_allclose(found, np.cbrt(x.astype(np.float64)), atol=1e-5, rtol=7 * EPS)


def test_an_operator_is_a_rule_and_one_line(tmp_path: Path) -> None:
    require_gpu()
    _, line, gathering = added = additions("An operator of TFLite")
    assert {Path(a.file).parent.name for a in added} == {"rules"}
    assert (line.text.count("\n"), gathering.file) == (1, line.file)
    a, b = np.array([7.5, -7.5, 1.25, -0.5], np.float32), np.array([2, 2, -1, 0.125], np.float32)
    for found in run(tmp_path, added, "STABLEHLO_REMAINDER", [a, b], a):
        np.testing.assert_array_equal(found, np.fmod(a, b))


@pytest.mark.parametrize("operator", ["STABLEHLO_REMAINDER", "STABLEHLO_CBRT"])
def test_the_additions_of_the_page_are_new(operator: str) -> None:
    with pytest.raises(gpunn.UnsupportedError, match=f"{operator} v1: this operator is not supported"):
        gpunn.load(single_op(operator, [INT], [INT]))
