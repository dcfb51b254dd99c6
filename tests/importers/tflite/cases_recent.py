"""Cases of the newest operators: boxes of detectors, bits, dilation."""

from __future__ import annotations

import numpy as np

from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.case import Case, Fed, ints
from tests.ops.harness import random

I16, I32, I64, F32 = DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32
WHOLE = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 5), dtype=np.int32)
TRANSPOSED = random(4, 2, 2, 3, 4, 3)
SHORT = WHOLE.astype(np.int16)
MOST = np.array(6, np.int32)


def _boxes(count: int) -> list[Fed]:
    """Return boxes that overlap a little or much, in either order of corners, and scores."""
    corners = random(5, count, 4, low=0, high=3)
    corners[::3, 2:] = corners[::3, :2] + np.float32(1)
    return [Fed(corners), Fed(np.abs(random(6, count)))]


def _number(value: float) -> Array:
    return np.array(value, np.float32)


CASES = (
    # The newest versions of a few operators take int16 without quantisation.
    *(Case(name, [Fed(SHORT)], [I16], version=version) for name, version in (("ABS", 5), ("NEG", 1))),
    *(
        Case(name, [Fed(SHORT), Fed(SHORT[::-1].copy())], [I16], version=version)
        for name, version in (("ADD", 6), ("MUL", 8))
    ),
    Case("ATAN2", [float32(3, 5), float32(3, 5)]),
    *(
        Case("BITCAST", [Fed(value)], [target])
        for value, target in (
            (random(1, 3, 4), I32),
            (WHOLE, F32),
            (WHOLE, DType.UINT8),
            (WHOLE[:, 1:].copy().view(np.int8).reshape(3, 4, 4), I32),
            (WHOLE, I16),
            (WHOLE[:, 1:].reshape(3, 2, 2), I64),
        )
    ),
    Case("BROADCAST_ARGS", [ints(3, 1, 5), ints(4, 1)], [I32]),
    *(
        Case(
            "CONV_3D_TRANSPOSE",
            [ints(*size), TRANSPOSED, float32(*shape), random(5, 4)],
            options={"stride_d": stride[0], "stride_h": stride[1], "stride_w": stride[2], "padding": padding},
        )
        for size, shape, stride, padding in (
            ((1, 5, 6, 7, 4), (1, 5, 3, 7, 3), (1, 2, 1), "SAME"),
            ((2, 8, 3, 5, 4), (2, 3, 2, 3, 3), (3, 1, 1), "VALID"),
            ((1, 4, 5, 6, 4), (1, 2, 2, 2, 3), (2, 3, 3), "SAME"),
        )
    ),
    *(
        Case("DILATE", [x, ints(*steps), np.zeros((), x.dtype.numpy) + 7], [x.dtype])
        for x, steps in (
            (float32(2, 3, 4), (1, 2, 3)),
            (float32(2, 3, 4, 8), (1, 2, 3, 1)),
            (TensorType(I32, (1, 3)), (2, 1)),
            (TensorType(DType.INT8, (5,)), (3,)),
        )
    ),
    *(
        Case("NON_MAX_SUPPRESSION_V4", [*_boxes(20), most, _number(overlap), _number(least)], [I32, I32])
        for most, overlap, least in ((MOST, 0.5, 0.0), (MOST, 0.2, 2.5), (MOST * 5, 1.0, 1.0), (MOST, 0, 9))
    ),
    *(
        Case(
            "NON_MAX_SUPPRESSION_V5",
            [*_boxes(20), MOST, _number(overlap), _number(0.5), _number(sigma)],
            [I32, F32, I32],
        )
        for overlap, sigma in ((0.5, 0.0), (0.9, 0.3), (1.0, 0.05))
    ),
    *(
        Case(
            "REDUCE_WINDOW",
            [Fed(values), np.array(start, values.dtype), *(np.array(v, np.int64) for v in extents)],
            [DType.of(values.dtype)],
            {"reduce_function": number},
        )
        for number, values, start in (
            (1, random(8, 4, 7, 6), 0.5),
            (2, random(8, 4, 7, 6, low=0.5, high=1.5), 1),
            (2, (random(8, 4, 7, 6) * 30).astype(np.int8), -3),
            (2, (random(8, 4, 7, 6) * 99).astype(np.int16), 5),
            (3, random(8, 4, 7, 6), np.inf),
            (4, random(8, 4, 7, 6), 1.5),
            (4, (random(8, 4, 7, 6) * 99).astype(np.int32), -(2**31)),
            (5, random(8, 4, 7, 6) > -3, True),
            (6, random(8, 4, 7, 6) > 3, False),
            (5, np.round(random(8, 4, 7, 6)), -0.5),
            (5, np.round(random(8, 4, 7, 6)).astype(np.int64), 1),
            (5, np.abs(np.round(random(8, 4, 7, 6))).astype(np.uint8), 3),
            (6, np.round(random(8, 4, 7, 6) / 3), 0.0),
            (6, np.zeros((4, 7, 6), np.int8), 2),
        )
        for extents in (
            ((1, 3, 2), (1, 2, 1), (1, 1, 2)),
            ((2, 1, 3), (1, 3, 2), (3, 1, 1)),
        )
    ),
    *(
        Case(f"STABLEHLO_{name}", [Fed(a), Fed(b)], [DType.of(a.dtype)])
        for name in ("ADD", "MAXIMUM", "MINIMUM", "MULTIPLY")
        for a, b in (
            (random(1, 3, 5), random(2, 3, 5)),
            (WHOLE, WHOLE[::-1].copy()),
            (WHOLE > 0, WHOLE[::-1] > 0),
        )
    ),
    *(
        Case("STABLEHLO_AND", [Fed(a), Fed(b)], [DType.of(a.dtype)])
        for a, b in ((WHOLE, WHOLE[::-1].copy()), (WHOLE > 0, WHOLE[::-1] > 0))
    ),
    *(
        Case(
            "STABLEHLO_GATHER",
            [float32(3, 4, 5), Fed(np.array(indices, dtype))],
            [float32(*result)],
            {
                "offset_dims": np.array(offsets, np.int64),
                "collapsed_slice_dims": np.array(collapsed, np.int64),
                "start_index_map": np.array(named, np.int64),
                "index_vector_dim": vector,
                "slice_sizes": np.array(sizes, np.int64),
            },
        )
        for indices, dtype, offsets, collapsed, named, vector, sizes, result in (
            ([[1], [9], [-1]], np.int32, (1, 2), (0,), (0,), 1, (1, 4, 5), (3, 4, 5)),
            ([[0, 2], [1, 3], [2, 0]], np.int64, (1,), (0, 1), (0, 1), 1, (1, 1, 5), (3, 5)),
            ([[2, 1, 0], [3, 3, 4]], np.int32, (1, 2), (1,), (1, 2), 0, (2, 1, 3), (3, 2, 3)),
            ([[[1, 2]], [[0, 9]]], np.int32, (0, 1, 3), (), (2, 0), 2, (2, 4, 3), (2, 4, 2, 3, 1)),
        )
    ),
    *(
        Case(
            "STABLEHLO_PAD",
            [x, np.zeros((), x.dtype.numpy) + 7],
            [x.dtype],
            {
                "edge_padding_low": np.array(low, np.int64),
                "edge_padding_high": np.array(high, np.int64),
                "interior_padding": np.array(between, np.int64),
            },
        )
        for x, low, high, between in (
            (float32(3, 4), (1, 0), (2, 3), (0, 0)),
            (float32(3, 4), (-1, 2), (1, -2), (2, 1)),
            (TensorType(I32, (2, 1, 5)), (0, 1, -2), (0, 0, -1), (1, 3, 0)),
        )
    ),
    *(
        Case("STABLEHLO_SHIFT_LEFT", [Fed(WHOLE.astype(dtype)), Fed(by.astype(dtype))], [DType.of(dtype)])
        for dtype in (np.int32, np.int16, np.int8)
        for by in (np.resize(np.arange(7), (3, 5)),)
    ),
    *(
        Case("UNIQUE", [Fed(values)], [DType.of(values.dtype), to], {"idx_out_type": to.name})
        for values in (np.round(random(7, 30)), ints(5, 3, 5, 1, 3, 7), ints(2).astype(np.int64))
        for to in (I32, I64)
    ),
)
