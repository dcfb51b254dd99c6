"""The operations that can be written for ONNX, one function each, gathered in RULES; and write()."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gpunn.bench.peers.onnx_model import ACTIVATIONS, OnnxBuilder, axis_in_file
from gpunn.bench.peers.rules import write_operations
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operation
from gpunn.ops.kernels.window import Pair, Window, resolve
from gpunn.types import Array, Shape

Rule: TypeAlias = Callable[[OnnxBuilder, Operation], None]

_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min"}
_POOLS = {"max_pool2d": "MaxPool", "average_pool2d": "AveragePool"}
_SPATIAL = {1, 2}


def write(model: Graph, path: Path) -> None:
    """Write a model as an ONNX file with channels first.

    Raises UnsupportedError for what is not written, and if the package onnx is not installed.
    """
    builder = OnnxBuilder(model)
    write_operations(model, builder, RULES)
    builder.save(model, path)


def _x(operation: Operation) -> Shape:
    """Return the shape of the first operand."""
    operand = operation.inputs[0]
    assert operand is not None
    return operand.type.shape


def _window(operation: Operation, size: Pair) -> Window:
    """Return the window of a convolution or pool on its input."""
    attrs, (_, height, width, _) = operation.attrs, _x(operation)
    return resolve((height, width), size, attrs["stride"], attrs.get("dilation", (1, 1)), attrs["padding"])


def _attributes(window: Window) -> dict[str, Any]:
    """Return what Conv and pools state of their window."""
    return {
        "kernel_shape": window.size,
        "strides": window.stride,
        "pads": (*window.before, *window.after),
    }


def _convolution(builder: OnnxBuilder, operation: Operation, filter: Array, groups: int) -> None:
    """Write a convolution with a filter of shape [O, I / groups, KH, KW]."""
    window = _window(operation, filter.shape[2:])
    inputs = [builder.tensor(operation.inputs[0]), builder.constant(filter), *_bias(builder, operation)]
    builder.result(
        operation,
        builder.node("Conv", *inputs, group=groups, dilations=window.dilation, **_attributes(window)),
    )


def _bias(builder: OnnxBuilder, operation: Operation) -> list[str]:
    """Return the bias, in a list that is empty if there is none."""
    absent = len(operation.inputs) < 3 or operation.inputs[2] is None
    return [] if absent else [builder.constant(builder.weight(operation.inputs[2]))]


def _conv2d(builder: OnnxBuilder, operation: Operation) -> None:
    filter = builder.weight(operation.inputs[1])
    groups = _x(operation)[3] // filter.shape[3]
    _convolution(builder, operation, filter.transpose(0, 3, 1, 2), groups)


def _depthwise_conv2d(builder: OnnxBuilder, operation: Operation) -> None:
    filter = builder.weight(operation.inputs[1])
    _convolution(builder, operation, filter.transpose(3, 0, 1, 2), _x(operation)[3])


def _fully_connected(builder: OnnxBuilder, operation: Operation) -> None:
    filter, shape = builder.weight(operation.inputs[1]), operation.outputs[0].type.shape
    x, rows = builder.ordered(operation.inputs[0]), (math.prod(_x(operation)) // filter.shape[1],)
    if _x(operation) != (*rows, filter.shape[1]):
        x = builder.node("Reshape", x, builder.numbers(*rows, filter.shape[1]))
    y = builder.node("Gemm", x, builder.constant(filter), *_bias(builder, operation), transB=1)
    builder.result(operation, y if shape == (*rows, len(filter)) else builder.reshaped(y, shape))


def _pool(builder: OnnxBuilder, operation: Operation) -> None:
    window, x = _window(operation, operation.attrs["size"]), builder.tensor(operation.inputs[0])
    whole = window.size == _x(operation)[1:3] and window.out == (1, 1)
    if operation.op == "average_pool2d" and whole and window.before == window.after == (0, 0):
        builder.result(operation, builder.node("GlobalAveragePool", x))
        return
    builder.result(operation, builder.node(_POOLS[operation.op], x, **_attributes(window)))


def _mean(builder: OnnxBuilder, operation: Operation) -> None:
    rank, keep = len(_x(operation)), bool(operation.attrs["keep_dims"])
    axes = {axis % rank for axis in operation.attrs["axes"]}
    if rank == 4 and keep and axes == _SPATIAL:
        builder.result(operation, builder.node("GlobalAveragePool", builder.tensor(operation.inputs[0])))
        return
    if rank == 4 and not keep and axes != _SPATIAL:
        builder.refuse("a mean whose result has axes in another order")
    places = sorted(axis_in_file(axis, rank) for axis in axes)
    x = builder.tensor(operation.inputs[0])
    builder.result(operation, builder.node("ReduceMean", x, axes=places, keepdims=int(keep)))


def _binary(builder: OnnxBuilder, operation: Operation) -> None:
    rank = operation.outputs[0].type.rank
    inputs = (builder.tensor(operand, rank) for operand in operation.inputs)
    builder.result(operation, builder.node(_BINARY[operation.op], *inputs))


def _unary(builder: OnnxBuilder, operation: Operation) -> None:
    builder.result(operation, builder.activated(builder.tensor(operation.inputs[0]), operation.op))


def _axis(operation: Operation) -> int:
    """Return the place in the file of an operation's axis."""
    return axis_in_file(operation.attrs["axis"], operation.outputs[0].type.rank)


def _concat(builder: OnnxBuilder, operation: Operation) -> None:
    parts = [builder.tensor(operand) for operand in operation.inputs]
    builder.result(operation, builder.node("Concat", *parts, axis=_axis(operation)))


def _softmax(builder: OnnxBuilder, operation: Operation) -> None:
    x, beta = builder.tensor(operation.inputs[0]), operation.attrs["beta"]
    if beta != 1.0:
        x = builder.node("Mul", x, builder.constant(np.array(beta, np.float32)))
    builder.result(operation, builder.node("Softmax", x, axis=_axis(operation)))


def _pad(builder: OnnxBuilder, operation: Operation) -> None:
    rank, paddings = len(_x(operation)), operation.attrs["paddings"]
    pads = [0] * (2 * rank)
    for axis, (before, after) in enumerate(paddings):
        place = axis_in_file(axis, rank)
        pads[place], pads[rank + place] = before, after
    x, value = builder.tensor(operation.inputs[0]), operation.attrs["value"]
    # Zeros are what is there without a value.
    values = (builder.constant(np.array(value, np.float32)),) if value else ()
    builder.result(operation, builder.node("Pad", x, builder.numbers(*pads), *values))


def _reshape(builder: OnnxBuilder, operation: Operation) -> None:
    x = builder.ordered(operation.inputs[0])
    builder.result(operation, builder.reshaped(x, operation.outputs[0].type.shape))


def _resize_nearest(builder: OnnxBuilder, operation: Operation) -> None:
    if operation.attrs["align_corners"] or operation.attrs["half_pixel_centers"]:
        builder.refuse("align_corners or half_pixel_centers")
    batch, height, width, channels = operation.outputs[0].type.shape
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    size = builder.numbers(batch, channels, height, width)
    builder.result(
        operation, builder.node("Resize", builder.tensor(operation.inputs[0]), "", "", size, **how)
    )


RULES: dict[str, Rule] = {
    **dict.fromkeys(ACTIVATIONS, _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys(("reshape", "squeeze"), _reshape),
    "concat": _concat,
    "conv2d": _conv2d,
    "depthwise_conv2d": _depthwise_conv2d,
    "fully_connected": _fully_connected,
    "mean": _mean,
    "pad": _pad,
    "resize_nearest": _resize_nearest,
    "softmax": _softmax,
}
