"""Calls of ops at ties and kinks: with equal numbers, and with 0 and 1, for comparisons with PyTorch.

Central differences say nothing there. Together with cases.py every op with a gradient is called.
"""

from __future__ import annotations

import numpy as np

from gpunn.types import Array
from tests.training.cases import Case, ints
from tests.training.differences import distinct


def numbers(seed: int, *shape: int) -> Array:
    """Return multiples of 1/2, among which many are equal, and 0 and 1, where activations have kinks."""
    return np.asarray(np.random.default_rng(seed).integers(-4, 5, shape) / 2, np.float32)


def convolution(k: int, stride: int, padding: int, dilation: int, groups: int) -> Case:
    inputs = [numbers(1 + k, 2, 9, 8, 4), numbers(2, 8, 3, 3, 4 // groups), numbers(3, 8)]
    pairs = ((padding, padding), (padding, padding))
    return (
        "conv2d",
        [*inputs],
        {"stride": (stride, stride), "padding": pairs, "dilation": (dilation, dilation)},
    )


X, IMAGES, FEW = numbers(4, 5, 7), numbers(5, 2, 6, 6, 3), numbers(11, 2, 3, 4)
OTHER, POSITIVE, SMALL = numbers(8, 5, 7), np.abs(X) + np.float32(0.5), X / np.float32(8)
WINDOWS: list[Case] = [
    *(
        convolution(k, *attrs)
        for k, attrs in enumerate(
            ((1, 1, 1, 1), (2, 1, 1, 1), (2, 0, 2, 1), (1, 1, 1, 2), (3, 2, 1, 4)),
        )
    ),
    ("depthwise_conv2d", [IMAGES, numbers(12, 1, 3, 3, 3)], {}),
    (
        "transpose_conv2d",
        [numbers(13, 2, 3, 4, 5), numbers(14, 2, 3, 3, 5)],
        {"size": (7, 9), "stride": (2, 2)},
    ),
    ("conv3d", [numbers(15, 1, 4, 5, 5, 2), numbers(16, 2, 3, 3, 2, 3)], {}),
    (
        "transpose_conv3d",
        [numbers(35, 1, 2, 3, 2, 2), numbers(36, 2, 2, 2, 3, 2)],
        {"size": (4, 6, 4), "stride": (2, 2, 2)},
    ),
    ("fully_connected", [X, numbers(6, 4, 7), numbers(7, 4)], {}),
    ("batch_matmul", [FEW, numbers(17, 2, 4, 5)], {}),
    (
        "dot_general",
        [FEW, numbers(47, 2, 4, 5)],
        {"a_contracting": (2,), "b_contracting": (1,), "a_batch": (0,), "b_batch": (0,)},
    ),
    ("max_pool2d", [IMAGES], {"size": (2, 2), "stride": (2, 2)}),
    ("max_pool2d", [IMAGES], {"size": (3, 3)}),
    ("max_pool2d", [IMAGES], {"size": (3, 3), "stride": (2, 2), "padding": "same"}),
    ("average_pool2d", [IMAGES], {"size": (2, 3)}),
    ("l2_pool2d", [IMAGES + np.float32(0.25)], {"size": (2, 2), "stride": (2, 2)}),
    (
        "max_unpool2d",
        [numbers(37, 1, 2, 2, 1), ints(1, 0, 2, 3).reshape(1, 2, 2, 1)],
        {"size": (2, 2), "stride": (2, 2)},
    ),
    ("resize_bilinear", [IMAGES], {"size": (9, 7), "half_pixel_centers": True}),
    ("resize_nearest", [IMAGES], {"size": (12, 3)}),
]

ELEMENTWISE: list[Case] = [
    *(
        (op, [X], {})
        for op in ("relu", "relu01", "relu1", "relu6", "elu", "gelu", "gelu_tanh", "logistic", "tanh")
    ),
    *((op, [X * np.float32(3)], {}) for op in ("relu6", "hard_swish")),  # with ends: 3 and 6
    ("hard_swish", [X], {}),
    *((op, [X], {}) for op in ("abs", "floor", "ceil", "round", "sign")),
    *((op, [X + np.float32(0.25)], {}) for op in ("abs", "floor", "ceil", "round", "sign")),
    ("leaky_relu", [X], {"alpha": 0.125}),
    ("prelu", [X, numbers(23, 7)], {}),
    ("leaky_relu", [X + np.float32(0.25)], {"alpha": 0.125}),
    ("prelu", [X + np.float32(0.25), numbers(23, 7)], {}),
    *((op, [X, numbers(8, 7)], {}) for op in ("add", "sub", "mul", "maximum", "minimum")),
    *((op, [X, OTHER, numbers(44, 5, 7)], {}) for op in ("add_n", "mul_n", "maximum_n", "minimum_n")),
    ("div", [X, numbers(8, 7) + np.float32(4)], {}),
    ("floor_div", [X, numbers(8, 7) + np.float32(4)], {}),
    ("floor_mod", [X, numbers(8, 7) + np.float32(4)], {}),
    ("pow", [POSITIVE, numbers(24, 5, 7)], {}),
    ("pow", [np.abs(X), np.abs(OTHER)], {}),  # 0 to the power of 0, too
    ("squared_difference", [X, numbers(25, 5, 7)], {}),
    ("atan2", [np.zeros(2, np.float32), np.array([0, 1], np.float32)], {}),
    ("atan2", [POSITIVE, numbers(26, 5, 7)], {}),
    *(
        (op, [SMALL], {})
        for op in ("exp", "sin", "cos", "sinh", "cosh", "asinh", "erf", "square", "neg", "atanh")
    ),
    *((op, [POSITIVE], {}) for op in ("log", "sqrt", "rsqrt")),
    ("acosh", [POSITIVE + np.float32(1)], {}),
    ("select", [numbers(31, 5, 7) > 0, X, numbers(41, 5, 7)], {}),
    ("cast", [X.astype(np.float16)], {"dtype": "float32"}),
    *(
        ("fake_quant", [np.linspace(-3, 3, count, dtype=np.float32)], attrs)
        for count, attrs in (
            (25, {"min": -1.5, "max": 2.25, "num_bits": 4}),
            (13, {"min": -1.5, "max": 1.5, "num_bits": 3, "narrow_range": True}),
        )
    ),
]

REDUCTIONS: list[Case] = [
    *((op, [X], {}) for op in ("softmax", "log_softmax")),
    ("reduce_from", [X, np.float32(0.5)], {"function": "max", "axes": (1,)}),
    ("reduce_from", [X, np.float32(0.5)], {"function": "prod", "axes": (0,)}),
    (
        "reduce_window",
        [X, np.float32(0.5)],
        {"function": "max", "size": (2, 2), "paddings": ((1, 0), (0, -1))},
    ),
    ("reduce_window", [X, np.float32(0.5)], {"function": "prod", "size": (2, 3)}),
    ("l2_normalization", [X + np.float32(0.25)], {}),
    (
        "local_response_normalization",
        [IMAGES],
        {"radius": 1, "bias": 1.0, "alpha": 0.5, "beta": 0.75},
    ),
    ("reduce_max", [X], {"axes": (1,)}),
    ("reduce_max", [IMAGES], {"axes": (1, 2)}),
    ("reduce_min", [X], {"axes": (0,)}),
    ("reduce_sum", [FEW], {"axes": (0, 2)}),
    ("mean", [FEW], {"axes": (1,)}),
    ("reduce_prod", [X], {"axes": (1,)}),
    ("cumsum", [X], {"axis": 1}),
    ("top_k", [distinct(21, 3, 9)], {"k": 4}),
    *(("segment_" + op, [distinct(38, 4, 3), ints(0, 0, 1, 3)], {"segments": 4}) for op in ("max", "min")),
    *(("segment_" + op, [X, ints(1, 0, 1, 1, 0)], {"segments": 3}) for op in ("max", "min", "prod")),
    ("segment_sum", [numbers(22, 4, 3), ints(0, 0, 1, 3)], {"segments": 4}),
]

MOVEMENT: list[Case] = [
    ("concat", [X, numbers(18, 5, 2)], {"axis": 1}),
    ("stack", [X, numbers(19, 5, 7)], {"axis": 1}),
    ("transpose", [FEW], {"perm": (2, 0, 1)}),
    ("reshape", [FEW], {"shape": (4, 6)}),
    ("squeeze", [FEW[:, :1]], {"axes": (1,)}),
    ("broadcast_to", [numbers(20, 3, 1)], {"shape": (2, 3, 4)}),
    ("broadcast_in_dim", [numbers(45, 2)], {"shape": (3, 2), "dims": (1,)}),
    ("tile", [FEW], {"multiples": (2, 1, 3)}),
    ("reverse", [FEW, ints(0)], {}),
    ("pad", [X], {"paddings": ((1, 0), (2, 1))}),
    ("mirror_pad", [X], {"paddings": ((1, 2), (2, 3)), "mode": "reflect"}),
    ("roll", [X], {"shifts": (1, -2)}),
    ("split", [X], {"axis": 1, "sizes": (1, 2, 4)}),
    ("unstack", [FEW], {"axis": 1}),
    ("strided_slice", [X], {"begin": (1, 0), "end": (5, 7), "strides": (2, 3)}),
    ("space_to_depth", [IMAGES[..., :1]], {"block_size": 2}),
    ("space_to_depth", [numbers(53, 1, 2, 4, 6)], {"block_size": 2, "data_format": "NCHW"}),
    ("depth_to_space", [numbers(42, 2, 3, 3, 4)], {"block_size": 2}),
    ("depth_to_space", [numbers(54, 1, 8, 2, 3)], {"block_size": 2, "data_format": "NCHW"}),
    ("matrix_diag", [FEW], {}),
    ("matrix_set_diag", [FEW, numbers(46, 2, 3)], {}),
]

NAMED = ints(2, 0, 1, 2, 1, 0).reshape(3, 2)
INDEXING: list[Case] = [
    ("gather", [FEW, ints(2, 0, 1, 2).reshape(2, 2)], {"axis": 1}),
    ("gather_nd", [X, NAMED], {}),
    ("embedding_lookup", [ints(3, 1, 3), X], {}),
    ("scatter_nd", [ints(2, 0, 2).reshape(3, 1), numbers(40, 3, 2)], {"shape": (4, 2)}),
    ("dynamic_slice", [X, ints(2, 1)], {"sizes": (2, 3)}),
]

RECURRENT: list[Case] = [
    (
        "rnn",
        [numbers(48, 2, 3), numbers(49, 4, 3), numbers(50, 4, 4), numbers(51, 4), numbers(52, 2, 4)],
        {"activation": "tanh"},
    ),
    ("recurrence", [numbers(32, 2, 4, 3), numbers(33, 3, 3), numbers(34, 2, 3)], {"activation": "tanh"}),
    (
        "lstm_recurrence",
        [numbers(27, 2, 4, 12), numbers(28, 12, 3), numbers(29, 2, 3), numbers(30, 2, 3)],
        {},
    ),
]

TIES = [*WINDOWS, *ELEMENTWISE, *REDUCTIONS, *MOVEMENT, *INDEXING, *RECURRENT]
