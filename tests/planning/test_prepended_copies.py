"""Copies whose loads compute the elementwise operations before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import Shape, float32
from tests.planning.appending import (
    add,
    as_built,
    as_on_a_gpu,
    constant,
    dispatches,
    in_bundles,
    pooled,
    shared,
    whole,
)

Build = Callable[[Model, Operand], list[str]]
SHAPES = [(2, 5, 6, 8), (1, 7, 3, 3), (1, 33, 40, 1)]
FIRST_ROWS: dict[str, Any] = {"begin": (0, 1, 0, 0), "end": (1, 3, 3, 1), "strides": (1, 1, 2, 1)}


def mirrored(model: Model, x: Operand) -> list[str]:
    """As networks of style transfer pad what they normalised."""
    y = add(model, "abs", add(model, "mul", shared(model, x), constant(model, x.type.shape[3])))
    padded = add(model, "mirror_pad", y, paddings=((0, 0), (2, 1), (1, 2), (0, 0)), mode="reflect")
    model.output(pooled(model, padded, x.type.shape[3]))
    return ["max_pool2d", "mul+abs+mirror_pad", "max_pool2d"]


def transposed(model: Model, x: Operand) -> list[str]:
    y = add(model, "add", shared(model, x), constant(model, x.type.shape[3]))
    model.output(add(model, "transpose", y, perm=(0, 3, 1, 2)))
    copied = x.type.shape[3] > 1 and open_device(None, False).properties.software  # else it is stored so
    return ["max_pool2d", "add+transpose" if copied else "add"]


def cut(model: Model, x: Operand) -> list[str]:
    y = add(model, "abs", shared(model, x))
    model.output(add(model, "strided_slice", y, **FIRST_ROWS, shrink_axes=()))
    return ["max_pool2d", "abs+strided_slice"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("hardware", [False, True])
@pytest.mark.parametrize("build", [mirrored, transposed, cut])
def test_copies(
    build: Build, hardware: bool, shape: Shape, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hardware:
        as_on_a_gpu(monkeypatch)
    as_built(build, shape, monkeypatch)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("build", [mirrored, cut])
def test_bundles(build: Build, shape: Shape, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_bundles(monkeypatch)
    as_built(build, shape, monkeypatch)


def in_place(model: Model, x: Operand) -> list[str]:
    """One piece is read where it lies, so the whole is stored, and the other piece is copied from it."""
    y = add(model, "abs", shared(model, x))
    left, right = model.add("split", [y], {"axis": 3, "sizes": (4, 4)})
    model.output(left, add(model, "neg", right))
    return ["max_pool2d", "abs", "split", "neg"]


def repeated(model: Model, x: Operand) -> list[str]:
    """Each element is loaded twice."""
    y = add(model, "neg", shared(model, x))
    model.output(add(model, "tile", y, multiples=(1, 1, 1, 2)))
    return ["max_pool2d", "neg", "tile"]


@pytest.mark.parametrize("build", [in_place, repeated])
def test_what_is_stored(build: Build, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_built(build, (2, 5, 4, 8), monkeypatch)


def test_two_copies(gpu: str) -> None:
    """Each computes what it copies."""
    model = Model("two")
    y = add(model, "abs", shared(model, model.input("x", float32(2, 5, 4, 8))))
    model.output(*model.add("split", [y], {"axis": 3, "sizes": (5, 3)}))
    given = whole(2, 5, 4, 8)
    with model.compile("webgpu") as compiled, model.compile("cpu") as cpu:
        assert dispatches(compiled) == ["max_pool2d", "abs+split", "abs+split"]
        for found, expected in zip(compiled(given), cpu(given), strict=True):
            np.testing.assert_array_equal(found, expected)
