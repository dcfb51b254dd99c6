"""gather_slices and scatter_slices, element by element: copies and sums of whole numbers are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.indexing import slices
from gpunn.types import Array, Shape
from tests.ops.harness import check, model_of, random

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
JOIN = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
# Shape of x, indices, dimensions that are offsets, collapsed, named by indices, that of vectors, sizes.
GATHERS: list[tuple[Shape, Any, Sequence[int], Sequence[int], Sequence[int], int, Sequence[int]]] = [
    ((7,), [[2], [-4], [9]], (1,), (), (0,), 1, (3,)),
    ((4, 5), [3, 0, 1], (1,), (0,), (0,), 1, (1, 5)),
    ((4, 5), [3, 9], (1,), (0,), (0,), 1, (1, 3)),
    ((3, 4, 5), [[0, 1, 1], [2, 0, 3]], (0, 2), (2,), (2, 0), 0, (2, 3, 1)),
    ((3, 4, 5), [[[1, 1]], [[2, 0]]], (1, 3, 4), (), (2, 0), 2, (2, 2, 3)),
    ((3, 4), [[1, 2], [0, 3]], (), (0, 1), (0, 1), 1, (1, 1)),
    ((3, 4), [], (1, 2), (), (), 0, (3, 4)),
    ((3, 0), [[1]], (1,), (0,), (0,), 1, (1, 0)),
]


def vectors(indices: Array, axis: int) -> Array:
    return indices[..., None] if axis == indices.ndim else np.moveaxis(indices, axis, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
@pytest.mark.parametrize("case", GATHERS)
def test_gathered(case: Any, dtype: Any, backend: str) -> None:
    shape, indices, offsets, collapsed, named, axis, sizes = case
    x = random(0, *shape, low=-99, high=99).astype(dtype)
    attrs = {
        "offset_dims": offsets,
        "collapsed_slice_dims": collapsed,
        "start_index_map": named,
        "index_vector_dim": axis,
        "slice_sizes": sizes,
    }
    for kind, constants in ((np.int32, ()), (np.int64, ()), (np.int32, (1,))):
        numbers = np.array(indices, kind)
        if not named:
            numbers = np.zeros((0, 2), kind)  # two empty slices
        (y,) = check("gather_slices", [x, numbers], attrs, backend=backend, constants=constants, **EXACT)
        starts = vectors(numbers, axis)
        for at in np.ndindex(y.shape):
            inner = iter([at[p] for p in offsets])
            start = starts[tuple(n for p, n in enumerate(at) if p not in offsets)]
            place = []
            for d, (n, size) in enumerate(zip(shape, sizes, strict=True)):
                first = min(max(int(start[list(named).index(d)]), 0), n - size) if d in named else 0
                place.append(first + (0 if d in collapsed else next(inner)))
            assert y[at] == x[tuple(place)]


# Shape of x, indices, dimensions that are windows, inserted, named by indices, that of vectors, updates.
SCATTERS: list[tuple[Shape, Any, Sequence[int], Sequence[int], Sequence[int], int, Shape]] = [
    ((7,), [[2], [-1], [6]], (1,), (), (0,), 1, (3, 3)),
    ((3, 4, 5), [[2], [0], [2]], (1, 2), (0,), (0,), 1, (3, 4, 5)),
    ((3, 4, 5), [[0, 1], [2, 3], [0, 1]], (1,), (0, 1), (0, 1), 1, (3, 5)),
    ((3, 4, 5), [[0, 1, 1], [2, 0, 3]], (0,), (0, 2), (0, 2), 0, (4, 3)),
    ((3, 4, 5), [[[1, 1]], [[2, 0]]], (2, 3, 4), (), (2, 0), 2, (2, 1, 2, 4, 3)),
    ((4, 3), [1, 7, 1], (1,), (0,), (0,), 1, (3, 3)),
    ((0, 3), [[1]], (1,), (0,), (0,), 1, (1, 3)),
    # A single slice: inside, outside, a part of a row, one element; without a batch.
    ((4, 3), [[2]], (1,), (0,), (0,), 1, (1, 3)),
    ((4, 3), [[4]], (1,), (0,), (0,), 1, (1, 3)),
    ((4, 3), [[-1]], (1,), (0,), (0,), 1, (1, 3)),
    ((3, 4, 5), [[4, 1]], (1,), (0, 2), (2, 0), 1, (1, 3)),
    ((3, 4, 5), [[4, 3]], (1,), (0, 2), (2, 0), 1, (1, 3)),
    ((3, 4, 5), [1, 4], (0,), (0, 2), (0, 2), 0, (4,)),
    ((7,), [[2]], (), (0,), (0,), 1, (1,)),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("function", [None, *JOIN])
@pytest.mark.parametrize("case", SCATTERS)
def test_scattered(case: Any, function: str | None, backend: str) -> None:
    shape, indices, window, inserted, named, axis, form = case
    x, updates = np.round(random(0, *shape)), np.round(random(1, *form))
    attrs = {
        "update_window_dims": window,
        "inserted_window_dims": inserted,
        "scatter_dims_to_operand_dims": named,
        "index_vector_dim": axis,
        "function": function,
    }
    for dtype, kind, constants in ((np.float32, np.int32, ()), (np.int64, np.int64, (1,))):
        inputs = [x.astype(dtype), np.array(indices, kind), updates.astype(dtype)]
        (y,) = check("scatter_slices", inputs, attrs, backend=backend, constants=constants, **EXACT)
        expected = inputs[0].copy()
        kept = [d for d in range(len(shape)) if d not in inserted]
        for at in np.ndindex(form):
            start = vectors(inputs[1], axis)[tuple(n for p, n in enumerate(at) if p not in window)]
            place = [int(start[list(named).index(d)]) if d in named else 0 for d in range(len(shape))]
            for d, p in zip(kept, window, strict=True):
                place[d] += at[p]
            if all(0 <= k < n for k, n in zip(place, shape, strict=True)):
                there, new = expected[tuple(place)], inputs[2][at]
                expected[tuple(place)] = new if function is None else JOIN[function](there, new)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_infinities_are_extremes(function: str, dtype: Any, backend: str) -> None:
    numbers = np.array([-np.inf, np.finfo(np.float32).min, -1, np.inf, np.nan], np.float32)
    with np.errstate(over="ignore"):
        x, first, second = (n.reshape(-1).astype(dtype) for n in np.meshgrid(numbers, numbers, numbers))
    places = np.tile(np.arange(len(x), dtype=np.int32), 2)
    attrs = {
        "update_window_dims": (),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
        "function": function,
    }
    updates = np.concatenate([first, second])
    (y,) = check("scatter_slices", [x, places, updates], attrs, backend=backend, **EXACT)
    join = JOIN[function]
    np.testing.assert_array_equal(y, join(join(x, first), second))


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float16])
def test_updates_of_every_type(dtype: Any, backend: str) -> None:
    x, updates = random(0, 4, 3).astype(dtype), random(1, 2, 3).astype(dtype)
    attrs = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    inputs = [x, np.array([[2], [0]], np.int32), updates]
    (y,) = check("scatter_slices", inputs, attrs, backend=backend, **EXACT)
    np.testing.assert_array_equal(y, np.stack([updates[1], x[1], updates[0], x[3]]))


def test_too_many_elements_run_on_the_host(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MAX_ELEMENTS", 5)
    attrs = {
        "offset_dims": (1,),
        "collapsed_slice_dims": (),
        "start_index_map": (0,),
        "index_vector_dim": 1,
        "slice_sizes": (3,),
    }
    inputs = [random(0, 7), np.array([[1], [9]], np.int32)]
    (y,) = check("gather_slices", inputs, attrs, backend=backend, host="slices of more than", **EXACT)
    np.testing.assert_array_equal(y, [inputs[0][1:4], inputs[0][4:]])


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"start_index_map": (2,)}, "takes slices of .1, 3. along .2."),
        ({"slice_sizes": (1, 4)}, "do not fit"),
        ({"slice_sizes": (2, 3)}, "do not make dimensions .1."),
        ({"offset_dims": (5,)}, "do not make dimensions .5."),
        ({"offset_dims": (0, 1)}, "do not make dimensions .0, 1."),
        ({"index_vector_dim": 3}, "no vectors of 1 indices along dimension 3"),
        ({"start_index_map": (0, 1)}, "no vectors of 2 indices along dimension 1"),
    ],
)
def test_gather_errors(attrs: dict[str, Any], message: str) -> None:
    plain = {
        "offset_dims": (1,),
        "collapsed_slice_dims": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 1,
        "slice_sizes": (1, 3),
    }
    inputs = [random(0, 2, 3), np.zeros((2, 1), np.int32)]
    with pytest.raises(ModelError, match=f"gather_slices: .*{message}"):
        model_of("gather_slices", inputs, {**plain, **attrs})


@pytest.mark.parametrize(
    ("updates", "attrs", "message"),
    [
        (random(0, 2, 3), {"function": "mean"}, "function must be None or sum"),
        (np.zeros((2, 3), np.int32), {}, "updates must have the type of"),
        (random(0, 2, 4), {}, "do not go into float32.2, 3. from"),
        (random(0, 2, 3), {"update_window_dims": (0, 1)}, "by windows .0, 1."),
    ],
)
def test_scatter_errors(updates: Array, attrs: dict[str, Any], message: str) -> None:
    plain = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    inputs = [random(0, 2, 3), np.zeros((2, 1), np.int32), updates]
    with pytest.raises(ModelError, match=f"scatter_slices: .*{message}"):
        model_of("scatter_slices", inputs, {**plain, **attrs})


def test_one_number_is_gathered(backend: str) -> None:
    attrs = {
        "offset_dims": (),
        "collapsed_slice_dims": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 0,
        "slice_sizes": (1,),
    }
    x = np.arange(5, dtype=np.float32)
    (y,) = check("gather_slices", [x, np.array([3], np.int32)], attrs, backend=backend)
    assert y == 3
