"""Cases of operators that came after 2018 and are rare in models, and of types that few operators take."""

from __future__ import annotations

import numpy as np

from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.case import Case, Fed, Known, ints
from tests.ops.harness import random
from tests.ops.quantized import quantized

F16, I16, I32, I64, BOOL = DType.FLOAT16, DType.INT16, DType.INT32, DType.INT64, DType.BOOL
WHOLE = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 5), dtype=np.int32)
BYTES = np.random.default_rng(1).integers(1, 100, (3, 5)) * np.array([1, -1, 1, -1, 1])
STRIDES = {"stride_d": 1, "stride_h": 2, "stride_w": 1}
VOLUME = float32(1, 4, 6, 5, 3)
FILTER, BIAS = random(2, 3, 2, 3, 3, 4), random(3, 4)
U8 = quantized(DType.UINT8, (), 0.25, 100)
SEGMENTS = ints(3, 0, -1, 0, 3)

LATER = (
    Case("ADD_N", [float32(3, 5)] * 4),
    Case("BITWISE_XOR", [Fed(WHOLE), Fed(WHOLE[0])], [I32]),
    Case("BROADCAST_TO", [float32(3, 1, 5), ints(2, 3, 4, 5)], version=2),
    Case("CONV_3D", [VOLUME, FILTER, BIAS], options={**STRIDES, "padding": "SAME"}),
    Case(
        "CONV_3D",
        [VOLUME, Fed(FILTER)],
        options={**STRIDES, "padding": "VALID", "fused_activation_function": "RELU6"},
    ),
    Case("DYNAMIC_UPDATE_SLICE", [float32(3, 4), float32(2, 2), Fed(ints(1, 1))]),
    Case("DYNAMIC_UPDATE_SLICE", [float32(3, 4), float32(2, 2), Fed(ints(-5, 9))]),
    Case("DYNAMIC_UPDATE_SLICE", [float32(2, 5, 8), float32(2, 3, 8), Fed(ints(0, 1, 0))]),
    *(
        case
        for x in (float32(3, 4), TensorType(I32, (5,)), U8.with_shape((2, 3, 4)))
        for case in (
            Case("MATRIX_DIAG", [x], [x.dtype]),
            Case("MATRIX_SET_DIAG", [x.with_shape((*x.shape, x.shape[-1] + 1)), x], [x.dtype]),
        )
    ),
    Case("RELU_0_TO_1", [float32(3, 5)]),
    *(
        Case("REVERSE_SEQUENCE", [x, Fed(ints(2, 4, 0))], [x.dtype], {"seq_dim": seq, "batch_dim": batch})
        for x, seq, batch in (
            (float32(3, 4, 5), 1, 0),
            (float32(4, 3, 8), 0, 1),
            (TensorType(I32, (2, 3, 4)), 2, 1),
            (U8.with_shape((3, 5, 4)), 2, 0),
        )
    ),
    Case("RIGHT_SHIFT", [Fed(WHOLE), Fed(ints(0, 1, 31, 40, -3))], [I32]),
    Case("SCATTER_ND", [Fed(ints([1], [3], [1])), float32(3, 4), ints(5, 4)]),
    Case("SCATTER_ND", [Fed(ints([[1, 0]], [[0, 2]], [[1, 0]])), float32(3, 1, 4), ints(2, 3, 4)]),
    Case("SCATTER_ND", [ints([2, 1], [0, 0], [2, 1]), Fed(ints(5, 7, -2)), ints(3, 2)], [I32]),
    Case("SEGMENT_SUM", [float32(5, 3), ints(0, 0, 1, 1, 2)]),
    Case("SEGMENT_SUM", [float32(4, 2, 4), ints(0, 1, 1, 2)]),
    Case("SEGMENT_SUM", [Fed(WHOLE), ints(0, 0, 1)], [I32]),
    *(
        Case(f"UNSORTED_SEGMENT_{name}", [data, Fed(SEGMENTS), ints(5)[0]], [dtype])
        for name in ("MAX", "MIN", "PROD", "SUM")
        for data, dtype in ((float32(5, 8), DType.FLOAT32), (Fed(WHOLE.T.copy() % 7), I32))
    ),
)


def _small(dtype: type) -> list[Array]:
    return [BYTES.astype(dtype), BYTES[::-1].astype(dtype)]


# Integers of 8 and 16 bits without quantisation, and float16, if LiteRT has kernels for them.
SMALL = (
    *(
        Case(name, [Fed(v) for v in _small(dtype)], [result or DType.of(dtype)])
        for name, dtypes, result in (
            ("BITWISE_XOR", (np.uint8, np.int8, np.int16), None),
            ("CONCATENATION", (np.int16,), None),
            ("EQUAL", (np.int16,), BOOL),
            ("FLOOR_DIV", (np.int8, np.int16), None),
            ("FLOOR_MOD", (np.int8, np.int16), None),
            ("GREATER_EQUAL", (np.int16,), BOOL),
            ("LESS", (np.int16,), BOOL),
            ("MAXIMUM", (np.uint8, np.int8, np.int16), None),
            ("MINIMUM", (np.uint8, np.int8, np.int16), None),
            ("RIGHT_SHIFT", (np.uint8, np.int8, np.int16), None),
        )
        for dtype in dtypes
    ),
    *(Case("MEAN", [TensorType(dtype, (3, 5)), ints(0)], [dtype]) for dtype in (I32, I64)),
    *(
        Case(
            name,
            [Fed(np.asarray(v, np.float16)) for v in (random(0, 3, 5), random(1, 3, 5))[:count]],
            [result],
        )
        for name, count, result in (
            ("ADD", 2, F16),
            ("CONCATENATION", 2, F16),
            ("FLOOR", 1, F16),
            ("LESS", 2, BOOL),
            ("MAXIMUM", 2, F16),
            ("MUL", 2, F16),
            ("NEG", 1, F16),
        )
    ),
)


def _int16(*shape: int, scale: float = 1 / 4000) -> TensorType:
    return quantized(I16, shape, scale)


X, SAME = _int16(2, 7, 5, 6), {"stride_w": 1, "stride_h": 1, "padding": "SAME"}
POOL = {**SAME, "filter_width": 3, "filter_height": 2}
SUMS = Known(TensorType(I64, (6,)))


def _filter(axis: int, *shape: int) -> Known:
    scales = tuple(float(np.float32(s)) for s in np.linspace(0.01, 0.02, shape[axis]))
    return Known(TensorType(DType.INT8, shape, Quantization(scales, (0,) * shape[axis], axis)))


# Quantised int16; tests/ops/normalization/test_quantized_int16.py has more of them.
WIDE = (
    *(
        Case(name, [X, X], [_int16(2, 7, 5, 6, scale=1 / 2000)], {"pot_scale_int16": False})
        for name in ("ADD", "SUB")
    ),
    Case("MUL", [X, X], [_int16(2, 7, 5, 6, scale=1 / 2000)]),
    *(Case(name, [X, X], [I16]) for name in ("MAXIMUM", "MINIMUM", "CONCATENATION")),
    *(Case(name, [X], [I16], POOL) for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D")),
    Case("CONV_2D", [X, _filter(0, 6, 3, 3, 6), SUMS], [_int16(1, scale=1 / 300)], SAME),
    Case("DEPTHWISE_CONV_2D", [X, _filter(3, 1, 3, 3, 6), SUMS], [_int16(1, scale=1 / 300)], SAME),
    Case(
        "TRANSPOSE_CONV",
        [ints(2, 7, 5, 6), _filter(0, 6, 3, 3, 6), X, SUMS],
        [_int16(1, scale=1 / 300)],
        SAME,
        4,
    ),
    *(Case(name, [X], [I16]) for name in ("ABS", "NEG", "RELU", "RELU6")),
    Case("LEAKY_RELU", [X], [I16], {"alpha": 0.1}),
    Case("SOFTMAX", [_int16(5, 30)], [_int16(1, scale=2**-15)], {"beta": 1.0}),
    Case("MEAN", [X, ints(1, 2)], [_int16(1, scale=1 / 9000)]),
    *(Case(name, [X, ints(1, 2)], [I16]) for name in ("REDUCE_MAX", "REDUCE_MIN")),
    Case("RESIZE_BILINEAR", [X, ints(9, 3)], [I16], {"half_pixel_centers": True}),
    Case("RESHAPE", [X, ints(14, -1)], [I16]),
    Case("PAD", [X, ints([0, 0], [1, 1], [1, 2], [0, 0])], [I16]),
    Case("QUANTIZE", [X], [quantized(DType.INT8, (1,), 0.1, 3)]),
    Case("DEQUANTIZE", [X]),
    # LiteRT uses interpolation tables, gpunn rounds the result once: they differ by a step or two.
    Case("LOGISTIC", [X], [_int16(1, scale=2**-15)], steps=1),
    Case("GELU", [X], [I16], steps=2),
    # LiteRT multiplies the sum by the real factor, gpunn in fixed point.
    Case("FULLY_CONNECTED", [_int16(2, 6), _filter(0, 6, 6), SUMS], [_int16(1, scale=1 / 300)], steps=1),
)
CASES = (*LATER, *SMALL, *WIDE)
