"""Operations, each with a function of PyTorch that computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.types import Array
from tests.training.differences import distinct

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: training)")

Layer = tuple[str, list[Array], dict[str, Any], Callable[..., Any]]


def numbers(seed: int, *shape: int) -> Array:
    """Return multiples of 1/2, among which many are equal, and 0 and 1, where activations have kinks."""
    return np.asarray(np.random.default_rng(seed).integers(-4, 5, shape) / 2, np.float32)


def channels_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of images [N, H, W, C] of one of images [N, C, H, W]."""
    return lambda x, *more: function(x.permute(0, 3, 1, 2), *more).permute(0, 2, 3, 1)


def convolution(stride: int, padding: int, dilation: int, groups: int) -> Callable[..., Any]:
    def function(x: Any, filter: Any, bias: Any) -> Any:
        weights = filter.permute(0, 3, 1, 2)
        return torch.nn.functional.conv2d(x, weights, bias, stride, padding, dilation, groups)

    return channels_last(function)


def convolutions() -> list[Layer]:
    found: list[Layer] = []
    for stride, padding, dilation, groups in (
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        (2, 0, 2, 1),
        (1, 1, 1, 2),
        (3, 2, 1, 4),
    ):
        inputs = [numbers(1, 2, 9, 8, 4), numbers(2, 8, 3, 3, 4 // groups), numbers(3, 8)]
        attrs = {
            "stride": (stride, stride),
            "padding": ((padding, padding), (padding, padding)),
            "dilation": (dilation, dilation),
        }
        found.append(("conv2d", inputs, attrs, convolution(stride, padding, dilation, groups)))
    return found


def functional(name: str, *arguments: Any, **named: Any) -> Callable[..., Any]:
    return lambda x: getattr(torch.nn.functional, name)(x, *arguments, **named)


X, IMAGES = numbers(4, 5, 7), numbers(5, 2, 6, 6, 3)
LAYERS: list[Layer] = [
    *convolutions(),
    ("max_pool2d", [IMAGES], {"size": (2, 2), "stride": (2, 2)}, channels_last(functional("max_pool2d", 2))),
    ("max_pool2d", [IMAGES], {"size": (3, 3)}, channels_last(functional("max_pool2d", 3, 1))),
    ("average_pool2d", [IMAGES], {"size": (2, 3)}, channels_last(functional("avg_pool2d", (2, 3), 1))),
    ("fully_connected", [X, numbers(6, 4, 7), numbers(7, 4)], {}, lambda *o: torch.nn.functional.linear(*o)),
    *((op, [X], {}, functional(op)) for op in ("relu", "relu6", "elu", "gelu", "tanh")),
    ("relu1", [X], {}, functional("hardtanh")),
    ("logistic", [X], {}, functional("sigmoid")),
    ("gelu_tanh", [X], {}, functional("gelu", approximate="tanh")),
    ("leaky_relu", [X + np.float32(0.25)], {"alpha": 0.125}, functional("leaky_relu", 0.125)),
    *((op, [X], {}, functional(op, dim=-1)) for op in ("softmax", "log_softmax")),
    ("l2_normalization", [X + np.float32(0.25)], {}, functional("normalize", dim=-1)),
    *((op, [X, numbers(8, 7)], {}, getattr(torch, op)) for op in ("add", "sub", "mul", "maximum", "minimum")),
    ("div", [X, numbers(8, 7) + np.float32(4)], {}, torch.div),
    ("reduce_max", [X], {"axes": (1,)}, lambda x: torch.amax(x, 1)),
    ("reduce_min", [X], {"axes": (0,)}, lambda x: torch.amin(x, 0)),
]


def volumes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of [N, D, H, W, C] of one of [N, C, D, H, W], for filters [KD, KH, KW, I, O]."""
    order, back = (0, 4, 1, 2, 3), (0, 2, 3, 4, 1)
    return lambda x, filter: function(x.permute(*order), filter.permute(4, 3, 0, 1, 2)).permute(*back)


def transposed(x: Any, filter: Any) -> Any:
    """A transposed convolution with stride 2, of filters [O, KH, KW, I]."""
    return torch.nn.functional.conv_transpose2d(x.permute(0, 3, 1, 2), filter.permute(3, 0, 1, 2), None, 2)


def lstm(x: Any, r: Any, h: Any, c: Any) -> tuple[Any, ...]:
    """Steps of an LSTM over sums of its inputs [B, T, 4 U]: its states and the states h of all steps."""
    whole, steps = torch.eye(r.shape[0], dtype=torch.float64), []
    for k in range(x.shape[1]):
        h, c = torch.lstm_cell(x[:, k], (h, c), whole, r, torch.zeros(len(r), dtype=torch.float64))
        steps.append(h)
    return h, c, torch.stack(steps, 1)


FEW, IDS = numbers(11, 2, 3, 4), np.array([0, 0, 1, 3], np.int32)
POSITIVE = np.abs(X) + np.float32(0.5)
SMALL = X / np.float32(8)
LAYERS += [
    (
        "depthwise_conv2d",
        [IMAGES, numbers(12, 1, 3, 3, 3)],
        {},
        channels_last(lambda x, w: torch.nn.functional.conv2d(x, w.permute(3, 0, 1, 2), groups=3)),
    ),
    (
        "transpose_conv2d",
        [numbers(13, 2, 3, 4, 5), numbers(14, 2, 3, 3, 5)],
        {"size": (7, 9), "stride": (2, 2)},
        lambda *o: transposed(*o).permute(0, 2, 3, 1),
    ),
    (
        "conv3d",
        [numbers(15, 1, 4, 5, 5, 2), numbers(16, 2, 3, 3, 2, 3)],
        {},
        volumes(torch.nn.functional.conv3d),
    ),
    ("batch_matmul", [FEW, numbers(17, 2, 4, 5)], {}, torch.matmul),
    ("concat", [X, numbers(18, 5, 2)], {"axis": 1}, lambda *o: torch.cat(o, 1)),
    ("stack", [X, numbers(19, 5, 7)], {"axis": 1}, lambda *o: torch.stack(o, 1)),
    ("transpose", [FEW], {"perm": (2, 0, 1)}, lambda x: x.permute(2, 0, 1)),
    ("reshape", [FEW], {"shape": (4, 6)}, lambda x: x.reshape(4, 6)),
    ("broadcast_to", [numbers(20, 3, 1)], {"shape": (2, 3, 4)}, lambda x: x.expand(2, 3, 4)),
    ("tile", [FEW], {"multiples": (2, 1, 3)}, lambda x: x.repeat(2, 1, 3)),
    ("reverse", [FEW, IDS[:1]], {}, lambda x: x.flip(0)),
    ("cumsum", [X], {"axis": 1}, lambda x: x.cumsum(1)),
    ("reduce_sum", [FEW], {"axes": (0, 2)}, lambda x: x.sum((0, 2))),
    ("mean", [FEW], {"axes": (1,)}, lambda x: x.mean(1)),
    ("reduce_prod", [X], {"axes": (1,)}, lambda x: x.prod(1)),
    (
        "top_k",
        [distinct(21, 3, 9)],
        {"k": 4},
        lambda x: x.topk(4).values,
    ),
    ("matrix_diag", [FEW], {}, torch.diag_embed),
    (
        "segment_sum",
        [numbers(22, 4, 3), IDS],
        {"segments": 4},
        lambda x: torch.zeros(4, 3, dtype=torch.float64).index_add(0, torch.tensor(IDS), x),
    ),
    ("prelu", [X + np.float32(0.25), numbers(23, 7)], {}, lambda x, a: torch.where(x < 0, a * x, x)),
    ("pow", [POSITIVE, numbers(24, 5, 7)], {}, torch.pow),
    ("squared_difference", [X, numbers(25, 5, 7)], {}, lambda a, b: (a - b).square()),
    ("atan2", [POSITIVE, numbers(26, 5, 7)], {}, torch.atan2),
    ("hard_swish", [X], {}, functional("hardswish")),
    *((op, [SMALL], {}, getattr(torch, op)) for op in ("exp", "sin", "cos", "sinh", "cosh", "asinh", "erf")),
    *((op, [SMALL], {}, getattr(torch, op)) for op in ("square", "neg", "atanh")),
    *((op, [POSITIVE], {}, getattr(torch, op)) for op in ("log", "sqrt", "rsqrt")),
    ("acosh", [POSITIVE + np.float32(1)], {}, torch.acosh),
    (
        "resize_bilinear",
        [IMAGES],
        {"size": (9, 7), "half_pixel_centers": True},
        channels_last(functional("interpolate", (9, 7), mode="bilinear")),
    ),
    ("resize_nearest", [IMAGES], {"size": (12, 3)}, channels_last(functional("interpolate", (12, 3)))),
    (
        "lstm_recurrence",
        [numbers(27, 2, 4, 12), numbers(28, 12, 3), numbers(29, 2, 3), numbers(30, 2, 3)],
        {},
        lstm,
    ),
]


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def steps(x: Any, r: Any, h: Any) -> tuple[Any, Any]:
    """Steps of a plain recurrent layer over sums of its inputs: its state, and the states of all steps."""
    none, found = torch.zeros(len(r), dtype=torch.float64), []
    for k in range(x.shape[1]):
        h = torch.rnn_tanh_cell(x[:, k], h, torch.eye(len(r), dtype=torch.float64), r, none, none)
        found.append(h)
    return h, torch.stack(found, 1)


def volumes_transposed(x: Any, filter: Any) -> Any:
    """A transposed convolution of volumes with stride 2, of filters [KD, KH, KW, O, I]."""
    made = torch.nn.functional.conv_transpose3d(
        x.permute(0, 4, 1, 2, 3), filter.permute(4, 3, 0, 1, 2), None, 2
    )
    return made.permute(0, 2, 3, 4, 1)


def unpooled(x: Any) -> Any:
    """Values of 2 x 2 windows at their places, which count along the image."""
    places = torch.tensor([[[[1, 2], [12, 15]]]])  # of windows at (0, 0), (0, 2), (2, 0), (2, 2)
    return torch.nn.functional.max_unpool2d(x.permute(0, 3, 1, 2), places, 2).permute(0, 2, 3, 1)


def reduced(op: str) -> Callable[..., Any]:
    zeros = torch.zeros(4, 3, dtype=torch.float64)
    index = torch.tensor(IDS, dtype=torch.int64)[:, None].expand(4, 3)
    return lambda x: zeros.scatter_reduce(0, index, x, op, include_self=False)


PICKS = np.array([[2, 0], [1, 2]], np.int32)
CONDITION = numbers(31, 5, 7) > 0
LAYERS += [
    (
        "recurrence",
        [numbers(32, 2, 4, 3), numbers(33, 3, 3), numbers(34, 2, 3)],
        {"activation": "tanh"},
        steps,
    ),
    (
        "transpose_conv3d",
        [numbers(35, 1, 2, 3, 2, 2), numbers(36, 2, 2, 2, 3, 2)],
        {"size": (4, 6, 4), "stride": (2, 2, 2)},
        volumes_transposed,
    ),
    (
        "max_unpool2d",
        [numbers(37, 1, 2, 2, 1), ints(1, 0, 2, 3).reshape(1, 2, 2, 1)],
        {"size": (2, 2), "stride": (2, 2)},
        unpooled,
    ),
    ("segment_max", [distinct(38, 4, 3), ints(0, 0, 1, 3)], {"segments": 4}, reduced("amax")),
    ("segment_min", [distinct(39, 4, 3), ints(0, 0, 1, 3)], {"segments": 4}, reduced("amin")),
    ("gather", [FEW, PICKS], {"axis": 1}, lambda x: x[:, torch.tensor(PICKS).long()]),
    (
        "embedding_lookup",
        [ints(3, 1, 3), X],
        {},
        lambda x: torch.nn.functional.embedding(torch.tensor([3, 1, 3]), x),
    ),
    (
        "scatter_nd",
        [ints(2, 0, 2).reshape(3, 1), numbers(40, 3, 2)],
        {"shape": (4, 2)},
        lambda x: torch.zeros(4, 2, dtype=torch.float64).index_add(0, torch.tensor([2, 0, 2]), x),
    ),
    (
        "select",
        [CONDITION, X, numbers(41, 5, 7)],
        {},
        lambda a, b: torch.where(torch.tensor(CONDITION), a, b),
    ),
    ("dynamic_slice", [X, ints(2, 1)], {"sizes": (2, 3)}, lambda x: x[2:4, 1:4]),
    ("space_to_depth", [IMAGES[..., :1]], {"block_size": 2}, channels_last(functional("pixel_unshuffle", 2))),
    (
        "depth_to_space",
        [numbers(42, 2, 3, 3, 4)],
        {"block_size": 2},
        channels_last(functional("pixel_shuffle", 2)),
    ),
    ("squeeze", [FEW[:, :1]], {"axes": (1,)}, lambda x: x.squeeze(1)),
    (
        "local_response_normalization",
        [IMAGES],
        {"radius": 1, "bias": 1.0, "alpha": 0.5, "beta": 0.75},
        channels_last(functional("local_response_norm", 3, alpha=1.5, beta=0.75, k=1.0)),
    ),
    (
        "l2_pool2d",
        [IMAGES + np.float32(0.25)],
        {"size": (2, 2), "stride": (2, 2)},
        lambda x: channels_last(functional("avg_pool2d", 2))(x.square()).sqrt(),
    ),
]


def cell(x: Any, w: Any, r: Any, b: Any, h: Any) -> Any:
    """A step of a plain recurrent layer, which gives its state twice."""
    y = torch.rnn_tanh_cell(x, h, w, r, b, torch.zeros_like(b))
    return y, y


NAMED = ints(2, 0, 1, 2, 1, 0).reshape(3, 2)
LAYERS += [
    ("pad", [X], {"paddings": ((1, 0), (2, 1))}, functional("pad", (2, 1, 1, 0))),
    (
        "mirror_pad",
        [X],
        {"paddings": ((1, 2), (2, 3)), "mode": "reflect"},
        lambda x: torch.nn.functional.pad(x[None], (2, 3, 1, 2), "reflect")[0],
    ),
    ("split", [X], {"axis": 1, "sizes": (1, 2, 4)}, lambda x: x.split((1, 2, 4), 1)),
    ("unstack", [FEW], {"axis": 1}, lambda x: x.unbind(1)),
    ("strided_slice", [X], {"begin": (1, 0), "end": (5, 7), "strides": (2, 3)}, lambda x: x[1:5:2, 0:7:3]),
    ("gather_nd", [X, NAMED], {}, lambda x: x[NAMED[:, 0], NAMED[:, 1]]),
    ("add_n", [X, numbers(43, 5, 7), numbers(44, 5, 7)], {}, lambda *o: sum(o)),
    ("mul_n", [X, numbers(43, 5, 7), numbers(44, 5, 7)], {}, lambda a, b, c: a * b * c),
    ("broadcast_in_dim", [numbers(45, 2)], {"shape": (3, 2), "dims": (1,)}, lambda x: x.expand(3, 2)),
    ("matrix_set_diag", [FEW, numbers(46, 2, 3)], {}, lambda x, d: torch.diagonal_scatter(x, d, 0, 1, 2)),
    (
        "dot_general",
        [FEW, numbers(47, 2, 4, 5)],
        {"a_contracting": (2,), "b_contracting": (1,), "a_batch": (0,), "b_batch": (0,)},
        torch.bmm,
    ),
    ("relu01", [X], {}, functional("hardtanh", 0.0, 1.0)),
    *(
        (op, [X + np.float32(0.25)], {}, getattr(torch, op))
        for op in ("abs", "floor", "ceil", "round", "sign")
    ),
    (
        "rnn",
        [numbers(48, 2, 3), numbers(49, 4, 3), numbers(50, 4, 4), numbers(51, 4), numbers(52, 2, 4)],
        {"activation": "tanh"},
        cell,
    ),
]
