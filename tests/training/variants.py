"""More calls of ops with a gradient, for the CPU: other attributes, and ops that are written in others.

Like those of cases.py they have no ties and kinks, so central differences hold for them, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training.cases import Case, ints, lstm_operands, recurrent
from tests.training.differences import distinct

FLAT, FEW = distinct(1, 5, 7), distinct(2, 2, 3, 4)
HALF = np.float32(0.53)  # none of the numbers in FLAT

WINDOWS: list[Case] = [
    (
        "reduce_window",
        [FLAT],
        {"function": "max", "size": (2, 3), "strides": (1, 2), "dilations": (2, 1)},
    ),
    (
        "reduce_window",
        [FLAT, HALF],
        {"function": "max", "size": (2, 3), "paddings": ((1, 0), (0, -1)), "base_dilations": (2, 1)},
    ),
    *(
        ("reduce_window", [FLAT, HALF], {"function": function, "size": (2, 3), "paddings": ((1, 0), (0, -1))})
        for function in ("sum", "prod", "min")
    ),
    *(
        ("reduce_from", [FLAT, HALF], {"function": function, "axes": (1,)})
        for function in ("sum", "prod", "max", "min")
    ),
    ("reduce_from", [FLAT, np.array([0.5], np.float32)], {"function": "sum", "axes": ()}),
    (
        "transpose_conv2d",
        [distinct(1, 1, 3, 2, 4), distinct(2, 3, 2, 2, 4), distinct(3, 3)],
        {"size": (5, 4), "stride": (2, 2), "padding": ((1, 0), (0, 0))},
    ),
    (
        "transpose_conv3d",
        [distinct(1, 1, 2, 3, 3, 4), distinct(2, 2, 2, 2, 3, 4)],
        {"size": (4, 5, 3), "stride": (2, 2, 1), "padding": "same", "dilation": (1, 1, 2)},
    ),
    (
        "transpose_conv3d",
        [distinct(1, 1, 2, 3, 2, 4), distinct(2, 2, 2, 2, 3, 4)],
        {"size": (3, 4, 3), "groups": 2},
    ),
    ("fully_connected", [FEW, distinct(1, 5, 4), distinct(2, 5)], {"keep_dims": True, "activation": "relu6"}),
    (
        "dot_general",
        [FEW, distinct(3, 5, 4, 2)],
        {"a_contracting": (2,), "b_contracting": (1,), "a_batch": (0,), "b_batch": (2,)},
    ),
    ("dot_general", [FEW, distinct(3, 3, 4, 2)], {"a_contracting": (2, 1), "b_contracting": (1, 0)}),
    (
        "max_unpool2d",
        [distinct(1, 1, 2, 2, 1), ints(3, 2, 1, 0).reshape(1, 2, 2, 1)],
        {"size": (2, 2), "stride": (3, 3)},
    ),
    ("softmax", [FEW], {"axis": 0}),
    (
        "local_response_normalization",
        [FEW],
        {"radius": 0, "bias": 2.0, "alpha": -0.01, "beta": 1.0, "axis": 0},
    ),
    ("cumsum", [FLAT, ints(1)], {"reverse": True}),
]

MOVEMENT: list[Case] = [
    ("clamp", [FLAT, distinct(2, 7, low=-2, high=0), distinct(3, 7, low=1, high=3)], {}),
    ("strided_slice", [FLAT], {"begin": (None, -2), "end": (None, None), "strides": (-1, -2)}),
    ("mirror_pad", [FEW], {"paddings": ((0, 1), (2, 2), (3, 0)), "mode": "symmetric"}),
    ("roll", [FEW], {"shifts": (-1, 0, 5)}),
    ("squeeze", [FEW[:, :1]], {"axes": (-2,)}),
    ("broadcast_in_dim", [FEW[0, :2, :3]], {"shape": (3, 4, 2), "dims": (2, 0)}),
    ("dilate", [distinct(1, 2, 3), HALF], {"steps": (2, 3), "paddings": ((1, 0), (-1, 2))}),
    ("batch_to_space_nd", [distinct(1, 6, 2, 3, 2)], {"block_shape": (3,), "crops": ((1, 2),)}),
    (
        "space_to_batch_nd",
        [distinct(1, 1, 3, 4, 2)],
        {"block_shape": (2, 1), "paddings": ((1, 0), (0, 0)), "value": 2.0},
    ),
    ("reverse_sequence", [distinct(1, 3, 4, 2), ints(2, 0)], {"axis": 1, "batch_axis": -1}),
    ("reverse_sequence", [distinct(1, 3, 4, 2), ints(2, 0, 3, 1)], {"axis": -3, "batch_axis": 1}),
]

INTO_ROWS: dict[str, Any] = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
INDEXING: list[Case] = [
    ("gather", [FEW, ints(1, 2)], {"axis": 1, "batch_dims": 1}),
    ("gather", [FEW, ints(1, 2, 0, 3, 1, 1).reshape(2, 3)], {"axis": -1, "batch_dims": -1}),
    ("gather", [FEW, np.array(1, np.int32)], {"axis": 1}),
    (
        "gather_slices",
        [distinct(1, 3, 4, 5), ints(0, 1, 1, 2, 0, 3).reshape(2, 3)],
        {
            "offset_dims": (0, 2),
            "collapsed_slice_dims": (2,),
            "start_index_map": (2, 0),
            "index_vector_dim": 0,
            "slice_sizes": (2, 3, 1),
        },
    ),
    (
        "gather_slices",  # one start below 0, and one behind the end
        [distinct(1, 7), ints(2, -4, 9).reshape(3, 1)],
        {
            "offset_dims": (1,),
            "collapsed_slice_dims": (),
            "start_index_map": (0,),
            "index_vector_dim": 1,
            "slice_sizes": (3,),
        },
    ),
    *(  # two updates for row 2, and one for none
        (
            "scatter_slices",
            [distinct(1, 4, 3), ints(2, 0, 2, -1), distinct(2, 4, 3)],
            {**INTO_ROWS, "function": function},
        )
        for function in (None, "sum", "prod", "max", "min")
    ),
    (  # two keys are equal, and one query is none of them
        "table_lookup",
        [ints(7, 3, 9, 7, 5, 3).reshape(2, 3), ints(3, 7, 5, 3), distinct(1, 4), distinct(2)],
        {},
    ),
    ("table_lookup", [ints(7, 3, 9), ints(3, 8), distinct(1, 2), distinct(2, 3)], {}),
    ("dynamic_update_slice", [distinct(1, 4, 5), distinct(2, 2, 3), ints(-1, 9)], {}),
    ("segment_min", [FLAT, ints(1, -1, 1, 1, 0)], {"segments": 2, "drops": True}),
    ("sparse_to_dense", [np.array(3, np.int32), distinct(1), distinct(2)], {"shape": (5,)}),
    ("sparse_to_dense", [ints(3, 1, 3), distinct(1), distinct(2)], {"shape": (5,)}),
    (
        "concat_embeddings",
        [ints(1, 0, 2, 0, 0, 1).reshape(2, 1, 3), distinct(1, 3, 2), distinct(2, 3, 4)],
        {"columns": (0, 3)},
    ),
    *(  # bags without rows among others, in two dimensions, and rows that are matrices
        (
            "embedding_lookup_sparse",
            [
                ints(1, 0, 2, 1),
                ints(0, 1, 0, 1, 0, 2, 0, 1, 1, 1, 0, 1).reshape(4, 3),
                distinct(1, 4, low=1),
                distinct(2, 3, 2, 2),
            ],
            {"shape": (2, 2, 3), "combiner": combiner},
        )
        for combiner in ("mean", "sqrtn")
    ),
]

RECURRENT: list[Case] = [
    ("rnn", recurrent((2, 3), (4, 3), (4, 4), (4,), (2, 4)), {}),
    ("rnn", recurrent((2, 3), (4, 3), (4, 4), (4,), (2, 4)), {"activation": "relu"}),
    ("gru_recurrence", recurrent((2, 3, 6), (6, 2), (3, 2)), {"clip": 0.403, "time_major": True}),
    ("gru_recurrence", recurrent((2, 3, 6), (6, 2), (2, 2)), {"activations": ("relu", "relu6")}),
    (
        "lstm_recurrence",
        recurrent((2, 3, 8), (8, 2), (2, 2), (2, 2), (6,)),
        {
            "clip": 0.303,
            "activations": (("hard_sigmoid", 0.25, 0.5), ("scaled_tanh", 1.5, 0.5), ("affine", 0.5, 0.25)),
        },
    ),
    ("lstm_recurrence", recurrent((2, 2, 6), (6, 2), (2, 2), (2, 2), (4,)), {"coupled": True}),
    ("lstm", lstm_operands(), {"reverse": True, "cell_clip": 0.303}),
    ("lstm", lstm_operands(1, 5, 9, 12, 20), {"activation": "relu"}),
    ("svdf", recurrent((2, 3), (4, 3), (4, 3), None, (2, 12)), {"rank": 1, "activation": "tanh"}),
    ("svdf", recurrent((2, 3), (4, 3), (4, 1), (2,), (2, 4)), {"rank": 2}),
]

POINTS = np.array([[2, 1, 9], [-1, 3, 9], [4, 2, 9], [1, -2, 9], [0.5, 3, 9], [2, 2, 9]], np.float32)
BOXES = np.array(
    [[0.3, 0.6, 2.7, 3.9], [2.3, 3.3, 0.8, 1.1], [-1.3, -0.6, 5.7, 6.2], [1.1, 1.2, 1.4, 1.3]], np.float32
)
VISION: list[Case] = [
    *(
        ("rotated_crop_matrix", [POINTS], {"scale": (1.5, 0.75), "origin": (0.25, 0.5), **attrs})
        for attrs in (
            {},
            {"rotation": 0.5, "stretch": (0.5, 0.25)},
            {"rotation": 0.5, "half_turn": True},
        )
    ),
    *(  # boxes that are upside down, reach beyond the image, and are less than a pixel
        ("crop_resize", [distinct(1, 2, 4, 5, 2), BOXES, ints(1, 0, 1, 0)], {"size": s, "sampling": how})
        for how in ("strict_align_endpoints", "align_endpoints", "upsample", "roi_align")
        for s in ((1, 1), (3, 4))
    ),
    (
        "warp_affine",
        [distinct(1, 2, 3, 4, 2), distinct(2, 2, 4, 4, low=-1.5, high=2)],
        {"size": (4, 3), "half_pixel_centers": True},
    ),
]

VARIANTS = [*WINDOWS, *MOVEMENT, *INDEXING, *RECURRENT, *VISION]
