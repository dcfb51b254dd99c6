"""int64 tensors: two words on the GPU, the same bits on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.ops.elementwise import binary, unary
from gpunn.ops.indexing import segment
from gpunn.ops.reduction import reduce
from gpunn.types import Array, DType
from tests.ops.harness import check, random

SHAPES = ((5,), (3, 8), (2, 3, 7), (2, 1, 4, 3), (0, 3), ())


def int64(seed: int, *shape: int) -> Array:
    """Return numbers of all lengths up to 64 bits, about equally many of each, and both ends of the range."""
    generator = np.random.default_rng(seed)
    bits = generator.integers(-(2**63), 2**63, shape, dtype=np.int64)
    numbers = np.asarray(bits >> generator.integers(0, 63, shape))
    numbers.flat[:2] = (2**63 - 1, -(2**63))[: numbers.size]
    return numbers


def indices(*values: int) -> Array:
    return np.array(values, np.int64)


def of_int64(table: Any) -> list[str]:
    """Return the lines of a table that take int64."""
    return [line.name for line in table if DType.INT64 in line.dtypes]


@pytest.mark.parametrize("name", of_int64(unary.TABLE))
def test_functions_of_one_number(name: str, backend: str) -> None:
    for seed, shape in enumerate(SHAPES):
        check(name, [int64(seed, *shape)], backend=backend)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", of_int64(binary.TABLE))
def test_functions_of_two_numbers(name: str, backend: str) -> None:
    for seed, (a, b) in enumerate((*zip(SHAPES, SHAPES, strict=True), ((2, 3, 7), (7,)), ((), (3, 8)))):
        check(name, [int64(seed, *a), int64(seed + 9, *b)], backend=backend)
    check(name, [int64(1, 2, 1, 4, 3), int64(2, 3, 1, 1)], backend=backend)
    check(name, [int64(1, 2, 1, 4, 8), int64(2, 3, 1, 8)], backend=backend)


@pytest.mark.parametrize("activation", unary.ACTIVATIONS)
def test_fused_activations(activation: str, backend: str) -> None:
    if unary.ACTIVATIONS[activation].integer:
        check("add", [int64(1, 3, 5), int64(2, 5)], {"activation": activation}, backend=backend)


@pytest.mark.parametrize("name", of_int64(reduce.TABLE))
def test_reductions(name: str, backend: str) -> None:
    x = int64(0, 3, 70, 8)
    for axes in ((), (0,), (1,), (2,), (0, 2), (0, 1, 2)):
        for given in (x, x[:, :0], x[..., :5]):
            check(name, [given], {"axes": axes}, backend=backend)


PICKED = int64(1, 6, 3, 5)
IMAGE = int64(3, 2, 4, 6, 8)
BLOCKS = {"block_shape": (2, 2)}
CASES: list[tuple[str, list[Array], dict[str, Any]]] = [
    *(("transpose", [int64(1, *shape)], {"perm": (2, 0, 1)}) for shape in ((3, 5, 7), (4, 8, 2), (0, 3, 4))),
    ("strided_slice", [int64(1, 9, 8)], {"begin": (1, 0), "end": (8, 8), "strides": (2, 1)}),
    ("strided_slice", [int64(1, 9, 7)], {"begin": (None, 6), "end": (None, None), "strides": (-1, -2)}),
    *(
        (op, [int64(1, 3, 2, n)], {"paddings": ((1, 0), (0, 0), (2, 1)), **more})
        for op, more in (("pad", {"value": -(2**63)}), ("pad", {}), ("mirror_pad", {"mode": "reflect"}))
        for n in (5, 4)
    ),
    *(("concat", [int64(1, 3, n), int64(2, 3, m)], {"axis": 1}) for n, m in ((5, 2), (4, 8), (0, 1))),
    ("stack", [int64(1, 3, 5), int64(2, 3, 5)], {"axis": 1}),
    *(("unstack", [int64(1, 2, n)], {"axis": 0}) for n in (5, 8)),
    ("split", [int64(1, 9, 3)], {"sizes": (4, 0, 5), "axis": 0}),
    ("tile", [int64(1, 3, 5)], {"multiples": (2, 3)}),
    ("broadcast_to", [int64(1, 3, 1)], {"shape": (2, 3, 4)}),
    ("fill", [int64(1, 1)], {"shape": (3, 5)}),
    *(("gather", [int64(1, 6, n), indices(5, 0, 2)], {}) for n in (5, 8)),
    ("gather", [random(1, 6, 8), indices(5, 0, 2)], {}),
    *(("gather_nd", [x, indices(5, 0, 2, 1).reshape(2, 2)], {}) for x in (PICKED, PICKED.astype(np.int8))),
    ("embedding_lookup", [indices(3, 1).astype(np.int32), int64(1, 6, 7)], {}),
    ("one_hot", [indices(2, 0, -1, 2**32, 1), int64(1, 1), int64(2, 1)], {"depth": 3}),
    ("one_hot", [indices(2, 0, 2**32 + 1, 1), random(1, 1), random(2, 1)], {"depth": 3, "axis": 0}),
    *(
        ("select", [random(1, *c) > 0, int64(2, *a), int64(3, *b)], {})
        for c, a, b in (
            ((3, 5), (3, 5), (3, 5)),
            ((6,), (6,), (6,)),
            ((3, 1), (3, 8), (8,)),
            ((), (4,), (4,)),
        )
    ),
    ("scatter_nd", [indices(0, 2, 2, 0).reshape(4, 1), int64(1, 4, 3)], {"shape": (3, 3)}),
    ("sparse_to_dense", [indices(4, 0), int64(1, 2), int64(2)], {"shape": (6,)}),
    *(
        (line.name, [int64(1, 5, 3), indices(2, 0, 2, -1, 4)], {"segments": 5, "drops": True})
        for line in segment.TABLE
    ),
    ("reverse", [int64(1, 2, 5, 3), indices(-1, 0)], {}),
    ("reverse_sequence", [int64(1, 2, 5, 3), indices(4, 0)], {"axis": 1}),
    ("dynamic_slice", [int64(1, 6, 8), indices(2**40, -(2**40))], {"sizes": (3, 4)}),
    ("dynamic_update_slice", [int64(1, 6, 8), int64(2, 3, 4), indices(2**40, -(2**40))], {}),
    ("matrix_diag", [int64(1, 2, 3)], {}),
    ("matrix_set_diag", [int64(1, 2, 3, 4), int64(2, 2, 3)], {}),
    ("resize_nearest", [IMAGE], {"size": (5, 9)}),
    ("depth_to_space", [IMAGE], {"block_size": 2}),
    ("space_to_depth", [IMAGE], {"block_size": 2}),
    ("space_to_batch_nd", [IMAGE], {**BLOCKS, "paddings": ((1, 1), (0, 2)), "value": 2**62 + 1}),
    ("batch_to_space_nd", [int64(4, 8, 2, 3, 3)], {**BLOCKS, "crops": ((1, 0), (0, 1))}),
    *(
        (op, [int64(1, *shape)], {"axis": 1})
        for op in ("arg_max", "arg_min")
        for shape in ((3, 200), (2, 5, 3))
    ),
    *((op, [np.zeros((2, 9), np.int64)], {"axis": -1, "dtype": "int64"}) for op in ("arg_max", "arg_min")),
    *(("top_k", [int64(1, 3, 9)], {"k": k}) for k in (0, 4, 9)),
    ("top_k", [int64(1, 3, 9) >> 62], {"k": 5}),
    *(("cumsum", [int64(1, 3, 9)], {"axis": axis, "reverse": bool(axis)}) for axis in (0, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{[v.shape for v in case[1]]}")
def test_ops(case: tuple[str, list[Array], dict[str, Any]], backend: str) -> None:
    op, inputs, attrs = case
    check(op, inputs, attrs, backend=backend, atol=0, rtol=0)
