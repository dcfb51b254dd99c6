"""Cases on quantised tensors, whose results are LiteRT's to the bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.case import Case, Fed, Item, Known, ints
from tests.ops.quantized import quantized

U8, I8 = DType.UINT8, DType.INT8
WINDOW = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}


def u8(*shape: int, scale: float = 0.04, zero: int = 120) -> TensorType:
    return quantized(U8, shape, scale, zero)


def i8(*shape: int, scale: float = 0.04, zero: int = -7) -> TensorType:
    return quantized(I8, shape, scale, zero)


def channels(type: TensorType, axis: int) -> TensorType:
    """Return the type with a scale for each index along an axis."""
    count = type.shape[axis]
    scales = tuple(float(s) for s in np.linspace(0.01, 0.05, count, dtype=np.float32))
    return TensorType(type.dtype, type.shape, Quantization(scales, (0,) * count, axis))


BIAS = ints(100, -200, 300, 50)
# Operator, inputs, constants (a type: random values), output, options, version.
Row = tuple[str, Sequence[TensorType], Sequence[Array | TensorType], TensorType, Mapping[str, Any], int]
ROWS: list[Row] = [
    ("ABS", [i8(256)], [], i8(256, scale=0.03), {}, 1),
    ("ADD", [u8(2, 5), u8(2, 5, scale=0.1)], [], u8(2, 5, scale=0.12), {}, 1),
    ("ADD", [i8(2, 5)], [i8(5)], i8(2, 5, zero=-128), {"fused_activation_function": "RELU6"}, 2),
    ("SUB", [u8(7), u8(7)], [], u8(7, scale=0.1), {}, 1),
    ("MUL", [i8(7), i8(7)], [], i8(7, scale=0.2), {}, 2),
    (
        "AVERAGE_POOL_2D",
        [u8(1, 4, 4, 3)],
        [],
        u8(1, 3, 3, 3),
        {**WINDOW, "filter_width": 2, "filter_height": 2},
        1,
    ),
    ("CONCATENATION", [u8(1, 3), u8(1, 4, scale=0.1)], [], u8(1, 7, scale=0.1), {"axis": 1}, 1),
    ("CONV_2D", [u8(1, 5, 5, 3)], [u8(4, 3, 3, 3, zero=99), BIAS], u8(1, 3, 3, 4, scale=0.3), WINDOW, 1),
    (
        "CONV_2D",
        [i8(1, 5, 5, 3)],
        [channels(i8(4, 3, 3, 3), 0), BIAS],
        i8(1, 3, 3, 4, scale=0.3),
        {**WINDOW, "fused_activation_function": "RELU6"},
        3,
    ),
    (
        "DEPTHWISE_CONV_2D",
        [i8(1, 5, 5, 4)],
        [channels(i8(1, 3, 3, 4), 3), BIAS],
        i8(1, 3, 3, 4, scale=0.3),
        {**WINDOW, "depth_multiplier": 1},
        3,
    ),
    ("DEQUANTIZE", [u8(2, 9)], [], float32(2, 9), {}, 1),
    ("DEPTH_TO_SPACE", [u8(1, 2, 3, 8)], [], u8(1, 4, 6, 2), {"block_size": 2}, 1),
    ("EXP", [i8(256)], [], i8(256, scale=0.5), {}, 1),
    *(
        (operator, [u8(9, 9), u8(9, 9, scale=0.1)], [], TensorType(DType.BOOL, (9, 9)), {}, 1)
        for operator in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    ),
    ("GELU", [i8(256)], [], i8(256), {}, 1),
    ("HARD_SWISH", [i8(256)], [], i8(256, scale=0.03), {}, 1),
    ("LEAKY_RELU", [u8(256)], [], u8(256), {"alpha": 0.2}, 2),
    ("LOGISTIC", [u8(256)], [], u8(256, scale=1 / 256, zero=0), {}, 1),
    ("MAXIMUM", [i8(9), i8(9)], [], i8(9), {}, 1),
    (
        "MAX_POOL_2D",
        [i8(1, 4, 4, 3)],
        [],
        i8(1, 3, 3, 3),
        {**WINDOW, "filter_width": 2, "filter_height": 2},
        2,
    ),
    ("MEAN", [i8(1, 4, 4, 3)], [ints(1, 2)], i8(1, 3, scale=0.02), {}, 2),
    ("MINIMUM", [u8(9), u8(9)], [], u8(9), {}, 1),
    ("PAD", [u8(2, 3)], [ints([1, 2], [0, 3])], u8(5, 6), {}, 1),
    ("PADV2", [i8(2, 3)], [ints([1, 2], [0, 3]), i8()], i8(5, 6), {}, 2),
    ("PRELU", [i8(1, 2, 2, 3)], [i8(1, 1, 3)], i8(1, 2, 2, 3), {}, 1),
    ("QUANTIZE", [i8(9)], [], u8(9), {}, 2),
    ("QUANTIZE", [float32(9)], [], i8(9), {}, 1),
    ("RELU", [i8(256)], [], i8(256, zero=-128), {}, 2),
    ("RELU6", [u8(256)], [], u8(256, scale=0.024, zero=0), {}, 2),
    ("RESHAPE", [u8(2, 6)], [ints(3, 4)], u8(3, 4), {}, 1),
    ("RESIZE_BILINEAR", [i8(1, 3, 3, 2)], [ints(5, 7)], i8(1, 5, 7, 2), {}, 2),
    ("SOFTMAX", [i8(3, 9)], [], i8(3, 9, scale=1 / 256, zero=-128), {"beta": 1.0}, 2),
    ("SQUEEZE", [i8(1, 4, 1)], [], i8(4), {}, 1),
    ("SQUARED_DIFFERENCE", [i8(2, 5), i8(5, scale=0.1)], [], i8(2, 5, scale=0.5), {}, 2),
    ("STRIDED_SLICE", [u8(4, 5)], [ints(1, 0), ints(3, 4), ints(1, 2)], u8(2, 2), {}, 1),
    ("SUM", [i8(2, 30, 4)], [ints(1)], i8(2, 1, 4, scale=0.3), {"keep_dims": True}, 2),
    ("TANH", [i8(256)], [], i8(256, scale=1 / 128, zero=0), {}, 2),
    ("TRANSPOSE", [i8(2, 3, 4)], [ints(2, 0, 1)], i8(4, 2, 3), {}, 2),
]
POSITIVE = i8(256, zero=-128)
INT8_ROWS: list[Row] = [  # LiteRT has no uint8 form of these, or zero points must be 0
    ("CAST", [i8(9)], [], u8(9), {}, 1),
    ("CAST", [float32(9)], [], i8(9), {}, 1),
    ("CAST", [TensorType(DType.INT32, (9,))], [], quantized(DType.INT16, (9,), 0.5), {}, 1),
    ("BATCH_MATMUL", [i8(2, 3, 4), i8(2, 4, 5)], [], i8(2, 3, 5, scale=0.2), {}, 2),
    ("BATCH_MATMUL", [i8(2, 4, 3), i8(5, 4)], [], i8(2, 3, 5, scale=0.2), {"adj_x": True, "adj_y": True}, 2),
    ("FULLY_CONNECTED", [i8(3, 8)], [i8(4, 8, zero=0), BIAS], i8(3, 4, scale=0.3), {}, 4),
    (
        "FULLY_CONNECTED",
        [i8(2, 3, 8)],
        [channels(i8(4, 8), 0), BIAS],
        i8(2, 3, 4, scale=0.1),
        {"keep_num_dims": True},
        5,
    ),
    ("DEQUANTIZE", [quantized(DType.INT16, (2, 9), 0.5)], [], float32(2, 9), {}, 3),
    ("DEQUANTIZE", [TensorType(DType.FLOAT16, (2, 9))], [], float32(2, 9), {}, 3),
    ("LOG", [POSITIVE], [], i8(256, scale=0.02), {}, 2),
    ("QUANTIZE", [float32(2, 9)], [], quantized(DType.INT16, (2, 9), 0.001), {}, 2),
    ("REDUCE_PROD", [i8(2, 3)], [ints(1)], i8(2), {}, 2),
    ("RSQRT", [POSITIVE], [], i8(256, scale=0.02, zero=-128), {}, 2),
    ("SQRT", [POSITIVE], [], i8(256, scale=0.02, zero=-128), {}, 2),
]


ONE_STEP = {"RSQRT", "SQRT"}  # gpunn rounds the real result once; LiteRT rounds differently


def _case(
    operator: str,
    inputs: Sequence[TensorType],
    constants: Sequence[Array | TensorType],
    output: TensorType,
    options: Mapping[str, Any],
    version: int,
) -> Case:
    known = [Known(c) if isinstance(c, TensorType) else c for c in constants]
    return Case(operator, [*inputs, *known], [output], options, version, int(operator in ONE_STEP))


NOT_TURNED = {"ABS", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "EXP", "SQUARED_DIFFERENCE"}


def _turned(case: Case) -> Case:
    """Return the case in the other 8-bit type, with the same real numbers."""
    items = [Known(_other(i.type)) if isinstance(i, Known) else _other(i) for i in case.inputs]
    return replace(case, inputs=items, outputs=[_other(o) for o in case.outputs])


def _other(item: Any) -> Any:
    if not isinstance(item, TensorType) or item.quantization is None:
        return item
    (scale,), (zero,) = item.quantization.scale, item.quantization.zero_point
    return (
        quantized(I8, item.shape, scale, zero - 128)
        if item.dtype is U8
        else quantized(U8, item.shape, scale, zero + 128)
    )


def _of_both_types(k: Callable[..., TensorType], lowest: int) -> list[Case]:
    """Return cases of operators that move, choose, order or compute stored values, in one 8-bit type."""
    d = k(1).dtype
    either, shape = Fed(np.array([True, False, True])), (2, 3)
    rows: list[tuple[str, Sequence[Item], Sequence[DType | TensorType], Mapping[str, Any]]] = [
        ("ARG_MIN", [k(3, 9), ints(1)], [DType.INT32], {"output_type": "INT32"}),
        ("BATCH_TO_SPACE_ND", [k(4, 2, 2, 2), ints(2, 2), ints([0, 0], [1, 0])], [d], {}),
        ("CONCATENATION", [k(1, 3), k(1, 4)], [k(1, 7)], {"axis": 1}),
        ("EMBEDDING_LOOKUP", [Fed(ints(2, 0)), Known(k(4, 3))], [k(2, 3)], {}),
        ("EXPAND_DIMS", [k(4), ints(0)], [d], {}),
        ("FILL", [ints(2, 2), Known(k())], [k(2, 2)], {}),
        ("GATHER", [k(3, 5), ints(2, 0)], [d], {}),
        ("GATHER_ND", [k(3, 4), ints([0, 1], [2, 3])], [d], {}),
        ("L2_NORMALIZATION", [k(4, 5)], [quantized(d, (4, 5), 1 / 128, lowest + 128)], {}),
        ("LOG_SOFTMAX", [k(3, 9)], [quantized(d, (3, 9), 16 / 256, lowest + 255)], {}),
        ("MIRROR_PAD", [k(3, 4), ints([1, 1], [0, 2])], [d], {"mode": "REFLECT"}),
        ("PACK", [k(4), k(4)], [d], {"axis": 0, "values_count": 2}),
        ("RELU_N1_TO_1", [k(256)], [d], {}),
        ("RESIZE_NEAREST_NEIGHBOR", [k(1, 3, 4, 2), ints(5, 7)], [d], {}),
        ("REVERSE_V2", [k(3, 4), ints(1)], [d], {}),
        ("SELECT", [Fed(np.array([True, False])), k(*shape), k(*shape)], [k(*shape)], {}),
        ("SELECT_V2", [either, k(*shape), k(*shape)], [k(*shape)], {}),
        ("SLICE", [k(3, 2, 8), ints(1, 0, 2), ints(1, -1, 3)], [d], {}),
        ("SPACE_TO_BATCH_ND", [k(1, 4, 4, 2), ints(2, 2), ints([0, 0], [1, 1])], [d], {}),
        ("SPACE_TO_DEPTH", [k(1, 4, 4, 2)], [d], {"block_size": 2}),
        ("SPARSE_TO_DENSE", [ints([0, 1], [2, 0]), ints(3, 4), k(2), Known(k())], [k(3, 4)], {}),
        ("SPLIT", [ints(0)[0], k(4, 6)], [d] * 2, {"num_splits": 2}),
        ("SPLIT_V", [k(4, 6), ints(1, 3, 2), np.array(1, np.int32)], [d] * 3, {"num_splits": 3}),
        ("TILE", [k(2, 3), ints(2, 1)], [d], {}),
        ("TOPK_V2", [k(3, 9), np.array(2, np.int32)], [d, DType.INT32], {}),
        ("UNPACK", [k(3, 4)], [d] * 3, {"axis": 0, "num": 3}),
    ]
    return [Case(*row) for row in rows]


_LISTED = [_case(*row) for row in ROWS]
CASES = [
    *_LISTED,
    *(_case(*row) for row in INT8_ROWS),
    *(_turned(case) for case in _LISTED if case.operator not in NOT_TURNED),
    *_of_both_types(u8, 0),
    *_of_both_types(i8, -128),
]
