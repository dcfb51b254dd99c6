"""Elements that move around along their axes: results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, Shape, TensorType
from tests.ops.harness import check, model_of, random

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
CASES: list[tuple[Shape, Shape]] = [
    ((5,), (2,)),
    ((8,), (-4,)),
    ((7,), (0,)),
    ((3, 5), (1, -2)),
    ((1, 6, 7, 8), (0, -3, 3, 0)),
    ((2, 6, 7, 8), (1, -3, 3, 4)),
    ((2, 5, 3, 3), (0, 11, -7, 1)),
    ((3, 2, 3, 2, 3, 2), (1, 1, 1, 1, 1, 1)),
    ((0, 3), (1, 1)),
    ((), ()),
]


def walked(x: Array, shifts: Shape) -> Array:
    """Put each element where it belongs, one after the other."""
    y = np.empty_like(x)
    for place in np.ndindex(x.shape):
        y[tuple((i + s) % n for i, s, n in zip(place, shifts, x.shape, strict=True))] = x[place]
    return y


@pytest.mark.parametrize(("shape", "shifts"), CASES)
def test_roll(shape: Shape, shifts: Shape, backend: str) -> None:
    x = random(0, *shape)
    check("roll", [x], {"shifts": shifts}, backend=backend, **EXACT)
    with model_of("roll", [x], {"shifts": shifts}).compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(x), walked(x, shifts))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.int8, np.bool_])
@pytest.mark.parametrize("columns", [4, 5])
def test_other_dtypes(dtype: type, columns: int, backend: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 5, columns)).astype(dtype)
    check("roll", [x], {"shifts": (2, -1, 3)}, backend=backend)


def test_quantised_tensors_keep_their_scale(backend: str) -> None:
    type = TensorType(DType.INT8, (3, 8), Quantization((0.1,), (3,)))
    x = np.random.default_rng(0).integers(-128, 128, (3, 8)).astype(np.int8)
    model = Model()
    model.output(*model.add("roll", [model.input("x", type)], {"shifts": (1, 4)}))
    assert model.outputs[0].type == type
    with model.compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(x), walked(x, (1, 4)), strict=True)


def test_shifts_are_numbers_for_each_dimension() -> None:
    with pytest.raises(ModelError, match="shifts must have 2 entries"):
        model_of("roll", [random(0, 2, 3)], {"shifts": (1,)})
