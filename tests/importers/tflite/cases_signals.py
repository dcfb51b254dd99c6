"""Cases of operators on complex numbers and on signals."""

from __future__ import annotations

import numpy as np

from gpunn.types import DType, TensorType, float32
from tests.importers.tflite.case import Case, Fed, ints

C64, F32 = DType.COMPLEX64, DType.FLOAT32
NUMBERS = np.array([1j, 2.7 + 1j, -3.5, 0, 100.2 - 3j], np.complex64)


def complex64(*shape: int) -> TensorType:
    return TensorType(C64, shape)


PARTS = [Case(operator, [complex64(2, 3, 4)], [F32]) for operator in ("COMPLEX_ABS", "IMAG", "REAL")]
TRANSFORMS = [
    Case("RFFT2D", [float32(*shape), ints(*length)], [C64])
    for shape, length in (
        ((2, 4, 8), (4, 8)),
        ((4, 8), (4, 8)),
        ((2, 2, 3, 7), (4, 8)),
        ((2, 5, 9), (4, 8)),
        ((3, 1, 16), (1, 16)),
        ((2, 8, 2), (8, 2)),
        ((5, 1, 400), (1, 512)),
    )
]
MOVES = [
    Case("BITCAST", [complex64(2, 3)], [F32]),
    Case("BITCAST", [complex64(2, 3)], [DType.INT64]),
    Case("BITCAST", [float32(3, 2)], [C64]),
    Case("BROADCAST_TO", [complex64(2, 1), ints(3, 2, 4)], [C64], version=2),
    Case("DYNAMIC_UPDATE_SLICE", [complex64(5, 4), complex64(2, 3), ints(1, 1)], [C64]),
    Case("FILL", [ints(2, 3), complex64()], [C64]),
    Case("MUL", [complex64(2, 3, 4), complex64(4)], [C64]),
    Case("MUL", [complex64(2, 5), NUMBERS], [C64]),
    Case("RANK", [complex64(2, 3)], [DType.INT32]),
    Case("SHAPE", [complex64(2, 3)], [DType.INT32], {"out_type": "INT32"}),
]
CASTS = [
    *(
        Case("CAST", [Fed(NUMBERS)], [dtype])
        for dtype in (F32, DType.INT32, DType.INT64, DType.INT16, DType.INT8, DType.BOOL, C64)
    ),
    *(
        Case("CAST", [TensorType(dtype, (2, 3))], [C64])
        for dtype in (F32, DType.INT32, DType.INT64, DType.INT16, DType.INT8, DType.UINT8, DType.BOOL)
    ),
]
CASES = (*PARTS, *TRANSFORMS, *MOVES, *CASTS)
