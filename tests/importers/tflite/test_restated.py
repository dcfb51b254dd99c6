"""Operators on stored integers in files that state other scales for results than for inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.importers.tflite.restated import MOVED, ONLY, PLAIN, SEVERAL
from gpunn.model import load
from gpunn.types import Array, DType, TensorType
from tests.importers.tflite.case import ints
from tests.ops.quantized import quantized, stored
from tests.tflite_builder import litert_run, single_op

I8, U8, I16, I32 = DType.INT8, DType.UINT8, DType.INT16, DType.INT32
POOL = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}
EITHER = np.array([[True, False, True, False], [False] * 4, [True] * 4])
IMAGE = (1, 4, 6, 4)


def of(dtype: DType, scale: float = 0.1, zero: int = 3) -> Any:
    """Make types of a dtype with one scale and zero point, of any shape."""
    return lambda *shape: quantized(dtype, shape, scale, 0 if dtype is I16 else zero)


Row = tuple[str, Sequence[Array | TensorType], Sequence[tuple[int, ...]], Mapping[str, Any], int]


def rows(dtype: DType) -> list[Row]:
    """Operator, inputs, shapes of results, options, version; the inputs have two different scales."""
    x, z = of(dtype), of(dtype, 0.25, 40)
    return [
        ("AVERAGE_POOL_2D", [x(*IMAGE)], [(1, 3, 5, 4)], POOL, 1),
        ("AVERAGE_POOL_2D", [x(*IMAGE)], [(1, 3, 5, 4)], {**POOL, "fused_activation_function": "RELU6"}, 1),
        ("BITWISE_XOR", [x(3, 4), z(3, 4)], [(3, 4)], {}, 1),
        ("BROADCAST_TO", [x(1, 4), ints(3, 4)], [(3, 4)], {}, 2),
        ("CONCATENATION", [x(3, 4), z(2, 4)], [(5, 4)], {"axis": 0}, 1),
        ("DEPTH_TO_SPACE", [x(*IMAGE)], [(1, 8, 12, 1)], {"block_size": 2}, 1),
        ("DILATE", [x(3, 4), ints(2, 2), z()], [(5, 7)], {}, 1),
        ("DYNAMIC_UPDATE_SLICE", [x(3, 4), z(1, 2), ints(1, 1)], [(3, 4)], {}, 2),
        ("EMBEDDING_LOOKUP", [ints(2, 0), x(3, 4)], [(2, 4)], {}, 1),
        ("GATHER", [x(3, 4), ints(2, 0)], [(2, 4)], {}, 1),
        ("GATHER_ND", [x(3, 4), ints([0, 1], [2, 3])], [(2,)], {}, 1),
        ("MATRIX_DIAG", [x(3)], [(3, 3)], {}, 1),
        ("MATRIX_SET_DIAG", [x(3, 4), z(3)], [(3, 4)], {}, 1),
        ("MAXIMUM", [x(3, 4), z(4)], [(3, 4)], {}, 2),
        ("MAX_POOL_2D", [x(*IMAGE)], [(1, 3, 5, 4)], {**POOL, "fused_activation_function": "RELU"}, 1),
        ("MINIMUM", [x(3, 4), z(3, 4)], [(3, 4)], {}, 2),
        ("ONE_HOT", [ints(2, 0, 5), ints(4)[0], x(), z()], [(3, 4)], {"axis": -1}, 1),
        ("PAD", [x(3, 4), ints([1, 0], [0, 2])], [(4, 6)], {}, 1),
        ("RESHAPE", [x(3, 4), ints(4, 3)], [(4, 3)], {}, 1),
        ("RESIZE_BILINEAR", [x(*IMAGE), ints(8, 12)], [(1, 8, 12, 4)], {}, 3),
        ("RESIZE_NEAREST_NEIGHBOR", [x(*IMAGE), ints(7, 5)], [(1, 7, 5, 4)], {}, 3),
        (
            "REVERSE_SEQUENCE",
            [x(3, 4), ints(1, 4, 2)],
            [(3, 4)],
            {"seq_dim": 1, "batch_dim": 0},
            1,
        ),
        ("REVERSE_V2", [x(3, 4), ints(1)], [(3, 4)], {}, 1),
        ("RIGHT_SHIFT", [x(3, 4), z(3, 4)], [(3, 4)], {}, 1),
        ("SCATTER_ND", [ints([1], [0]), x(2, 4), ints(3, 4)], [(3, 4)], {}, 1),
        ("SELECT", [EITHER, x(3, 4), z(3, 4)], [(3, 4)], {}, 1),
        ("SELECT_V2", [EITHER, x(3, 4), z(4)], [(3, 4)], {}, 1),
        ("SLICE", [x(3, 4), ints(1, 0), ints(2, 3)], [(2, 3)], {}, 1),
        ("SPACE_TO_DEPTH", [x(*IMAGE)], [(1, 2, 3, 16)], {"block_size": 2}, 1),
        ("SPARSE_TO_DENSE", [ints([0, 1], [2, 0]), ints(3, 4), x(2), z()], [(3, 4)], {}, 1),
        ("SPLIT", [ints(0)[0], x(4, 6)], [(2, 6)] * 2, {"num_splits": 2}, 1),
        ("SPLIT_V", [x(4, 6), ints(1, 3), ints(0)[0]], [(1, 6), (3, 6)], {"num_splits": 2}, 1),
        ("SQUEEZE", [x(3, 1, 4)], [(3, 4)], {}, 1),
        ("STRIDED_SLICE", [x(3, 4), ints(0, 1), ints(3, 4), ints(2, 1)], [(2, 3)], {}, 1),
        ("TILE", [x(3, 4), ints(2, 1)], [(6, 4)], {}, 1),
        ("TOPK_V2", [x(3, 4), ints(2)[0]], [(3, 2), (3, 2)], {}, 1),
        ("TRANSPOSE", [x(3, 4), ints(1, 0)], [(4, 3)], {}, 1),
    ]


# LiteRT has no kernel of these types.
NOT_THERE = {
    "DEPTH_TO_SPACE": (I16,),
    "ONE_HOT": (I16,),
    "REVERSE_SEQUENCE": (I8,),
    "SCATTER_ND": (I16,),
    "SPACE_TO_DEPTH": (I16,),
    "SPARSE_TO_DENSE": (I16,),
}
CASES = [
    (dtype, row)
    for dtype in (I8, U8, I16)
    for row in rows(dtype)
    if dtype is ONLY.get(row[0], dtype) and dtype not in NOT_THERE.get(row[0], ())
]


def made(dtype: DType, row: Row) -> tuple[bytes, list[Array]]:
    """A file of one operator, whose results have scales of their own, and its inputs."""
    operator, inputs, shapes, options, version = row
    kinds = [of(dtype, 0.3, 7)(*shapes[0]), *(of(dtype, 0.7, 1)(*shape) for shape in shapes[1:])]
    if operator == "TOPK_V2":
        kinds[1] = TensorType(I32, shapes[1])
    types = [t for t in inputs if isinstance(t, TensorType)]
    file = single_op(operator, inputs, kinds, options, version=version)
    return file, [stored(k, type) for k, type in enumerate(types)]


@pytest.mark.parametrize(("dtype", "row"), CASES, ids=[f"{row[0]}-{d.value}" for d, row in CASES])
def test_stored_integers_do_not_change_with_the_stated_scale(dtype: DType, row: Row, backend: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    file, inputs = made(dtype, row)
    answers = litert_run(file, inputs)
    model = load(file)
    with model.compile(backend=backend) as compiled:
        found = compiled(*inputs)
    for result, answer in zip(found if isinstance(found, tuple) else (found,), answers, strict=True):
        np.testing.assert_array_equal(result, answer)
    assert all(w.startswith(f"operation 0, {row[0]}: ") and "as in LiteRT" in w for w in model.warnings)
    assert len(model.warnings) == len({*model.warnings}) > 0
    assert model.outputs[0].type.quantization == of(dtype, 0.3, 7)(1).quantization


def test_every_such_operator_has_a_case() -> None:
    assert {row[0] for _, row in CASES} == MOVED.keys() >= {*PLAIN, *SEVERAL, *ONLY}
