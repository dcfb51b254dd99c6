"""The operations that can be written for ncnn, one function each, gathered in RULES."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gpunn.bench.peers.ncnn_builder import UNARY, NcnnBuilder, Params, fused
from gpunn.graph.operation import Operation
from gpunn.ops.kernels.window import Pair, Window, resolve
from gpunn.types import Array

Rule: TypeAlias = Callable[[NcnnBuilder, Operation], None]

_BINARY = {"add": 0, "sub": 1, "mul": 2, "div": 3, "maximum": 4, "minimum": 5}
_POOLS = {"max_pool2d": 0, "average_pool2d": 1}
_UNPADDED = (0, 0)


def _window(builder: NcnnBuilder, operation: Operation, size: Pair) -> Window:
    """Return the window of a convolution or pool on its input."""
    x = builder.tensor(operation.inputs[0])
    height, width, _ = builder.pixels(x)
    attrs = operation.attrs
    return resolve((height, width), size, attrs["stride"], attrs.get("dilation", (1, 1)), attrs["padding"])


def _convolution(builder: NcnnBuilder, operation: Operation, filter: Array, groups: int) -> None:
    """Write a convolution with a filter of shape [O, I / groups, KH, KW]."""
    channels, _, height, width = filter.shape
    window = _window(builder, operation, (height, width))
    x = builder.tensor(operation.inputs[0])
    if builder.single(x):
        unpadded = window.before == window.after == _UNPADDED
        if groups > 1 or window.size != (1, 1) or not unpadded:
            builder.refuse("a grouped, padded or larger than 1 x 1 convolution of a single pixel")
        _inner_product(builder, operation, filter.reshape(channels, -1), builder.blob(x))
        return
    (top, left), (bottom, right) = window.before, window.after
    params: Params = {
        0: channels,
        **{1: width, 2: window.dilation[1], 3: window.stride[1], 4: left, 15: right},
        **{11: height, 12: window.dilation[0], 13: window.stride[0], 14: top, 16: bottom},
        5: int(builder.add_weights(operation, filter)),
        6: filter.size,
        **({7: groups} if groups > 1 else {}),
        **fused(operation),
    }
    builder.emit(operation, "ConvolutionDepthWise" if groups > 1 else "Convolution", params)


def _conv2d(builder: NcnnBuilder, operation: Operation) -> None:
    filter = builder.constant(operation.inputs[1]).transpose(0, 3, 1, 2)
    x = builder.tensor(operation.inputs[0])
    _convolution(builder, operation, filter, builder.pixels(x)[2] // filter.shape[1])


def _depthwise_conv2d(builder: NcnnBuilder, operation: Operation) -> None:
    x = builder.tensor(operation.inputs[0])
    filter = builder.constant(operation.inputs[1]).transpose(3, 0, 1, 2)
    _convolution(builder, operation, filter, builder.pixels(x)[2])


def _inner_product(builder: NcnnBuilder, operation: Operation, filter: Array, blob: str) -> None:
    biased = builder.add_weights(operation, filter)
    params: Params = {0: filter.shape[0], 1: int(biased), 2: filter.size, **fused(operation)}
    builder.emit(operation, "InnerProduct", params, blob, vector=True)


def _fully_connected(builder: NcnnBuilder, operation: Operation) -> None:
    filter = builder.constant(operation.inputs[1])
    (output,) = operation.outputs
    if not builder.single(output):
        builder.refuse("more than one row")
    _inner_product(builder, operation, filter, builder.flat(builder.tensor(operation.inputs[0])))


def _pool(builder: NcnnBuilder, operation: Operation) -> None:
    window = _window(builder, operation, operation.attrs["size"])
    x = builder.tensor(operation.inputs[0])
    if builder.single(x):
        builder.refuse("a pool of a single pixel")
    kind = _POOLS[operation.op]
    unpadded = window.before == window.after == _UNPADDED
    if unpadded and window.size == builder.pixels(x)[:2]:
        builder.emit(operation, "Pooling", {0: kind, 4: 1}, vector=True)
        return
    params: Params = {
        0: kind,
        5: 1,  # pad as told; padded cells do not count
        **{1: window.size[1], 2: window.stride[1], 3: window.before[1], 14: window.after[1]},
        **{11: window.size[0], 12: window.stride[0], 13: window.before[0], 15: window.after[0]},
    }
    builder.emit(operation, "Pooling", params)


def _mean(builder: NcnnBuilder, operation: Operation) -> None:
    x = builder.tensor(operation.inputs[0])
    rank = x.type.rank
    if rank != 4 or {axis % rank for axis in operation.attrs["axes"]} != {1, 2} or builder.single(x):
        builder.refuse("a mean that is not over height and width")
    builder.emit(operation, "Pooling", {0: 1, 4: 1}, vector=True)


def _binary(builder: NcnnBuilder, operation: Operation) -> None:
    a, b = (builder.blob(operand) for operand in operation.inputs)
    shapes = {operand.type.shape for operand in operation.inputs if operand is not None}
    if len(shapes) > 1:
        builder.refuse("broadcasting")
    builder.emit(operation, "BinaryOp", {0: _BINARY[operation.op]}, a, b, vector=True)


def _unary(builder: NcnnBuilder, operation: Operation) -> None:
    kind, params = UNARY[operation.op]
    builder.emit(operation, kind, params, vector=True)


def _axis(builder: NcnnBuilder, operation: Operation) -> int:
    """Return ncnn's number of an operation's axis: channels are the first."""
    (output,) = operation.outputs
    axis = operation.attrs["axis"] % output.type.rank
    channels = axis == output.type.rank - 1
    if axis == 0 or (builder.single(output) and not channels):
        builder.refuse(f"axis {axis}")
    return 0 if channels else axis


def _concat(builder: NcnnBuilder, operation: Operation) -> None:
    blobs = [builder.blob(operand) for operand in operation.inputs]
    builder.emit(operation, "Concat", {0: _axis(builder, operation)}, *blobs, vector=True)


def _softmax(builder: NcnnBuilder, operation: Operation) -> None:
    if operation.attrs["beta"] != 1.0:
        builder.refuse(f"beta {operation.attrs['beta']}")
    # 1=1: count axes as ncnn does since 2018
    builder.emit(operation, "Softmax", {0: _axis(builder, operation), 1: 1}, vector=True)


def _pad(builder: NcnnBuilder, operation: Operation) -> None:
    x = builder.tensor(operation.inputs[0])
    paddings = operation.attrs["paddings"]
    if builder.single(x) or tuple(paddings[0]) != _UNPADDED or tuple(paddings[-1]) != _UNPADDED:
        builder.refuse("padding of batch or channels, or of a single pixel,")
    (top, bottom), (left, right) = paddings[1:3]
    params: Params = {0: top, 1: bottom, 2: left, 3: right, 4: 0, 5: float(operation.attrs["value"])}
    builder.emit(operation, "Padding", params)


def _reshape(builder: NcnnBuilder, operation: Operation) -> None:
    x, (output,) = builder.tensor(operation.inputs[0]), operation.outputs
    if builder.single(output):
        builder.alias(operation, builder.flat(x))
    elif builder.pixels(x) == builder.pixels(output):
        builder.alias(operation, builder.blob(x))
    else:
        builder.refuse(f"a change from {list(x.type.shape)} to {list(output.type.shape)}")


RULES: dict[str, Rule] = {
    "conv2d": _conv2d,
    "depthwise_conv2d": _depthwise_conv2d,
    "fully_connected": _fully_connected,
    "concat": _concat,
    "mean": _mean,
    "pad": _pad,
    "reshape": _reshape,
    "squeeze": _reshape,
    "softmax": _softmax,
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(UNARY, _unary),
}
