"""Networks with channels first, as converters from PyTorch write them: layers stand between transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import float32

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # to channels first, and back to channels last


def add(model: Model, op: str, *inputs: Operand, **attrs: Any) -> Operand:
    """Add an op, and return its first result."""
    return model.add(op, inputs, attrs)[0]


def constant(model: Model, *shape: int) -> Operand:
    """Return a constant of ascending numbers."""
    count = int(np.prod(shape))
    return model.constant("c", (np.arange(count, dtype=np.float32) / 4 + 0.25).reshape(shape))


def between(model: Model, op: str, x: Operand, *others: Operand, **attrs: Any) -> Operand:
    """Add an op on images between two transposes."""
    y = add(model, op, add(model, "transpose", x, perm=LAST), *others, **attrs)
    return add(model, "transpose", y, perm=FIRST)


def conv(model: Model, x: Operand, outputs: int, stride: int = 1, size: int = 3) -> Operand:
    """Add a convolution."""
    channels = x.type.shape[1]
    rng = np.random.default_rng(outputs)
    weights = rng.standard_normal((outputs, size, size, channels)).astype(np.float32) / 8
    filter = model.constant("w", weights)
    bias = model.constant("b", np.arange(outputs, dtype=np.float32) / 4)
    return between(model, "conv2d", x, filter, bias, stride=(stride, stride), padding="same")


def normalised(model: Model, x: Operand) -> Operand:
    """Add a batch normalisation: a number for each channel to multiply with, and one to add."""
    channels = x.type.shape[1]
    y = add(model, "mul", x, constant(model, 1, channels, 1, 1))
    return add(model, "add", y, constant(model, 1, channels, 1, 1))


def residual() -> Model:
    """A residual network: a stem, blocks with sums, the mean of all pixels, a product."""
    model = Model("residual network")
    y = conv(model, model.input("x", float32(1, 3, 16, 16)), 8, 2)
    y = add(model, "relu", normalised(model, y))
    y = between(model, "max_pool2d", y, size=(3, 3), stride=(2, 2), padding="same")
    for channels, stride in ((8, 1), (16, 2)):
        short = y if stride == 1 else normalised(model, conv(model, y, channels, stride, size=1))
        y = add(model, "relu", normalised(model, conv(model, y, channels, stride)))
        y = normalised(model, conv(model, y, channels))
        y = add(model, "relu", add(model, "add", y, short))
    y = add(model, "reshape", add(model, "mean", y, axes=(2, 3), keep_dims=True), shape=(1, 16))
    weights = model.constant("w", np.ones((5, 16), np.float32))
    model.output(add(model, "softmax", add(model, "fully_connected", y, weights), axis=1))
    return model


def gated() -> Model:
    """A network with gates of channels, channels in groups and hard swish."""
    model = Model("gated network")
    y = conv(model, model.input("x", float32(1, 3, 8, 8)), 6)
    for _ in range(2):
        y = add(model, "hard_swish", normalised(model, conv(model, y, 6)))
        gate = add(model, "mean", y, axes=(2, 3), keep_dims=True)
        gate = add(model, "relu", conv(model, gate, 2, size=1))
        y = add(model, "mul", y, add(model, "logistic", conv(model, gate, 6, size=1)))
        left, right = model.add("split", [y], {"sizes": (3, 3), "axis": 1})
        y = add(model, "concat", conv(model, left, 3), right, axis=1)
        y = add(model, "reshape", y, shape=(1, 2, 3, 8, 8))
        y = add(model, "transpose", y, perm=(0, 2, 1, 3, 4))
        y = add(model, "reshape", y, shape=(1, 6, 8, 8))
    model.output(add(model, "mean", y, axes=(2, 3)))
    return model


def detector() -> Model:
    """A network with an enlarged image beside a finer one, and heads whose channels go last."""
    model = Model("detector")
    fine = add(model, "leaky_relu", conv(model, model.input("x", float32(1, 3, 16, 16)), 8, 2), alpha=0.1)
    coarse = add(model, "leaky_relu", conv(model, fine, 12, 2), alpha=0.1)
    up = between(model, "resize_nearest", coarse, size=(8, 8))
    both = add(model, "concat", up, fine, axis=1)
    padded = add(model, "pad", both, paddings=((0, 0), (0, 0), (1, 1), (1, 1)))
    heads = []
    for y in (conv(model, padded, 10), conv(model, coarse, 10)):
        y = add(model, "transpose", y, perm=LAST)
        heads.append(add(model, "reshape", y, shape=(1, y.type.size // 5, 5)))
    boxes = add(model, "concat", *heads, axis=1)
    model.output(add(model, "logistic", boxes))
    return model
