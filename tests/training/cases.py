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
    "hard_swish": (-5, 5),
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
        for op in ("add_n", "mul_n", "maximum_n")
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
    ("gather_nd", [distinct(1, 3, 4, 2), ints(2, 0, 1, 3, 2, 0).reshape(3, 2)], {}),
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

CASES = [*ELEMENTWISE, *MOVEMENT, *CONTRACTION, *REDUCTION, *INDEXING]
