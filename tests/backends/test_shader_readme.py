"""shaders/README.md: its example runs and compiles to what it shows, and it names every library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpunn import kernel
from gpunn.backends.webgpu import shader
from gpunn.graph.operation import Operation
from gpunn.model import Model
from gpunn.ops.call import Call, like
from gpunn.ops.op import Op, op
from gpunn.types import Array, DType, TensorType
from tests.resources import ROOT

FOLDER = ROOT / "shaders"
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
BODY, DECLARATIONS = re.findall(r"^```wgsl\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def scale_channels() -> Op:
    """An op with the kernel of the example."""
    (source,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {**vars(kernel), "Call": Call}
    exec(source, names)
    function: Callable[[Call], kernel.Kernel] = names["scale_kernel"]

    def scale_channels(x: Array, scale: Array) -> Array:
        return np.maximum(x * scale, 0, dtype=x.dtype)

    return op(like, function, raw=True)(scale_channels)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder shaders/ with the example in it."""
    (tmp_path / "lib").symlink_to(FOLDER / "lib")
    (tmp_path / "scale_channels.wgsl").write_text(BODY)
    monkeypatch.setattr(shader, "shader_folder", lambda: tmp_path)
    shader.read_body.cache_clear()
    yield
    shader.read_body.cache_clear()


def example(dtype: DType, channels: int) -> Model:
    """A model of the example: x [5, channels] times constants 1, 2, 3, ..."""
    model = Model()
    x = model.input("x", TensorType(dtype, (5, channels)))
    scale = model.constant("scale", np.arange(1, channels + 1, dtype=dtype.numpy))
    model.output(*model.add(scale_channels(), [x, scale]))
    return model


def declarations(operation: Operation) -> str:
    """Return the declarations that are generated for an operation of one dispatch."""
    made = operation.definition.kernel
    assert made is not None
    found = made(operation.call())
    assert isinstance(found, kernel.Kernel)
    return shader.parts(shader.key_of(found, operation))[-1].text


def test_the_example_compiles_to_what_is_shown(folder: None) -> None:
    (operation,) = example(DType.FLOAT32, 4).operations
    assert declarations(operation) == DECLARATIONS
    key = shader.key_of(operation.definition.kernel(operation.call()), operation)  # type: ignore[misc, arg-type]
    assert [part.file for part in shader.parts(key)][1:] == [
        "shaders/lib/flat.wgsl",
        "shaders/lib/grid.wgsl",
        "",
    ]


def test_the_examples_other_types(folder: None) -> None:
    for dtype, channels, lines in (
        (DType.FLOAT32, 3, ("alias V = T;",)),
        (DType.INT8, 4, ("alias T = i32;", "x_data: array<u32>;", "y_data: array<u32>;")),
        (DType.INT8, 3, ("x_data: array<u32>;", "y_data: array<atomic<u32>>;")),
    ):
        (operation,) = example(dtype, channels).operations
        for line in lines:
            assert line in declarations(operation)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.INT16, DType.INT8])
@pytest.mark.parametrize("channels", [3, 8])
def test_the_example_runs(folder: None, dtype: DType, channels: int, gpu: str) -> None:
    x = np.arange(-2, 5 * channels - 2, dtype=dtype.numpy).reshape(5, channels) // 4
    with example(dtype, channels).compile(gpu) as compiled:
        assert compiled.plan_rows()
        found = compiled(x)
    np.testing.assert_array_equal(found, np.maximum(x * np.arange(1, channels + 1, dtype=x.dtype), 0))


def test_all_names_of_the_page_exist() -> None:
    """Fields of classes, files, functions of kernel.py."""
    for name, field in re.findall(r"`(Kernel|Function)\.(\w+)`", TEXT):
        assert field in vars(kernel)[name].__dataclass_fields__, f"{name}.{field}"
    for path in re.findall(r"`((?:gpunn|docs)/[\w/]+\.\w+)`", TEXT):
        assert (ROOT / path).is_file(), path
    for path in re.findall(r"`(lib/\w+\.wgsl)`", TEXT):
        assert (FOLDER / path).is_file(), path
    assert {"flat_threads", "vec_width"} <= vars(kernel).keys()
    assert '"Contract of a kernel function"' in TEXT
    assert "## Contract of a kernel function" in (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def test_every_library_is_in_the_table() -> None:
    (table,) = re.findall(r"^## Libraries\n(.*?)^## ", TEXT, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(path.stem for path in (FOLDER / "lib").glob("*.wgsl"))
