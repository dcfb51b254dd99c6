"""Gradients against PyTorch, an independent opinion: of layers, and of a small network with its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.training.gradients import gradients
from gpunn.training.losses import cross_entropy
from gpunn.types import Array, float32
from tests import evaluator
from tests.training.differences import distinct, loss_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: training)")

Layer = tuple[str, list[Array], dict[str, Any], Callable[..., Any]]
ROUNDED = 1e-6  # constants of gradients are float32: 2^-24 each, relative to terms of a size of about 10


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


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer[0])
def test_layers(layer: Layer) -> None:
    """In float64, also at ties and kinks."""
    op, inputs, attrs, function = layer
    model, fed = loss_of(op, inputs, attrs)
    inputs = [x for x in inputs if x.dtype.kind == "f"]
    names = [f"x{k}" for k in range(len(inputs))]
    found = evaluator.run(gradients(model, model.outputs[0], names), fed)[1:]
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in inputs]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    weights = (torch.tensor(w, dtype=torch.float64) for w in fed[len(inputs) :])
    sum((y * w).sum() for y, w in zip(results, weights, strict=True)).backward()
    for gradient, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=ROUNDED, atol=ROUNDED)


def test_a_network(backend: str) -> None:
    """Two convolutions, pools, a fully connected layer and cross entropy, in float32."""
    model, weights = (
        Model(),
        [numbers(k, *s) / 8 for k, s in enumerate(((8, 3, 3, 3), (8,), (10, 72), (10,)))],
    )
    x, target = model.input("x", float32(4, 6, 6, 3)), model.input("target", float32(4, 10))
    w, b, v, c = (model.constant(f"w{k}", value) for k, value in enumerate(weights))
    (y,) = model.add("conv2d", [x, w, b], {"padding": "same", "activation": "relu"})
    (y,) = model.add("max_pool2d", [y], {"size": (2, 2), "stride": (2, 2)})
    (y,) = model.add("softmax", model.add("fully_connected", [y, v, c]))
    images, chosen = numbers(9, 4, 6, 6, 3), np.array([3, 1, 4, 1])
    found = gradients(model, cross_entropy(model, y, target), [w, b, v, c])
    with found.compile(backend) as compiled:
        got = compiled(images, np.eye(10, dtype=np.float32)[chosen], *weights)
    leaves = [torch.tensor(value, requires_grad=True) for value in weights]
    convolved = convolution(1, 1, 1, 1)(torch.tensor(images), *leaves[:2]).relu()
    pooled = channels_last(functional("max_pool2d", 2))(convolved).reshape(4, 72)
    loss = torch.nn.functional.cross_entropy(pooled @ leaves[2].T + leaves[3], torch.tensor(chosen))
    loss.backward()
    np.testing.assert_allclose(got[0], loss.detach().numpy(), rtol=1e-5)
    for gradient, leaf in zip(got[1:], leaves, strict=True):
        # Sums of up to 144 products of a size of about 1, of float32.
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=0, atol=144 * 2.0**-23)
