"""gather and gather_nd: results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array, DType, TensorType
from tests.ops.harness import check, check_litert, model_of, random
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import quantized, stored

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}


def picks(shape: tuple[int, ...], extent: int) -> Array:
    """Return indices below `extent`; the last one is extent - 1."""
    found = np.random.default_rng(0).integers(0, extent, shape, dtype=np.int32)
    found[(..., *[slice(-1, None)] * found.ndim)] = extent - 1
    return found


def names(shape: tuple[int, ...], extents: tuple[int, ...]) -> Array:
    """Return rows of numbers below `extents`."""
    return (
        np.stack([picks(shape, n) for n in extents], axis=-1) if extents else np.zeros((*shape, 0), np.int32)
    )


@pytest.mark.parametrize(
    ("shape", "index", "attrs"),
    [
        ((7,), (), {}),
        ((7,), (5,), {}),
        ((7, 4), (2, 3), {"axis": 0}),
        ((3, 7, 5), (4,), {"axis": 1}),
        ((3, 7, 8), (4,), {"axis": -2}),
        ((3, 7), (2, 2), {"axis": -1}),
        ((3, 7, 5), (3, 4), {"axis": 1, "batch_dims": 1}),
        ((2, 3, 7, 4), (2, 3, 2), {"axis": 2, "batch_dims": 2}),
        ((2, 3, 7, 4), (2, 5), {"axis": 2, "batch_dims": 1}),
        ((2, 3, 7), (2, 3), {"axis": 2, "batch_dims": -1}),
        ((2, 3), (2,), {"axis": 1, "batch_dims": 1}),
        ((0, 7, 2), (3,), {"axis": 1}),
        ((4, 7), (0,), {"axis": 0}),
    ],
)
def test_gather(shape: tuple[int, ...], index: tuple[int, ...], attrs: dict[str, int], backend: str) -> None:
    x = random(0, *shape)
    chosen = picks(index, shape[attrs.get("axis", 0)])
    for constants in ((), (1,), (0,)):
        (y,) = check("gather", [x, chosen], attrs, backend=backend, constants=constants, **EXACT)
    if "batch_dims" not in attrs:
        np.testing.assert_array_equal(y, np.take(x, chosen, attrs.get("axis", 0)))
    assert y.flags.c_contiguous


@pytest.mark.parametrize(
    ("shape", "index", "depth"),
    [((7,), (3,), 1), ((3, 4), (2, 5), 2), ((3, 4, 5), (6,), 2), ((3, 4, 8), (), 2), ((2, 3, 4, 5), (9,), 4)],
)
def test_gather_nd(shape: tuple[int, ...], index: tuple[int, ...], depth: int, backend: str) -> None:
    x, chosen = random(0, *shape), names(index, shape[:depth])
    for constants in ((), (1,)):
        (y,) = check("gather_nd", [x, chosen], backend=backend, constants=constants, **EXACT)
    np.testing.assert_array_equal(y, x[tuple(np.moveaxis(chosen, -1, 0))])


def test_gather_nd_of_empty_and_of_long_indices(backend: str) -> None:
    (y,) = check("gather_nd", [random(0, 2, 4), names((3,), ())], backend=backend, **EXACT)
    assert y.shape == (3, 2, 4)
    x = random(0, 2, 3, 2, 4, 3)
    check("gather_nd", [x, names((9,), x.shape)], backend=backend, **EXACT)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int8, np.bool_])
def test_other_dtypes(dtype: type, backend: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (5, 7)).astype(dtype)
    check("gather", [x, picks((3,), 7)], {"axis": 1}, backend=backend)
    check("gather_nd", [x, names((6,), (5, 7))], backend=backend)


@pytest.mark.parametrize("dtype", [np.int64, np.int16])
def test_other_dtypes_of_indices(dtype: type, backend: str) -> None:
    x = random(0, 5, 4)
    check("gather", [x, picks((3,), 5).astype(dtype)], {}, backend=backend, **EXACT)
    check("gather_nd", [x, names((7,), (5, 4)).astype(dtype)], backend=backend, **EXACT)


@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_an_error(wrong: int, backend: str) -> None:
    x = random(0, 5, 5)
    for op, index in (("gather", np.array([0, wrong, 4])), ("gather_nd", np.array([[0, 1], [4, wrong]]))):
        chosen = index.astype(np.int32)
        message = rf"{op}: indices must be in 0 \.\.\. 4, got {wrong}"
        with (
            model_of(op, [x, chosen], {}).compile(backend=backend) as compilation,
            pytest.raises(ModelError, match=message),
        ):
            compilation(x, chosen)
        with pytest.raises(ModelError, match=message):
            model_of(op, [x, chosen], {}, (1,)).compile(backend=backend)(x)


def test_agrees_with_litert() -> None:
    x = random(0, 3, 7, 4)
    for attrs in ({"axis": 0}, {"axis": 1}, {"axis": -1}):
        check_litert("gather", [x, picks((2, 3), 3)], attrs, "GATHER", attrs)
    attrs = {"axis": 1, "batch_dims": 1}
    check_litert("gather", [x, picks((3, 2), 7)], attrs, "GATHER", attrs)
    for depth in (1, 2, 3):
        check_litert("gather_nd", [x, names((5,), x.shape[:depth])], {}, "GATHER_ND")


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("gather", ((2, 3), (2,)), {"axis": 2}, "axis 2 is out of range for rank 2"),
        ("gather", ((2, 3), (2,)), {"axis": 1, "batch_dims": 2}, "batch_dims 2 is out of range"),
        ("gather", ((2, 3), (2, 2)), {"axis": 0, "batch_dims": 1}, "batch_dims 1 must not be over axis 0"),
        ("gather", ((2, 3), (3,)), {"axis": 1, "batch_dims": 1}, "the first 1 dimensions must be equal"),
        ("gather_nd", ((2, 3), ()), {}, "indices must have rank 1 or more"),
        ("gather_nd", ((2, 3), (4, 3)), {}, "indices of 3 numbers are too long"),
    ],
)
def test_errors(op: str, shapes: Any, attrs: dict[str, Any], message: str) -> None:
    x, indices = random(0, *shapes[0]), np.zeros(shapes[1], np.int32)
    with pytest.raises(ModelError, match=f"{op}: .*{message}"):
        model_of(op, [x, indices], attrs)


def test_float_indices_are_refused() -> None:
    with pytest.raises(ModelError, match="gather: input 1 must be int32 or int64 or int16, got float32"):
        model_of("gather", [random(0, 2), random(0, 2)], {})


def test_quantised_values_keep_their_quantisation(backend: str) -> None:
    type = quantized(DType.INT8, (5, 8), 0.1, 3)
    chosen = picks((4,), 5)
    types = [type, TensorType(DType.INT32, (4,))]
    (y,) = check_integer("gather", [stored(0, type), chosen], types, {}, backend=backend)
    np.testing.assert_array_equal(y, stored(0, type)[chosen])
