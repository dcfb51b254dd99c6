"""Networks of the CPU backend, of which operations are replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn import Model
from gpunn.graph.operation import Operand
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.harness import random
from tests.ops.quantized import quantized, stored

SIDE, DEPTH = 9, 24
IMAGE = (1, SIDE, SIDE, DEPTH)
SCALE = Quantization((0.05,), (3,))


class Net:
    """A model under construction, of float32 or of stored integers."""

    def __init__(self, dtype: DType = DType.FLOAT32) -> None:
        self.model, self.dtype, self._count = Model("net"), dtype, 0
        self.real = dtype is DType.FLOAT32
        self.x = self.input(IMAGE)

    def input(self, shape: Sequence[int]) -> Operand:
        """Add an input."""
        self._count += 1
        type = float32(*shape) if self.real else quantized(self.dtype, shape, *SCALE.scale, *SCALE.zero_point)
        return self.model.input(f"x{self._count}", type)

    def __call__(self, op: str, *inputs: Operand, **attrs: Any) -> Operand:
        """Add an operation with one result."""
        shares = Quantization((1 / 256,), (-128 if self.dtype is DType.INT8 else 0,))
        to = shares if op in ("softmax", "logistic") else SCALE
        (y,) = self.model.add(op, [*inputs], attrs, quantization=[None if self.real else to])
        return y

    def filter(self, *shape: int) -> Operand:
        """Add a constant with weights."""
        self._count += 1
        name, values = f"w{self._count}", random(self._count, *shape)
        if self.real:
            return self.model.constant(name, values)
        weights = TensorType(DType.INT8, shape, Quantization((0.02,), (0,)))
        return self.model.constant(name, np.rint(40 * values).astype(np.int8), weights)


def convolutions(net: Net) -> None:
    x = net("conv2d", net.x, net.filter(20, 3, 3, DEPTH), padding="same", activation="relu")
    y = net("depthwise_conv2d", x, net.filter(1, 3, 3, 20), padding="same", stride=(2, 2))
    net.model.output(net("conv2d", y, net.filter(7, 1, 1, 20), activation="relu6"))


def branches(net: Net) -> None:
    x = net("conv2d", net.x, net.filter(DEPTH, 1, 1, DEPTH))
    y = net("add", x, net.x)  # which lies elsewhere in each run, and is read late
    z = net("max_pool2d", y, size=(3, 3), stride=(1, 1), padding="same")
    net.model.output(net("concat", z, y, net.x, axis=3), y)


def gates(net: Net) -> None:
    x = net("conv2d", net.x, net.filter(DEPTH, 1, 1, DEPTH))
    y = net(
        "logistic", net("conv2d", net("mean", x, axes=(1, 2), keep_dims=True), net.filter(DEPTH, 1, 1, DEPTH))
    )
    z = net("mul", x, y)
    net.model.output(net("softmax", net("reshape", z, shape=(SIDE * SIDE, DEPTH)), axis=-1))


def between(net: Net) -> None:
    """Operations that numpy computes, of which one gives a view, and ones on the views of others."""
    x = net("conv2d", net.x, net.filter(DEPTH, 1, 1, DEPTH))
    part = net("strided_slice", x, begin=(0, 2, 0, 0), end=(1, 7, SIDE, DEPTH), strides=(1,) * 4)
    y = net("conv2d", part, net.filter(5, 1, 1, DEPTH))
    turned = net("transpose", y, perm=(0, 2, 1, 3))
    net.model.output(net("conv2d", net("tile", turned, multiples=(1, 2, 1, 1)), net.filter(6, 1, 1, 5)))


def untouched(net: Net) -> None:
    """Outputs that are inputs, or views of them, beside others."""
    net.model.output(net("reshape", net.x, shape=(-1,)), net("conv2d", net.x, net.filter(3, 1, 1, DEPTH)))


def moving(net: Net) -> None:
    """Slices of a tensor that begin elsewhere in each run, and operations on them and on the tensor."""
    begin = net.model.input("begin", TensorType(DType.INT32, (4,)))
    x = net("conv2d", net.x, net.filter(DEPTH, 1, 1, DEPTH), padding="same")
    for whole in (net.x, x):
        part = net("dynamic_slice", whole, begin, sizes=(1, 4, SIDE, DEPTH))
        first = net("strided_slice", whole, begin=(0, 0, 0, 0), end=(1, 4, SIDE, DEPTH), strides=(1,) * 4)
        net.model.output(net("add", part, first), net("conv2d", part, net.filter(3, 1, 1, DEPTH)))


def nested(net: Net) -> None:
    """Slices of slices of a tensor, which are read when others would have its memory."""
    wide = net("conv2d", net.x, net.filter(64, 1, 1, DEPTH))
    part = net.model.add("split", [wide], {"sizes": (4, 5), "axis": 1})[1]
    late = net.model.add("split", [part], {"sizes": (2, 3), "axis": 1})[1]
    y = net.x
    for _ in range(3):
        y = net("conv2d", y, net.filter(64, 1, 1, y.type.shape[3]))
    net.model.output(net("conv2d", late, net.filter(3, 1, 1, 64)), y)


def reshaped(net: Net) -> None:
    """A view of a slice of a tensor, which is read when others would have its memory."""
    wide = net("conv2d", net.x, net.filter(64, 1, 1, DEPTH))
    part = net.model.add("split", [wide], {"sizes": (4, 5), "axis": 1})[1]
    late, y = net("reshape", part, shape=(5 * SIDE, 64)), net.x
    for _ in range(3):
        y = net("conv2d", y, net.filter(64, 1, 1, y.type.shape[3]))
    net.model.output(net("fully_connected", late, net.filter(3, 64)), y)


def computed(net: Net) -> None:
    """Filters that each run brings, from which its own numbers are made."""
    x = net("conv2d", net.x, net.input((20, 1, 1, DEPTH)), activation="relu")
    y = net("depthwise_conv2d", x, net.input((1, 3, 3, 20)), padding="same")
    net.model.output(net("fully_connected", y, net.input((5, 20))))


NETS: list[Callable[[Net], None]] = [
    convolutions,
    branches,
    gates,
    between,
    untouched,
    moving,
    nested,
    reshaped,
    computed,
]


def inputs_of(net: Net, seed: int) -> list[Array]:
    """Return other arrays, at other places, for each seed."""
    found = []
    for type in net.model.input_types:
        if type.dtype is DType.INT32:
            found.append(np.array([0, seed % 5, 0, 0], np.int32))
        else:
            found.append(random(seed, *type.shape) if net.real else stored(seed, type))
    return found
