"""Edge cases of shapes: no elements, one number, no dimensions, indices of no numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.types import Array
from tests.ops.harness import check


def reals(*shape: int) -> Array:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def ints(*numbers: Any) -> Array:
    return np.array(numbers, np.int32)


def none(*shape: int) -> Array:
    return np.zeros(shape, np.int32)


CASES: tuple[tuple[str, list[Array], dict[str, Any], Any], ...] = (
    ("scatter_nd", [none(3, 0), reals(3, 4)], {"shape": (4,)}, [12, 15, 18, 21]),
    ("scatter_nd", [none(0, 1), reals(0, 2)], {"shape": (2, 2)}, [[0, 0], [0, 0]]),
    ("scatter_nd", [ints([1], [1]), reals(2, 0)], {"shape": (2, 0)}, [[], []]),
    ("scatter_nd", [none(0), reals()], {"shape": ()}, 0),
    ("sparse_to_dense", [none(), reals(1) + 5, reals(1)], {"shape": (2,)}, [5, 0]),
    ("sparse_to_dense", [none(2, 0), reals(2), reals(1)], {"shape": ()}, 1),
    ("dynamic_slice", [reals(), none(0)], {"sizes": ()}, 0),
    ("dynamic_slice", [reals(2, 2), ints(1, 1)], {"sizes": (0, 2)}, np.zeros((0, 2))),
    ("dynamic_update_slice", [reals(), reals() + 3, none(0)], {}, 3),
    ("dynamic_update_slice", [reals(2, 2), reals(0, 2), ints(1, 1)], {}, [[0, 1], [2, 3]]),
    ("gather_nd", [reals(2, 2), none(1, 0)], {}, [[[0, 1], [2, 3]]]),
    ("gather_nd", [reals(2, 2), none(0, 2)], {}, []),
    ("gather", [reals(0, 4), none(0)], {"axis": 0}, np.zeros((0, 4))),
    ("bucketize", [reals(2)], {"boundaries": ()}, [0, 0]),
    ("arg_max", [reals(0, 3)], {"axis": 1}, []),
    ("reverse", [reals(), none(0)], {}, 0),
    ("reverse", [reals(0, 2), ints(0, 1)], {}, np.zeros((0, 2))),
    ("reverse_sequence", [reals(2, 0), none(2)], {"axis": 1}, [[], []]),
    ("segment_sum", [reals(0, 2), none(0)], {"segments": 2, "drops": False}, [[0, 0], [0, 0]]),
    ("segment_sum", [reals(2, 1), ints(-1, -5)], {"segments": 0, "drops": True}, np.zeros((0, 1))),
    ("embedding_lookup_sparse", [ints(1, 0), ints([0], [1]), reals(2), reals(3, 2)], {"shape": (2,)}, [0, 1]),
    ("mean", [none(0, 2)], {"axes": (0,)}, [0, 0]),
    ("mean", [none() + 5], {"axes": ()}, 5),
    ("reduce_max", [none(0, 1)], {"axes": (0,)}, [-(2**31)]),
    ("batch_matmul", [reals(2, 0), reals(0, 1)], {}, [[0], [0]]),
    ("cumsum", [reals(0, 3)], {"axis": 0}, np.zeros((0, 3))),
    ("cumsum", [reals(0, 3), ints(0)], {}, np.zeros((0, 3))),
    ("cumsum", [reals(3), ints(-1)], {}, [0, 1, 3]),
)


@pytest.mark.parametrize(("op", "inputs", "attrs", "expected"), CASES)
def test_edges(op: str, inputs: list[Array], attrs: dict[str, Any], expected: Any, backend: str) -> None:
    """Results on both backends are those worked out by hand."""
    (found,) = check(op, inputs, attrs, backend=backend)
    np.testing.assert_array_equal(found, np.asarray(expected, found.dtype))


def test_no_rows_and_rows_of_no_elements(backend: str) -> None:
    """The first 0 or all of rows of no elements, and of no rows."""
    for shape, k in (((3, 0), 0), ((0, 3), 2), ((2, 1000), 0)):
        values, indices = check("top_k", [reals(*shape)], {"k": k}, backend=backend)
        assert values.shape == indices.shape == (shape[0], k)
