"""Layers whose indices and masks are as large as their tensors: nothing large is stored for them."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from tests.importers.coreml.builder import Message, layer, model

MATRIX = (4200, 4100)  # more than 2^24 elements


def nbytes(made: Message) -> int:
    """How many bytes the constants of a model have before anything is folded."""
    loaded = gpunn.load(made.SerializeToString())
    constants = {o for operation in loaded.operations for o in operation.inputs if o is not None}
    return sum(o.value.nbytes for o in constants if o.value is not None)


@pytest.mark.parametrize(
    ("kind", "params", "expected"),
    [
        ("lowerTriangular", {"k": 1}, lambda x: np.tril(x, 1)),
        ("upperTriangular", {"k": -2}, lambda x: np.triu(x, -2)),
        ("matrixBandPart", {"numLower": 3, "numUpper": 2**62}, lambda x: np.triu(x, -3)),
        ("matrixBandPart", {"numLower": -1, "numUpper": 1}, lambda x: np.tril(x, 1)),
        ("matrixBandPart", {"numLower": -1, "numUpper": -5}, lambda x: x),
    ],
)
def test_large_matrices(kind: str, params: dict[str, int], expected: object, backend: str) -> None:
    made = model(MATRIX, exact=True)
    message = layer(made, kind)
    for name, value in params.items():
        setattr(message, name, value)
    assert nbytes(made) < 100_000
    x = np.arange(MATRIX[0] * MATRIX[1], dtype=np.float32).reshape(MATRIX)
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        np.testing.assert_array_equal(compilation(x), expected(x))


def test_many_windows(backend: str) -> None:
    made = model((9000,), exact=True)
    params = layer(made, "slidingWindows")
    params.windowSize, params.step = 4000, 1
    assert nbytes(made) < 100_000
    x = np.arange(9000, dtype=np.float32)
    with gpunn.load(made.SerializeToString()).compile(backend) as compilation:
        found = compilation(x)
    np.testing.assert_array_equal(found, np.lib.stride_tricks.sliding_window_view(x, 4000))


def test_scatter_of_other_shapes_is_refused() -> None:
    made = model((3, 4), exact=True)
    for name, shape in (("i", (2, 4)), ("u", (2, 3))):
        made.description.input.add(name=name).type.multiArrayType.shape.extend(shape)
    layer(made, "scatterAlongAxis", ["x", "i", "u"])
    with pytest.raises(
        gpunn.FormatError, match=r"indices and updates have other shapes: \[2, 4\] and \[2, 3\]"
    ):
        gpunn.load(made.SerializeToString())
