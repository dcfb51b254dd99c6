"""Cases in float32: arithmetic, windows, products, and movement of elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.types import Array, float32
from tests.importers.tflite.case import F32, Case, Item, ints

RNG = np.random.default_rng(3)


def rand(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


IMAGE = float32(2, 7, 6, 4)
ADD_LIKE = ("ADD", "SUB", "MUL", "DIV")
POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
ROWS: list[tuple[str, Sequence[Item], Mapping[str, Any] | None]] = [  # operator, inputs, options
    *((o, [IMAGE, IMAGE], None) for o in (*ADD_LIKE, "MAXIMUM", "MINIMUM")),
    *((o, [IMAGE, rand(4)], None) for o in (*ADD_LIKE, "MAXIMUM", "MINIMUM", "PRELU")),
    *(
        ("ADD", [IMAGE, IMAGE], {"fused_activation_function": a})
        for a in ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
    ),
    *((o, [IMAGE, rand(2, 1, 6, 1)], {"fused_activation_function": "RELU"}) for o in ADD_LIKE),
    *(
        (o, [IMAGE], {"padding": p, "stride_w": 2, "stride_h": 3, "filter_width": 3, "filter_height": 2})
        for o in POOLS
        for p in ("SAME", "VALID")
    ),
    *(
        (
            o,
            [IMAGE],
            {
                "stride_w": 1,
                "stride_h": 1,
                "filter_width": 2,
                "filter_height": 2,
                "fused_activation_function": "RELU6",
            },
        )
        for o in POOLS
    ),
    *(("CONCATENATION", [float32(2, 3, 4), rand(2, 3, 4)], {"axis": a}) for a in (0, 1, 2, -1, -3)),
    ("CONCATENATION", [float32(2, 3), float32(2, 1), float32(2, 5)], {"axis": 1}),
    *(
        (
            "CONV_2D",
            [IMAGE, rand(5, 3, 2, 4), rand(5)],
            {"padding": p, "stride_w": 2, "stride_h": 1, "fused_activation_function": a},
        )
        for p in ("SAME", "VALID")
        for a in ("NONE", "RELU6")
    ),
    (
        "CONV_2D",
        [IMAGE, rand(5, 3, 2, 4), rand(5)],
        {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 3, "dilation_h_factor": 2},
    ),
    ("CONV_2D", [IMAGE, rand(6, 3, 3, 2), rand(6)], {"stride_w": 1, "stride_h": 1}),
    *(
        (
            "DEPTHWISE_CONV_2D",
            [IMAGE, rand(1, 3, 2, 4 * m), rand(4 * m)],
            {"padding": p, "stride_w": s, "stride_h": s, "depth_multiplier": m, "dilation_h_factor": d},
        )
        for p in ("SAME", "VALID")
        for m, s, d in ((1, 1, 1), (2, 2, 1), (1, 1, 2))
    ),
    ("FULLY_CONNECTED", [float32(3, 8), rand(5, 8), rand(5)], {"fused_activation_function": "RELU"}),
    ("FULLY_CONNECTED", [float32(3, 8), rand(5, 8)], None),
    ("FULLY_CONNECTED", [float32(2, 3, 8), rand(5, 8), None], None),
    ("FULLY_CONNECTED", [float32(2, 3, 4), rand(5, 12), rand(5)], None),
    ("FULLY_CONNECTED", [float32(2, 3, 8), rand(5, 8), rand(5)], {"keep_num_dims": True}),
    *((o, [IMAGE], None) for o in ("HARD_SWISH", "LOGISTIC", "RELU", "RELU6", "RELU_N1_TO_1", "TANH")),
    ("LEAKY_RELU", [IMAGE], {"alpha": 0.3}),
    *(
        ("MEAN", [IMAGE, ints(*a)], {"keep_dims": k})
        for a in ((1, 2), (-1,), (1, -3, 1))
        for k in (True, False)
    ),
    ("MEAN", [IMAGE, np.array(1, np.int32)], None),
    ("PAD", [float32(2, 3), ints([1, 2], [0, 3])], None),
    *(
        ("PAD", [float32(2, 3), np.array([[1, 1], [0, 1]], dtype)], None)
        for dtype in (np.int64, np.int16, np.int8, np.bool_)
    ),
    ("PADV2", [float32(2, 3), ints([1, 2], [0, 3]), np.array(-1.5, np.float32)], None),
    ("RESHAPE", [IMAGE, ints(2, -1)], None),
    ("RESHAPE", [IMAGE, ints(6, 7, 8)], {"new_shape": [1, 1]}),
    ("RESHAPE", [IMAGE], {"new_shape": [-1, 12]}),
    ("RESHAPE", [float32(1, 1)], {"new_shape": [0]}),
    *(
        ("RESIZE_BILINEAR", [IMAGE, ints(*size)], mode)
        for size in ((3, 11), (14, 12))
        for mode in (None, {"align_corners": True}, {"half_pixel_centers": True})
    ),
    ("SOFTMAX", [float32(3, 9)], {"beta": 1.0}),
    ("SOFTMAX", [IMAGE], {"beta": 0.5}),
    ("SQUEEZE", [float32(1, 3, 1, 2, 1)], None),
    ("SQUEEZE", [float32(1, 3, 1, 2, 1)], {"squeeze_dims": [-1, 2]}),
    ("TRANSPOSE", [IMAGE, ints(3, 0, 2, 1)], None),
    ("TRANSPOSE", [IMAGE, ints(-1, 0, -2, 1)], None),
    *(
        ("STRIDED_SLICE", [float32(4, 5, 6), ints(1, -4, 2), ints(3, 4, 3), ints(1, 2, 1)], options)
        for options in (
            {"begin_mask": 0b10},
            {"end_mask": 0b101},
            {"shrink_axis_mask": 0b1},
            {"shrink_axis_mask": 0b10, "begin_mask": 0b10},
            {"ellipsis_mask": 0b1},
            {"ellipsis_mask": 0b100},
            {"ellipsis_mask": 0b10, "shrink_axis_mask": 0b100},
            {"new_axis_mask": 0b10},
            {"new_axis_mask": 0b100, "ellipsis_mask": 0b1},
            {"new_axis_mask": 0b1, "shrink_axis_mask": 0b10},
            {"offset": True},
        )
    ),
]

CASES = [Case(operator, inputs, [F32], options) for operator, inputs, options in ROWS]
