"""Rules of TFLite operators of windows and of room between cells (a part of tflite_rules.py's table)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from gpunn.importers.tflite_node import Layer, Network, Node, Options, Result, Step, Value
from gpunn.importers.tflite_tensor_rules import PADDINGS, padding_value
from gpunn.ops.window import along
from gpunn.types import Shape

Move = tuple[str, Mapping[str, Any]]  # an op and its attributes


def conv3d(node: Node) -> Step:
    """CONV_3D: filter [KD, KH, KW, I, O]."""
    return Step("conv3d", node.inputs, _window(node.options("Conv3DOptions")))


def _window(options: Options) -> dict[str, Any]:
    """Stride, dilation, padding and activation over depth, height and width."""
    padding = options.get("Padding")
    if padding not in PADDINGS:
        options.node.corrupt(f"there is no padding number {padding}")
    stride = tuple(options.get(f"Stride{axis}") for axis in "DHW")
    dilation = tuple(options.get(f"Dilation{axis}Factor") for axis in "DHW")
    return {"stride": stride, "dilation": dilation, "padding": PADDINGS[padding], **options.activation()}


def conv3d_transpose(node: Node) -> Network:
    """CONV_3D_TRANSPOSE to a constant shape, filter [KD, KH, KW, O, I], as a convolution.

    What cell k of the filter adds at o comes of cell i of the input with o = stride i + dilation k - before:
    the filter, turned round, looks at the input with stride - 1 cells of 0 between any two.
    """
    attrs = _window(node.options("Conv3DOptions"))
    x, filter = node.operand(2), node.operand(1)
    batch, *size, channels = node.ints(0, "extents", 5)
    if x.type.rank != 5 or filter.type.rank != 5 or min(*attrs["stride"], *attrs["dilation"]) < 1:
        node.corrupt(
            f"takes five dimensions and strides over 0, got {x.type}, {filter.type}, {attrs['stride']}"
        )
    places = zip(size, filter.type.shape, attrs["stride"], attrs["dilation"], strict=False)
    spans = [along(n, k, s, d, attrs["padding"]) for n, k, s, d in places]
    found = (batch, *(n for _, _, n in spans), channels)
    if found != (*x.type.shape[:4], filter.type.shape[3]):
        node.corrupt(
            f"a result of {size} and {channels} channels does not come of {x.type} and {filter.type}"
        )
    reach = [(k - 1) * d for k, d in zip(filter.type.shape, attrs["dilation"], strict=False)]
    spread = [(n - 1) * s + 1 for n, s in zip(x.type.shape[1:4], attrs["stride"], strict=True)]
    low = [r - before for r, (before, _, _) in zip(reach, spans, strict=True)]
    high = [n + r - a - w for n, r, a, w in zip(size, reach, low, spread, strict=True)]
    layers: list[Layer] = []
    turned = {"begin": (None,) * 5, "end": (None,) * 5, "strides": (-1, -1, -1, 1, 1)}
    weights = chain(layers, filter, ("strided_slice", turned))
    weights = chain(layers, weights, ("transpose", {"perm": (0, 1, 2, 4, 3)}))
    spaced = chain(layers, x, *dilation(x.type.shape, (1, *attrs["stride"], 1), 0))
    shape = (x.type.shape[0], *spread, x.type.shape[4])
    spaced = chain(layers, spaced, *margins(shape, (0, *low, 0), (0, *high, 0), 0))
    plain = {**attrs, "stride": (1, 1, 1), "padding": "valid"}
    layers.append(Layer("conv3d", (spaced, weights, *node.inputs[3:]), plain))
    return Network(layers, (Result(len(layers) - 1),))


def chain(layers: list[Layer], start: Value, *moves: Move) -> Value:
    """What ops of one input, which are appended to the layers, make of a value one after the other."""
    for op, attrs in moves:
        layers.append(Layer(op, (start,), attrs))
        start = Result(len(layers) - 1)
    return start


def dilate(node: Node) -> Network:
    """DILATE by constant steps and one value: cells of each axis get room behind them, the last one not."""
    x = node.operand(0)
    steps = node.ints(1, "steps", x.type.rank)
    if min(steps, default=1) < 1:
        node.corrupt(f"steps should be at least 1, got {list(steps)}")
    layers: list[Layer] = []
    chain(layers, x, *dilation(x.type.shape, steps, padding_value(node, 2)))
    return Network(layers, (Result(len(layers) - 1),))


def dilation(shape: Shape, steps: Sequence[int], value: float) -> Sequence[Move]:
    """What puts steps[d] - 1 cells of `value` between any two of axis d of a tensor of `shape`."""
    spread = [(n, 1) if s > 1 else (n,) for n, s in zip(shape, steps, strict=True)]
    room = [((0, 0), (0, s - 1)) if s > 1 else ((0, 0),) for s in steps]
    most = tuple(n * s for n, s in zip(shape, steps, strict=True))
    ends = tuple(max((n - 1) * s + 1, 0) for n, s in zip(shape, steps, strict=True))
    return [
        ("reshape", {"shape": tuple(itertools.chain.from_iterable(spread))}),
        ("pad", {"paddings": tuple(itertools.chain.from_iterable(room)), "value": value}),
        ("reshape", {"shape": most}),
        _cut((0,) * len(shape), ends),
    ]


def margins(shape: Shape, before: Sequence[int], after: Sequence[int], value: float) -> Sequence[Move]:
    """What puts cells of `value` around a tensor of `shape`; where there are less than none, cells go."""
    begin = tuple(max(-n, 0) for n in before)
    end = tuple(n - max(-a, 0) for n, a in zip(shape, after, strict=True))
    paddings = tuple((max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True))
    return [_cut(begin, end), ("pad", {"paddings": paddings, "value": value})]


def _cut(begin: Shape, end: Shape) -> Move:
    attrs = {"begin": begin, "end": end, "strides": (1,) * len(begin)}
    return "strided_slice", attrs
