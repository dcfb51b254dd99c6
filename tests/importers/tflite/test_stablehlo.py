"""StableHLO operators without a kernel in LiteRT, against numpy; and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.model import load
from gpunn.passes import optimise
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import random, type_of
from tests.tflite_builder import Graph, single_op

X, Y = random(1, 3, 4, 5), random(2, 3, 4, 5)
POSITIVE = np.abs(X) + np.float32(0.5)
WHOLE = np.random.default_rng(3).integers(-100, 100, (3, 4), dtype=np.int32)


def longs(*values: Any) -> Array:
    return np.array(values, np.int64)


def at(value: int) -> Array:
    """Return the constant start of a slice along one dimension."""
    return np.array(value, np.int32)


def contracted() -> dict[str, Array]:
    return {
        "lhs_batching_dimensions": longs(2),
        "rhs_batching_dimensions": longs(0),
        "lhs_contracting_dimensions": longs(1, 0),
        "rhs_contracting_dimensions": longs(1, 3),
    }


# Operator, inputs (scalars of int32 are constants), options, expected results.
CASES: list[tuple[str, Sequence[Array], Mapping[str, Any], Array]] = [
    ("ABS", [X], {}, np.abs(X)),
    ("AND", [X > 0, Y > 0], {}, (X > 0) & (Y > 0)),
    (
        "BROADCAST_IN_DIM",
        [X[:, :1, 0]],
        {"broadcast_dimensions": longs(2, 1)},
        np.broadcast_to(X[None, :, 0, 0][..., None, :], (2, 4, 3)),
    ),
    ("BROADCAST_IN_DIM", [np.float32(3)], {}, np.full((2, 3), 3, np.float32)),
    ("CLAMP", [np.float32(-1), X, np.float32(2)], {}, np.clip(X, -1, 2)),
    *(
        (
            "COMPARE",
            [WHOLE, WHOLE[::-1].copy()],
            {"comparison_direction": number},
            function(WHOLE, WHOLE[::-1]),
        )
        for number, function in enumerate(
            (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)
        )
    ),
    ("CONCATENATE", [X, Y], {"dimension": 1}, np.concatenate([X, Y], 1)),
    ("CONVERT", [X], {}, X.astype(np.int32)),
    ("COSINE", [X], {}, np.cos(X)),
    ("DIVIDE", [X, POSITIVE], {}, X / POSITIVE),
    (
        "DOT_GENERAL",
        [X, random(4, 5, 4, 2, 3)],
        contracted(),
        np.einsum("abn,nbca->nc", X, random(4, 5, 4, 2, 3)),
    ),
    (
        "DOT_GENERAL",
        [X[0], Y[0]],
        {"lhs_contracting_dimensions": longs(1), "rhs_contracting_dimensions": longs(1)},
        X[0] @ Y[0].T,
    ),
    ("DYNAMIC_SLICE", [X, at(1), at(9), at(-2)], {"slice_sizes": longs(2, 2, 3)}, X[1:3, 2:4, :3]),
    (
        "DYNAMIC_UPDATE_SLICE",
        [WHOLE, WHOLE[:2, :2] * 0, at(2), at(1)],
        {},
        WHOLE * np.pad(np.zeros((2, 2), np.int32), ((1, 0), (1, 1)), constant_values=1),
    ),
    ("EXPONENTIAL", [X], {}, np.exp(X)),
    ("FLOOR", [X], {}, np.floor(X)),
    ("IOTA", [], {"iota_dimension": 1}, np.arange(4, dtype=np.float32) + np.zeros((3, 4), np.float32)),
    ("LOG", [POSITIVE], {}, np.log(POSITIVE)),
    ("LOGISTIC", [X], {}, 1 / (1 + np.exp(-X))),
    ("NEGATE", [X], {}, -X),
    ("OR", [X > 0, Y > 0], {}, (X > 0) | (Y > 0)),
    ("OR", [WHOLE, WHOLE[::-1].copy()], {}, WHOLE | WHOLE[::-1]),
    ("POWER", [POSITIVE, Y], {}, POSITIVE**Y),
    ("RESHAPE", [X], {}, X.reshape(5, 12)),
    ("RSQRT", [POSITIVE], {}, 1 / np.sqrt(POSITIVE)),
    ("SELECT", [X > 0, X, Y], {}, np.where(X > 0, X, Y)),
    (
        "SLICE",
        [X],
        {"start_indices": longs(1, 0, 2), "limit_indices": longs(3, 4, 3), "strides": longs(1, 3, 1)},
        X[1:3, ::3, 2:3],
    ),
    ("SUBTRACT", [X, Y], {}, X - Y),
    ("TANH", [X], {}, np.tanh(X)),
    ("TRANSPOSE", [X], {"permutation": longs(2, 0, 1)}, X.transpose(2, 0, 1)),
]


def single(operator: str, inputs: Sequence[Array], options: Mapping[str, Any], result: TensorType) -> bytes:
    """Return a file with the operator; scalars are constants."""
    graph = Graph()
    numbers = [graph.input(type_of(v)) if v.ndim else graph.constant(v) for v in map(np.asarray, inputs)]
    return graph.build(graph.add(f"STABLEHLO_{operator}", numbers, [result], options))


@pytest.mark.parametrize(("operator", "inputs", "options", "expected"), CASES)
def test_operator(
    operator: str, inputs: Sequence[Array], options: Mapping[str, Any], expected: Array, backend: str
) -> None:
    file = single(operator, inputs, options, type_of(np.asarray(expected)))
    with load(file).compile(backend=backend) as compiled:
        found = compiled(*[v for v in inputs if np.ndim(v)])
        assert all(p.backend in (backend, "alias") for p in compiled.placement)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


ROW = np.ones((2, 3), np.float32)
ZERO = np.float32(0)
WRONG: list[tuple[str, Sequence[Array], Mapping[str, Any], str]] = [
    (
        "BROADCAST_IN_DIM",
        [ROW],
        {"broadcast_dimensions": longs(0)},
        "do not lead from float32.2, 3. to .2, 3.",
    ),
    ("BROADCAST_IN_DIM", [ROW], {"broadcast_dimensions": longs(1, 1)}, "do not lead from"),
    ("BROADCAST_IN_DIM", [ROW], {"broadcast_dimensions": longs(1, 2)}, "do not lead from"),
    ("COMPARE", [ROW, ROW], {"comparison_direction": 6}, "no comparison direction number 6"),
    ("DOT_GENERAL", [ROW, ROW], {"lhs_contracting_dimensions": longs(2)}, "has no dimensions"),
    ("DOT_GENERAL", [ROW, ROW], {"lhs_batching_dimensions": longs(0, 0)}, "has no dimensions"),
    ("DOT_GENERAL", [ROW, ROW], {"lhs_contracting_dimensions": longs(1)}, ""),
    ("DYNAMIC_SLICE", [ROW, at(0), at(0)], {"slice_sizes": longs(2)}, "2 starts and 1 sizes"),
    ("DYNAMIC_SLICE", [ROW, at(0), at(0)], {"slice_sizes": longs(2, 4)}, "does not fit"),
    ("DYNAMIC_SLICE", [ROW, at(0), at(0)], {"slice_sizes": longs(2, -1)}, "does not fit"),
    (
        "GATHER",
        [ROW, longs([0])],
        {"slice_sizes": longs(1, 3), "index_vector_dim": 3},
        "no vectors of 0 indices",
    ),
    ("GATHER", [ROW, longs([0])], {"slice_sizes": longs(1, 3), "start_index_map": longs(0)}, "do not make"),
    ("GATHER", [ROW, longs([0])], {"slice_sizes": longs(1), "start_index_map": longs(0)}, "takes slices of"),
    (
        "GATHER",
        [ROW, longs([0])],
        {"slice_sizes": longs(1, 3), "start_index_map": longs(2)},
        "takes slices of",
    ),
    (
        "GATHER",
        [ROW, longs([0])],
        {"slice_sizes": longs(3, 3), "start_index_map": longs(0), "offset_dims": longs(1, 2)},
        "do not fit",
    ),
    ("GATHER", [ROW, longs([0])], {"slice_sizes": longs(1, -3), "start_index_map": longs(0)}, "do not fit"),
    ("IOTA", [], {"iota_dimension": 2}, "cannot count along dimension 2"),
    ("PAD", [ROW, ZERO], {"edge_padding_low": longs(1)}, "pads float32.2, 3. by .1."),
    ("PAD", [ROW, ZERO], {"interior_padding": longs(0, -1)}, "pads float32.2, 3. by"),
    ("SLICE", [ROW], {"start_indices": longs(0), "limit_indices": longs(1)}, "cuts .0. ... .1."),
    ("SLICE", [ROW], {"start_indices": longs(0, 2), "limit_indices": longs(2, 1)}, "cuts .0, 2. ... .2, 1."),
    ("SLICE", [ROW], {"start_indices": longs(0, 0), "limit_indices": longs(2, 4)}, "cuts .0, 0. ... .2, 4."),
    (
        "SLICE",
        [ROW],
        {"start_indices": longs(0, 0), "limit_indices": longs(2, 3), "strides": longs(1, 0)},
        "by .1, 0. of",
    ),
    ("TRANSPOSE", [ROW], {"permutation": longs(0, 0)}, "perm must name each"),
]


@pytest.mark.parametrize(("operator", "inputs", "options", "reason"), WRONG)
def test_wrong_operators_are_refused(
    operator: str, inputs: Sequence[Array], options: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises((FormatError, ModelError), match=f"operation 0, STABLEHLO_{operator}.*{reason}"):
        load(single(operator, inputs, options, float32(2, 3)))


def test_extents_around_no_elements_are_bounded() -> None:
    """A file may state any extents of empty tensors; nothing of that size is allocated."""
    none = TensorType(DType.INT32, (0, 2))
    large, slices = float32(1 << 15, 1 << 15), float32(0, 1 << 15, 1 << 15)
    ways = {"index_vector_dim": 1, "offset_dims": longs(1, 2), "start_index_map": longs(0, 1)}
    ways["slice_sizes"] = longs(*large.shape)
    model = load(single_op("STABLEHLO_GATHER", [large, none], [slices], ways))
    assert [o.op for o in optimise(model).operations] == ["gather_slices"]
    with pytest.raises(UnsupportedError, match="2147483647 numbers are too many"):
        load(single_op("STABLEHLO_IOTA", [], [float32(0, (1 << 31) - 1)], {"iota_dimension": 1}))
