"""Rules of TFLite operators of windows and of room between cells (a part of the table in table.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tflite as schema

from gpunn.importers.common.answers import PREVIOUS, Result, Step, Steps, Value
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node, Options
from gpunn.importers.tflite.rules.tensor import PADDINGS, fill

MAX_PLACES = 1 << 22  # that the windows of one axis have, all in all
Move = tuple[str, Mapping[str, Any]]  # an op and its attributes


def conv3d(node: Node) -> Step:
    """Translate CONV_3D: filter [KD, KH, KW, I, O]."""
    return Step("conv3d", node.inputs, _window(node.options("Conv3DOptions")))


def _window(options: Options) -> dict[str, Any]:
    """Return stride, dilation, padding and activation over depth, height and width."""
    padding = options.get("Padding")
    if padding not in PADDINGS:
        options.node.corrupt(f"there is no padding number {padding}")
    stride = tuple(options.get(f"Stride{axis}") for axis in "DHW")
    dilation = tuple(options.get(f"Dilation{axis}Factor") for axis in "DHW")
    return {"stride": stride, "dilation": dilation, "padding": PADDINGS[padding], **options.activation()}


def conv3d_transpose(node: Node) -> Step:
    """Translate CONV_3D_TRANSPOSE to a constant shape, filter [KD, KH, KW, O, I]."""
    attrs = _window(node.options("Conv3DOptions"))
    x, filter = node.operand(2), node.operand(1)
    batch, *size, channels = node.ints(0, "extents", 5)
    if x.type.rank != 5 or filter.type.rank != 5 or min(*attrs["stride"], *attrs["dilation"]) < 1:
        node.corrupt(
            f"takes five dimensions and strides over 0, got {x.type}, {filter.type}, {attrs['stride']}"
        )
    if (batch, channels) != (x.type.shape[0], filter.type.shape[3]):
        node.corrupt(
            f"a result of {size} and {channels} channels does not come of {x.type} and {filter.type}"
        )
    return Step("transpose_conv3d", (x, filter, *node.inputs[3:]), {"size": tuple(size), **attrs})


def chain(layers: list[Step], start: Value, *moves: Move) -> Value:
    """Append ops of one input to the layers, one after the other; return the result for a value."""
    for op, attrs in moves:
        layers.append(Step(op, (start,), attrs))
        start = Result(len(layers) - 1)
    return start


def dilate(node: Node) -> Step:
    """Translate DILATE by constant steps and one value, which goes between the cells of each axis."""
    x, steps = node.operand(0), node.ints(1, "steps", node.operand(0).type.rank)
    return Step("dilate", (x, fill(node, 2)), {"steps": steps})


def cut(begin: Sequence[int], end: Sequence[int]) -> Move:
    """Make the slice begin[d] ... end[d] - 1 of axis d."""
    attrs = {"begin": tuple(begin), "end": tuple(end), "strides": (1,) * len(begin)}
    return "strided_slice", attrs


_FUNCTION = schema.ReduceWindowFunction
FUNCTIONS: Mapping[int, str] = {
    _FUNCTION.ADD: "sum",
    _FUNCTION.ALL: "all",
    _FUNCTION.ANY: "any",
    _FUNCTION.MAXIMUM: "max",
    _FUNCTION.MINIMUM: "min",
    _FUNCTION.MUL: "prod",
}

FUSED = ("AddOptions", "MulOptions")  # of bodies' operators that may have an activation
BODIES: Mapping[str, str] = {
    "ADD": "sum",
    "AND": "all",
    "LOGICAL_AND": "all",
    "LOGICAL_OR": "any",
    "MAXIMUM": "max",
    "MINIMUM": "min",
    "MUL": "prod",
    "MULTIPLY": "prod",
    "OR": "any",
}


def function(node: Node, index: int) -> str:
    """Return the function of a subgraph of one operator on its two inputs, in either order; see JOININGS."""
    graph = node.subgraph(index)
    if len(graph.operators) != 1 or len(graph.inputs) != 2 or len(graph.outputs) != 1:
        raise RefusedError(f"subgraph {index} is not of one operator on two inputs")
    (body,) = graph.operators
    name, table = BODIES.get(body.code.removeprefix("STABLEHLO_")), f"{body.code.capitalize()}Options"
    inner = Node(node.origin, (), (), body.options_type, body.options_table)
    fused = table in FUSED and inner.options(table).activation()
    if name is None or fused or {*body.inputs} != {*graph.inputs} or body.outputs != graph.outputs:
        raise RefusedError(f"{body.code} of subgraph {index} is nothing that reduces")
    return name


def reduce_window(node: Node) -> Steps:
    """Translate REDUCE_WINDOW by constant sizes, strides and dilations of windows inside the input."""
    number = node.options("ReduceWindowOptions").get("ReduceFunction")
    if number not in FUNCTIONS:
        node.corrupt(f"there is no function number {number} to reduce a window by")
    rank = node.operand(0).type.rank
    size, strides, dilations = (node.ints(2 + k, "extents", rank) for k in range(3))
    attrs = {"function": FUNCTIONS[number], "size": size, "strides": strides, "dilations": dilations}
    return windowed(node, attrs)


def windowed(node: Node, attrs: Mapping[str, Any]) -> Steps:
    """Reduce input 0 over windows, from the initial value of input 1; the quantisation stays."""
    return Steps([Step("reduce_window", (node.operand(0), fill(node, 1)), attrs)], (PREVIOUS,))
