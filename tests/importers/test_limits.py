"""Limits of files, of each format: their size, operators and constants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn.limits import Limits
from gpunn.types import DType, TensorType, float32
from tests.importers.coreml.builder import constant, layer, linear, model
from tests.importers.coreml.test_package import package
from tests.tflite_builder import Graph


def tflite() -> bytes:
    """Two operators, and a branch whose bodies have one and two; 12 bytes of constants."""
    main, then, otherwise = Graph(), Graph(), Graph()
    row = float32(1, 3)
    (one,) = then.add("ABS", [then.input(row)], [row])
    (two,) = otherwise.add("NEG", otherwise.add("ABS", [otherwise.input(row)], [row]), [row])
    weights = main.constant(np.ones((1, 3), np.float32))
    (x,) = main.add("MUL", [main.input(row), weights], [row])
    decision = main.input(TensorType(DType.BOOL, ()))
    ends = main.add("IF", [decision, x], [row], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    return main.build(ends, called=[(then, [one]), (otherwise, [two])])


def mlmodel() -> bytes:
    """A loop of two rounds with two layers in it, and two further layers: five; 12 bytes of constants."""
    made = model((3,), exact=True)
    constant(made, "c", [1, 2, 3])
    loop = layer(made, "loop", [], [])
    loop.maxLoopIterations = 2
    linear(loop.bodyNetwork, "c", "c next")
    layer(loop.bodyNetwork, "copy", ["c next"], ["c"])
    layer(made, "addBroadcastable", ["x", "c"], ["y"])
    found: bytes = made.SerializeToString()
    return found


FILES: dict[str, Callable[[], bytes]] = {".tflite": tflite, ".mlmodel": mlmodel}
CONSTANTS = {".tflite": 12, ".mlmodel": 24}  # with those that count the rounds of the loop
OPERATORS = 5


def source(folder: Path, kind: str, way: str) -> str | bytes | Path:
    """A file as bytes, as a path, or in a package."""
    data = FILES[kind]()
    if way == "bytes":
        return data
    if way == "package":
        return package(folder / "net.mlpackage", data=data)
    path = folder / f"net{kind}"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("kind", "way"), [(k, w) for k in FILES for w in ("bytes", "path")] + [(".mlmodel", "package")]
)
def test_limits_of_a_file(kind: str, way: str, tmp_path: Path) -> None:
    file, size = source(tmp_path, kind, way), len(FILES[kind]())
    wants = {"file_bytes": size, "operators": OPERATORS, "constant_bytes": CONSTANTS[kind]}
    for name, wanted in wants.items():
        for allowed in (wanted - 1, 0):
            with pytest.raises(gpunn.LimitError, match=f", the limit {name} is {allowed}") as caught:
                gpunn.load(file, limits=Limits(**{name: allowed}))
            error = caught.value
            assert (error.limit, error.allowed) == (name, allowed)
            assert error.wanted == wanted or (allowed == 0 and error.wanted)  # it may be refused sooner
            assert f"{error.wanted} " in str(error)
    limits = Limits(**wants)
    assert gpunn.load(file, limits=limits).limits == limits


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.tflite"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a sparse file
    with pytest.raises(gpunn.LimitError, match=rf"large\.tflite: the file has {1 << 40} bytes"):
        gpunn.load(path, limits=Limits(file_bytes=1 << 20))


def test_called_subgraphs_count_as_often_as_they_are_called() -> None:
    """Each of the bodies is read once more for each call."""
    main, inner = Graph(), Graph()
    row = float32(3)
    (one,) = inner.add("ABS", [inner.input(row)], [row])
    x = main.input(row)
    decision = main.input(TensorType(DType.BOOL, ()))
    for _ in range(3):
        (x,) = main.add("IF", [decision, x], [row], {"then_subgraph_index": 1, "else_subgraph_index": 1})
    data = main.build([x], called=[(inner, [one])])
    gpunn.load(data, limits=Limits(operators=9))
    with pytest.raises(gpunn.LimitError, match="has 9 operators, those of subgraph 1 included"):
        gpunn.load(data, limits=Limits(operators=8))
