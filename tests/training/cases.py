"""Calls of every op with a gradient, over shapes: odd ones, broadcast, channels not divisible by 4, empty."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.types import Array
from tests.training.differences import distinct

Case = tuple[str, list[Array | None], dict[str, Any]]


def convolution(op: str, x: tuple[int, ...], filter: tuple[int, ...], **attrs: Any) -> Case:
    bias = filter[3] if op == "depthwise_conv2d" else filter[0]
    return op, [distinct(1, *x), distinct(2, *filter, low=-1, high=1), distinct(3, bias)], attrs


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


POOLS = ("average_pool2d", "max_pool2d", "l2_pool2d")
DOMAINS = {
    **dict.fromkeys(("relu", "relu01", "relu1", "logistic", "tanh", "elu", "abs", "neg", "square"), (-3, 3)),
    **dict.fromkeys(("exp", "sin", "cos", "gelu", "gelu_tanh", "sinh", "cosh", "asinh", "erf"), (-3, 3)),
    **dict.fromkeys(("floor", "ceil", "round", "sign", "sign_bit", "zeros_like"), (-3.06, 3)),
    **dict.fromkeys(("log", "sqrt", "rsqrt"), (0.1, 3)),
    "relu6": (-3, 9),
    **dict.fromkeys(("silu", "hard_swish"), (-5, 5)),
    "acosh": (1.1, 3),
    "atanh": (-0.9, 0.9),
}

ELEMENTWISE: list[Case] = [
    *((op, [distinct(1, 3, 4, low=low, high=high)], {}) for op, (low, high) in DOMAINS.items()),
    ("relu", [distinct(1, 0, 3)], {}),
    ("leaky_relu", [distinct(1, 7)], {"alpha": 0.2}),
    *(
        (op, [distinct(1, *a), distinct(2, *b, low=0.5, high=3)], {})
        for op in ("add", "sub", "mul", "div", "maximum", "minimum", "squared_difference", "atan2")
        for a, b in (((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((), (2,)))
    ),
    *(
        (op, [distinct(1, 2, 3, low=0.1), distinct(2, 3, low=0.6, high=2)], {})
        for op in ("floor_mod", "floor_div")
    ),
    ("pow", [distinct(1, 2, 3, low=0.5, high=2), distinct(2, 3, low=-2, high=2)], {}),
    ("prelu", [distinct(1, 2, 3), distinct(2, 3)], {}),
    ("add", [distinct(1, 2, 3), distinct(2, 3)], {"activation": "relu6"}),
    ("mul", [distinct(1, 2, 3), distinct(2, 3)], {"activation": "tanh"}),
    ("select", [distinct(3, 2, 3) > 0, distinct(1, 2, 3), distinct(2, 3)], {}),
    *(
        (op, [distinct(1, 2, 3), distinct(2, 3), distinct(3, 2, 1)], {})
        for op in ("add_n", "mul_n", "maximum_n", "minimum_n")
    ),
    ("clamp", [distinct(1, 3, 5), np.float32(-1.01), np.float32(2.03)], {}),
]

MOVEMENT: list[Case] = [
    ("reshape", [distinct(1, 2, 6)], {"shape": (3, -1)}),
    ("squeeze", [distinct(1, 2, 1, 3)], {}),
    ("transpose", [distinct(1, 2, 3, 4)], {"perm": (2, 0, 1)}),
    (
        "strided_slice",
        [distinct(1, 5, 6, 4)],
        {"begin": (4, 1, 2), "end": (0, 6, None), "strides": (-2, 2, 1), "shrink_axes": (2,)},
    ),
    ("strided_slice", [distinct(1, 5, 6)], {"begin": (1, 0), "end": (3, 5), "strides": (1, 1)}),
    ("strided_slice", [distinct(1, 5, 6)], {"begin": (3, 0), "end": (3, 5), "strides": (1, 1)}),
    ("pad", [distinct(1, 2, 3)], {"paddings": ((1, 0), (2, 1)), "value": 1.0}),
    ("concat", [distinct(k, 2, n) for k, n in enumerate((3, 1, 4))], {"axis": -1, "activation": "relu"}),
    ("stack", [distinct(1, 2, 3), distinct(2, 2, 3)], {"axis": -1}),
    ("split", [distinct(1, 2, 6)], {"axis": 1, "sizes": (1, 2, 3)}),
    ("unstack", [distinct(1, 2, 3)], {"axis": 1}),
    ("tile", [distinct(1, 2, 3)], {"multiples": (2, 3)}),
    ("broadcast_to", [distinct(1, 2, 1)], {"shape": (3, 2, 4)}),
    ("broadcast_in_dim", [distinct(1, 2)], {"shape": (3, 2), "dims": (1,)}),
    ("fill", [distinct(1, 1)], {"shape": (2, 3)}),
    *(
        ("mirror_pad", [distinct(1, 3, 4)], {"paddings": ((1, 2), (2, 3)), "mode": m})
        for m in ("reflect", "symmetric")
    ),
    ("roll", [distinct(1, 3, 4)], {"shifts": (1, -2)}),
    ("rotary_embedding", [distinct(1, 2, 3, 6), distinct(2, 3, 6), distinct(3, 3)], {}),
    ("rotary_embedding", [distinct(1, 2, 4, 3), distinct(2, 2, 3), distinct(3, 2, 4, 1)], {"axis": 1}),
    ("depth_to_space", [distinct(1, 1, 2, 2, 8)], {"block_size": 2}),
    ("space_to_depth", [distinct(1, 1, 4, 2, 2)], {"block_size": 2}),
    ("batch_to_space_nd", [distinct(1, 4, 2, 3, 1)], {"block_shape": (2, 2), "crops": ((1, 0), (0, 2))}),
    ("space_to_batch_nd", [distinct(1, 1, 3, 4, 2)], {"block_shape": (2, 2), "paddings": ((1, 0), (0, 2))}),
    ("dilate", [distinct(1, 2, 3)], {"steps": (2, 3), "paddings": ((1, 0), (0, -1))}),
]

CONTRACTION: list[Case] = [
    convolution("conv2d", (2, 5, 6, 3), (4, 3, 3, 3), padding="same", activation="relu"),
    convolution("conv2d", (2, 5, 6, 3), (4, 3, 2, 3), stride=(2, 1)),
    convolution("conv2d", (1, 7, 8, 4), (8, 3, 3, 2), stride=(2, 2), padding="same"),
    convolution(
        "conv2d", (1, 9, 8, 2), (2, 3, 2, 2), dilation=(2, 3), stride=(2, 1), padding=((2, 1), (0, 3))
    ),
    convolution("conv2d", (2, 3, 4, 4), (12, 1, 1, 4)),
    convolution("conv2d", (1, 8, 8, 2), (3, 2, 2, 2), stride=(3, 3)),
    convolution("conv2d", (0, 3, 4, 4), (2, 1, 1, 4)),
    convolution("depthwise_conv2d", (2, 5, 6, 4), (1, 3, 3, 4), padding="same"),
    convolution("depthwise_conv2d", (2, 5, 6, 3), (1, 3, 2, 6), stride=(2, 1)),
    convolution(
        "depthwise_conv2d", (1, 8, 7, 2), (1, 3, 2, 2), dilation=(2, 1), stride=(2, 2), padding="same"
    ),
    convolution("transpose_conv2d", (1, 3, 4, 2), (3, 3, 3, 2), size=(6, 8), stride=(2, 2), padding="same"),
    convolution("transpose_conv2d", (2, 3, 3, 4), (4, 2, 3, 4), size=(4, 5)),
    (
        "fully_connected",
        [distinct(1, 3, 2, 2), distinct(2, 5, 4), distinct(3, 5)],
        {"activation": "logistic"},
    ),
    ("fully_connected", [distinct(1, 3, 2, 4), distinct(2, 5, 4)], {"keep_dims": True}),
    *(
        (
            "batch_matmul",
            [distinct(1, 2, 1, *((4, 3) if a else (3, 4))), distinct(2, 3, *((5, 4) if b else (4, 5)))],
            {"adj_a": a, "adj_b": b},
        )
        for a in (False, True)
        for b in (False, True)
    ),
    (
        "dot_general",
        [distinct(1, 2, 3, 4), distinct(2, 2, 4, 5)],
        {"a_contracting": (2,), "b_contracting": (1,), "a_batch": (0,), "b_batch": (0,)},
    ),
]

REDUCTION: list[Case] = [
    *(
        (op, [distinct(1, 2, 3, 4)], {"axes": axes, "keep_dims": keep})
        for op in ("mean", "reduce_sum", "reduce_max", "reduce_min")
        for axes, keep in (((0, -1), False), ((1,), True), ((), False))
    ),
    *(
        case
        for op in POOLS
        for case in (
            (op, [distinct(1, 2, 5, 6, 4)], {"size": (2, 3), "stride": (1, 2), "padding": "same"}),
            (op, [distinct(1, 1, 6, 6, 3)], {"size": (2, 2), "stride": (2, 2)}),
            (op, [distinct(1, 1, 7, 5, 1)], {"size": (2, 2), "stride": (3, 3), "padding": ((1, 0), (1, 1))}),
        )
    ),
    ("softmax", [distinct(1, 2, 3)], {"beta": 2.0}),
    *((op, [distinct(1, 2, 3, 4)], {"axis": 1}) for op in ("softmax", "log_softmax", "l2_normalization")),
    *(
        ("layer_normalization", [distinct(1, 2, 3, 4)], {"axes": axes, "epsilon": 0.01, "centred": centred})
        for axes, centred in (((1,), True), ((2,), False), ((0, 2), True), ((1, 2), False))
    ),
    *(
        (
            "local_response_normalization",
            [distinct(1, 2, 3, 5)],
            {"radius": r, "bias": 1.0, "alpha": 0.5, "beta": 0.75, "axis": axis},
        )
        for r, axis in ((1, -1), (7, 1))
    ),
]

INDEXING: list[Case] = [
    ("gather", [distinct(1, 4, 3), ints(2, 0, 2)], {}),
    ("gather", [distinct(1, 2, 4, 3), ints(3, 1, 1, 0).reshape(2, 2)], {"axis": 1}),
    ("gather", [distinct(1, 2, 3, 4), ints(3, 1, 3, 0).reshape(2, 2)], {"axis": 2, "batch_dims": 1}),
    ("gather", [distinct(1, 2, 3, 4), ints(3, 1, 3, 0, 2, 1).reshape(2, 3)], {"axis": 2, "batch_dims": 2}),
    ("gather_nd", [distinct(1, 3, 4, 2), ints(2, 0, 1, 3, 2, 0).reshape(3, 2)], {}),
    ("gather", [distinct(1, 4, 3), ints(2, 0, 2).astype(np.int16)], {}),
    ("gather_nd", [distinct(1, 3, 4, 2), ints(2, 0, 1, 3).reshape(2, 2).astype(np.int16)], {}),
    ("scatter_nd", [ints(2, 0, 2).reshape(3, 1), distinct(1, 3, 2)], {"shape": (4, 2)}),
    ("embedding_lookup", [ints(3, 1, 3), distinct(1, 4, 5)], {}),
    ("reverse", [distinct(1, 2, 3, 2), ints(0, 2)], {}),
    ("reverse_sequence", [distinct(1, 3, 4), ints(2, 4, 0)], {"axis": 1}),
    ("cumsum", [distinct(1, 2, 4)], {"axis": 1}),
    ("cumsum", [distinct(1, 2, 4)], {"axis": 0, "exclusive": True, "reverse": True}),
    *(
        (op, [distinct(1, 2, 3, 4, 2)], {"size": size, **mode})
        for op in ("resize_bilinear", "resize_nearest")
        for size, mode in (
            ((5, 2), {}),
            ((6, 7), {"half_pixel_centers": True}),
            ((1, 9), {"align_corners": True}),
        )
    ),
]


def recurrent(*shapes: tuple[int, ...] | None) -> list[Array | None]:
    """Return operands of a recurrent op, small enough that gates do not saturate."""
    return [None if s is None else distinct(k % 7, *s, low=-1, high=1) for k, s in enumerate(shapes)]


def lstm_operands(*absent: int) -> list[Array | None]:
    """Return the operands of lstm, for a sequence of 2 steps of 2 features, 3 units and 2 outputs."""
    shapes: list[tuple[int, ...]] = [
        *((1, 2, 2), *[(3, 2)] * 4, *[(3, 2)] * 4, *[(3,)] * 3, *[(3,)] * 4),
        *((2, 3), (2,), (1, 2), (1, 3), *[(3,)] * 4),
    ]
    return recurrent(*(None if k in absent else s for k, s in enumerate(shapes)))


RECURRENT: list[Case] = [
    ("rnn", recurrent((2, 3), (4, 3), (4, 4), (4,), (2, 4)), {"activation": "tanh"}),
    ("svdf", recurrent((2, 3), (4, 3), (4, 3), (2,), (2, 12)), {"rank": 2, "activation": "relu"}),
    ("svdf", recurrent((2, 3), (2, 3), (2, 1), None, (2, 2)), {"rank": 1}),
    ("recurrence", recurrent((2, 3, 4), (4, 4), (2, 4)), {"activation": "tanh", "clip": 1.01}),
    (
        "recurrence",
        recurrent((3, 1, 2), (2, 2), (1, 2)),
        {"activation": ("scaled_tanh", 1.5, 0.75), "time_major": True, "reverse": True},
    ),
    ("gru_recurrence", recurrent((2, 3, 6), (6, 2), (2, 2)), {}),
    (
        "gru_recurrence",
        recurrent((2, 2, 6), (6, 2), (2, 2)),
        {"activations": (("hard_sigmoid", 0.25, 0.5), ("affine", 0.5, 0.25)), "reverse": True},
    ),
    ("gru_reset_after", recurrent((2, 3, 6), (6, 2), (2, 2), (2,)), {}),
    ("gru_reset_after", recurrent((2, 3, 6), (6, 2), (3, 2)), {"time_major": True, "reverse": True}),
    ("lstm_recurrence", recurrent((2, 3, 8), (8, 2), (2, 2), (2, 2), (6,)), {"cell_clip": 1.01}),
    ("lstm_recurrence", recurrent((2, 2, 6), (6, 2), (2, 2), (2, 2)), {"coupled": True, "reverse": True}),
    ("basic_lstm", recurrent((2, 3), (2, 2), (8, 5), (8,), (2, 2)), {}),
    ("lstm", lstm_operands(), {"time_major": False}),
    ("lstm", lstm_operands(1, 5, 9, 10, 11, 12, 17, *range(20, 24)), {"proj_clip": 1.01}),
]

ZEROS = np.array([[0, 2, 3], [0, 0, 5], [1, 2, 3], [4, 1, 0]], np.float32)  # none, one, two in a row

OTHERS: list[Case] = [
    *(
        ("reduce_prod", [distinct(1, 2, 3, 2)], {"axes": axes, "keep_dims": k})
        for axes, k in (((1,), True), ((0, 2), False))
    ),
    *(
        (op, [distinct(1, 5, 2), ints(2, 0, 1, 2, 0)], {"segments": 3})
        for op in ("segment_sum", "segment_prod", "segment_max", "segment_min")
    ),
    *(
        (op, [distinct(1, 2, 2, 3), ints(1, -1, 0, 1).reshape(2, 2)], {"segments": 2, "drops": True})
        for op in ("segment_sum", "segment_prod", "segment_max")
    ),
    ("reduce_prod", [ZEROS], {"axes": (1,)}),
    ("segment_prod", [ZEROS, ints(1, 0, 1, 1)], {"segments": 2}),
    ("dynamic_slice", [distinct(1, 4, 5), ints(2, 1)], {"sizes": (2, 3)}),
    (
        "dynamic_slice",
        [distinct(1, 3, 4, 2), ints(-2, 9)],
        {"sizes": (3, 2, 2), "axes": (1, None), "negative": True},
    ),
    ("dynamic_update_slice", [distinct(1, 4, 5), distinct(2, 2, 3), ints(3, 1)], {}),
    (
        "sparse_to_dense",
        [ints(1, 2, 0, 1, 1, 2).reshape(3, 2), distinct(1, 3), distinct(2)],
        {"shape": (2, 3)},
    ),
    ("sparse_to_dense", [ints(3, 1), distinct(1, 1), distinct(2)], {"shape": (5,)}),
    ("matrix_diag", [distinct(1, 2, 3)], {}),
    ("matrix_set_diag", [distinct(1, 2, 3, 4), distinct(2, 2, 3)], {}),
    ("matrix_set_diag", [distinct(1, 4, 2), distinct(2, 2)], {}),
    (
        "max_unpool2d",
        [distinct(1, 1, 2, 3, 2), ints(3, 0, 9, 1, 2, 3, 3, 3, 2, 1, 0, 1).reshape(1, 2, 3, 2)],
        {"size": (2, 2), "stride": (2, 2)},
    ),
    (
        "max_unpool2d",
        [distinct(1, 1, 3, 2, 1), ints(3, 2, 1, 0, 1, 3).reshape(1, 3, 2, 1)],
        {"size": (2, 2), "stride": (1, 1)},
    ),
    ("top_k", [distinct(1, 2, 2, 5)], {"k": 3}),
    *(
        (
            "embedding_lookup_sparse",
            [
                ints(1, 0, 2, 1),
                ints(0, 0, 0, 1, 2, 0, 2, 1).reshape(4, 2),
                distinct(1, 4, low=1),
                distinct(2, 3, 2),
            ],
            {"shape": (3, 2), "combiner": c},
        )
        for c in ("sum", "mean", "sqrtn")
    ),
    (
        "concat_embeddings",
        [ints(1, 0, 2, 0, 0, 1).reshape(2, 3), distinct(1, 3, 2), distinct(2, 3, 4)],
        {"columns": (2, 1)},
    ),
    (
        "conv3d",
        [distinct(1, 1, 3, 4, 3, 2), distinct(2, 2, 2, 2, 2, 3), distinct(3, 3)],
        {"padding": "same", "stride": (1, 2, 1)},
    ),
    (
        "conv3d",
        [distinct(1, 1, 3, 4, 3, 4), distinct(2, 2, 1, 2, 2, 2)],
        {"groups": 2, "dilation": (1, 1, 2), "activation": "relu"},
    ),
    (
        "transpose_conv3d",
        [distinct(1, 1, 2, 2, 2, 2), distinct(2, 2, 2, 2, 2, 2)],
        {"size": (4, 4, 3), "stride": (2, 2, 1)},
    ),
]

VISION: list[Case] = [
    *(
        (
            "crop_resize",
            [
                distinct(1, 2, 4, 5, 2),
                np.array([[0.3, 0.6, 2.7, 3.9], [2.3, 3.3, 0.8, 1.1]], np.float32),
                ints(1, 0),
            ],
            {"size": size, "sampling": sampling},
        )
        for sampling, size in (
            ("strict_align_endpoints", (2, 3)),
            ("align_endpoints", (1, 2)),
            ("upsample", (3, 2)),
            ("roi_align", (2, 2)),
        )
    ),
    *(
        (
            "warp_affine",
            [
                distinct(1, 2, 3, 4, 2),
                np.array(
                    [[[0.83, 0.21, 0, 0.37], [-0.17, 0.71, 0, 0.43], [0, 0, 1, 0], [0, 0, 0, 1]]] * 2,
                    np.float32,
                ),
            ],
            {"size": (2, 3), "half_pixel_centers": half},
        )
        for half in (False, True)
    ),
]

CASES = [*ELEMENTWISE, *MOVEMENT, *CONTRACTION, *REDUCTION, *INDEXING, *RECURRENT, *OTHERS, *VISION]
