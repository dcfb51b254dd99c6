"""Cases of operators that reduce, order, cut and move tensors of several types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.types import DType, Quantization, TensorType, float32
from tests.importers.tflite.case import Case, Item, ints

F32, I32, I64, BOOL = DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL
RNG = np.random.default_rng(5)


def int32(*shape: int) -> TensorType:
    return TensorType(I32, shape)


def i8(*shape: int) -> TensorType:
    return TensorType(DType.INT8, shape, Quantization((0.5,), (3,)))


def u8(*shape: int) -> TensorType:
    return TensorType(DType.UINT8, shape, Quantization((0.25,), (100,)))


IMAGE = float32(2, 5, 6, 3)
MATRIX = float32(4, 6)
KEEP = {"keep_dims": True}
RESIZES = (
    {},
    {"align_corners": True},
    {"half_pixel_centers": True},
)
ROWS: list[tuple[str, Sequence[Item], Sequence[DType], Mapping[str, Any]]] = [
    *(
        (operator, [x, ints(*axes)], [dtype], {"output_type": dtype.name})
        for operator in ("ARG_MAX", "ARG_MIN")
        for x, axes, dtype in ((IMAGE, [3], I32), (IMAGE, [-3], I64), (i8(3, 70), [1], I32))
    ),
    *(
        ("BATCH_MATMUL", [a, b], [F32], options)
        for a, b, options in (
            (float32(2, 3, 4), float32(2, 4, 5), {}),
            (float32(2, 4, 3), float32(5, 4), {"adj_x": True, "adj_y": True}),
            (float32(3, 2, 4), float32(3, 4, 8), {}),
        )
    ),
    *(
        ("CUMSUM", [x, ints(1)[0]], [x.dtype], {"exclusive": e, "reverse": not e})
        for x in (MATRIX, int32(2, 3))
        for e in (False, True)
    ),
    *(("EXPAND_DIMS", [x, ints(axis)], [x.dtype], {}) for x in (MATRIX, i8(2, 3)) for axis in (0, 1, -1)),
    *(("GATHER", [x, ints([4, 0], [2, 2])], [x.dtype], {"axis": 1}) for x in (IMAGE, int32(2, 5), i8(3, 5))),
    ("GATHER", [float32(2, 5, 4), ints([4, 0, 3], [2, 2, 1])], [F32], {"axis": 1, "batch_dims": 1}),
    ("GATHER_ND", [IMAGE, ints([0, 4], [1, 3], [1, 0])], [F32], {}),
    ("LOG_SOFTMAX", [MATRIX], [F32], {}),
    *(
        ("MIRROR_PAD", [MATRIX, ints([1, 2], [3, 0])], [F32], {"mode": mode})
        for mode in ("REFLECT", "SYMMETRIC")
    ),
    *(
        ("PACK", [x, x, x], [x.dtype], {"axis": a, "values_count": 3})
        for x in (MATRIX, u8(4))
        for a in (0, -1)
    ),
    ("PACK", [int32(4), int32(4)], [I32], {"axis": 1, "values_count": 2}),
    ("RANK", [IMAGE], [I32], {}),
    *(("REDUCE_ALL", [TensorType(BOOL, (3, 2, 4)), ints(*axes)], [BOOL], KEEP) for axes in ([1], [0, -1])),
    *(("REDUCE_ANY", [TensorType(BOOL, (3, 2, 4)), ints(*axes)], [BOOL], {}) for axes in ([1], [0, -1])),
    *(
        (operator, [x, ints(1, -2)], [x.dtype], options)
        for operator in ("REDUCE_MAX", "REDUCE_MIN")
        for x in (IMAGE, int32(2, 3, 4, 5), i8(2, 3, 4, 5), u8(2, 3, 4, 5))
        for options in ({}, KEEP)
    ),
    *(
        (operator, [x, ints(1, -2)], [x.dtype], options)
        for operator in ("REDUCE_PROD", "SUM")
        for x in (IMAGE, int32(2, 3, 4, 5))
        for options in ({}, KEEP)
    ),
    *(
        ("RESIZE_NEAREST_NEIGHBOR", [x, ints(*size)], [x.dtype], mode)
        for x in (IMAGE, i8(1, 5, 7, 4))
        for size in ((3, 11), (15, 12), (10, 14))
        for mode in RESIZES
    ),
    *(("REVERSE_V2", [IMAGE, ints(*axes)], [F32], {}) for axes in ([0], [1, 2])),
    ("SHAPE", [IMAGE], [I32], {"out_type": "INT32"}),
    ("SHAPE", [IMAGE], [I64], {"out_type": "INT64"}),
    *(
        ("SLICE", [x, ints(1, 0, 2), ints(1, -1, 3)], [x.dtype], {})
        for x in (float32(3, 2, 8), int32(3, 2, 8), u8(3, 2, 8))
    ),
    ("SPARSE_TO_DENSE", [ints([0, 1], [2, 0]), ints(3, 4), float32(2), np.array(-1, np.float32)], [F32], {}),
    *(
        ("SPLIT", [ints(axis)[0], x], [x.dtype] * 2, {"num_splits": 2})
        for x in (MATRIX, i8(4, 6))
        for axis in (0, -1)
    ),
    ("SPLIT_V", [MATRIX, ints(1, 3, 2), np.array(1, np.int32)], [F32] * 3, {"num_splits": 3}),
    ("SPLIT_V", [MATRIX, ints(1, -1), np.array(-2, np.int32)], [F32] * 2, {"num_splits": 2}),
    ("SUM", [i8(2, 1, 2, 5), ints(1, -2)], [DType.INT8], {}),
    ("TILE", [float32(2, 3, 4), ints(2, 1, 3)], [F32], {}),
    ("TILE", [int32(2, 3), ints(2, 1)], [I32], {}),
    ("TOPK_V2", [MATRIX, np.array(2, np.int32)], [F32, I32], {}),
    ("TOPK_V2", [int32(4, 9), np.array(9, np.int32)], [I32, I32], {}),
    *(("TOPK_V2", [MATRIX, np.array(2, np.int16)], [F32, places], {}) for places in (I32, DType.INT16)),
    *(
        (
            "TRANSPOSE_CONV",
            [ints(2, *size, 3), RNG.random((3, 3, 2, 5), np.float32), x, *bias],
            [F32],
            options,
        )
        for size, x, options in (
            ((8, 10), float32(2, 4, 5, 5), {"padding": "SAME", "stride_h": 2, "stride_w": 2}),
            ((9, 11), float32(2, 4, 5, 5), {"padding": "VALID", "stride_h": 2, "stride_w": 2}),
            ((9, 10), float32(2, 3, 10, 5), {"padding": "SAME", "stride_h": 3, "stride_w": 1}),
        )
        for bias in ([], [RNG.random(3, np.float32)])
    ),
    # Indices of 64 bits, other ranks and axes, whole tensors, and no elements of them.
    ("ARG_MAX", [float32(2, 3, 4), np.array([1])], [I64], {"output_type": "INT64"}),
    ("BATCH_MATMUL", [float32(2, 1, 3, 4), float32(5, 4, 6)], [F32], {}),
    ("BATCH_TO_SPACE_ND", [float32(4, 3, 3), ints(2), ints([1, 0])], [F32], {}),
    ("CUMSUM", [float32(2, 3, 4), ints(-1)[0]], [F32], {}),
    ("EXPAND_DIMS", [MATRIX, np.array([1])], [F32], {}),
    ("GATHER", [MATRIX, np.array([2, 0])], [F32], {"axis": -1}),
    ("GATHER", [MATRIX, np.array([2, 0], np.int16)], [F32], {}),
    ("GATHER_ND", [MATRIX, np.array([[2, 0], [0, 3]], np.int16)], [F32], {}),
    ("GATHER_ND", [MATRIX, np.array([[2, 0], [1, 1]])], [F32], {}),
    ("GATHER_ND", [MATRIX, ints([2], [1])], [F32], {}),
    ("LOG_SOFTMAX", [IMAGE], [F32], {}),
    ("MIRROR_PAD", [MATRIX, np.array([[1, 1], [0, 2]])], [F32], {"mode": "SYMMETRIC"}),
    ("REDUCE_ALL", [TensorType(BOOL, (2, 3)), ints(0)], [BOOL], {}),
    ("REDUCE_MAX", [float32(2, 3, 4), ints(0, 1, 2)], [F32], {}),
    ("REVERSE_V2", [float32(3, 4, 5), ints(-1)], [F32], {}),
    ("SPACE_TO_BATCH_ND", [float32(2, 5, 3), ints(2), ints([0, 1])], [F32], {}),
    ("SPARSE_TO_DENSE", [ints(0, 2, 4), ints(5), float32(3), np.array(-1, np.float32)], [F32], {}),
    ("SPARSE_TO_DENSE", [ints(2)[0], ints(5), float32(), np.array(0, np.float32)], [F32], {}),
    (
        "SPARSE_TO_DENSE",
        [np.array([[0, 1]]), np.array([3, 4]), float32(1), RNG.random((), np.float32)],
        [F32],
        {},
    ),
    ("SPLIT", [ints(1)[0], float32(2, 6, 3)], [F32] * 3, {"num_splits": 3}),
    ("SUM", [float32(2, 3, 4), ints()], [F32], {}),
    ("SUM", [float32(0, 3), ints(0)], [F32], {}),
    ("TILE", [MATRIX, np.array([1, 2])], [F32], {}),
    ("TOPK_V2", [float32(9), np.array(3, np.int32)], [F32, I32], {}),
    ("TRANSPOSE", [float32(2, 3, 4, 5, 6), ints(4, 1, 0, 3, 2)], [F32], {}),
    *(("UNPACK", [x], [x.dtype] * 4, {"axis": 0, "num": 4}) for x in (MATRIX, int32(4, 2), u8(4, 3))),
    ("UNPACK", [float32(2, 3)], [F32] * 3, {"axis": -1, "num": 3}),
]

CASES = [Case(*row) for row in ROWS]
