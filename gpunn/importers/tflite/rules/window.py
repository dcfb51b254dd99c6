"""Rules of TFLite operators of windows and of room between cells (a part of the table in table.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tflite as schema

from gpunn.importers.common.answers import PREVIOUS, Step, StepList, Steps
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules.tensor import fill
from gpunn.types import DType


def dilate(node: Node) -> Step:
    """Translate DILATE by constant steps and one value, which goes between the cells of each axis."""
    x, steps = node.operand(0), node.ints(1, "steps", node.operand(0).type.rank)
    return Step("dilate", (x, fill(node, 2)), {"steps": steps})


_FUNCTION = schema.ReduceWindowFunction
FUNCTIONS: Mapping[int, str] = {
    _FUNCTION.ADD: "sum",
    _FUNCTION.ALL: "all",
    _FUNCTION.ANY: "any",
    _FUNCTION.MAXIMUM: "max",
    _FUNCTION.MINIMUM: "min",
    _FUNCTION.MUL: "prod",
}
_OF_TRUTHS = (_FUNCTION.ALL, _FUNCTION.ANY)

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
    """Translate REDUCE_WINDOW by constant sizes, strides and dilations of windows inside the input.

    ALL and ANY take numbers, too: all but 0 are true, and results are 0 or 1, as in LiteRT.
    """
    number = node.options("ReduceWindowOptions").get("ReduceFunction")
    if number not in FUNCTIONS:
        node.corrupt(f"there is no function number {number} to reduce a window by")
    x = node.operand(0)
    size, strides, dilations = (node.ints(2 + k, "extents", x.type.rank) for k in range(3))
    attrs = {"function": FUNCTIONS[number], "size": size, "strides": strides, "dilations": dilations}
    if number not in _OF_TRUTHS or x.type.dtype is DType.BOOL or x.type.quantization is not None:
        return windowed(node, attrs)
    steps = StepList()
    truths = [steps.add("cast", (each,), {"dtype": "bool"}) for each in (x, fill(node, 1))]
    found = steps.add("reduce_window", truths, attrs)
    return steps.answer(steps.add("cast", (found,), {"dtype": x.type.dtype.value}))


def windowed(node: Node, attrs: Mapping[str, Any]) -> Steps:
    """Reduce input 0 over windows, from the initial value of input 1; the quantisation stays.

    "all" and "any" of numbers reduce nothing but windows of one element, which stay as they are.
    """
    inputs = node.operand(0), fill(node, 1)
    if not _keeps_numbers(node, attrs):
        return Steps([Step("reduce_window", inputs, attrs)], (PREVIOUS,))
    if node.warn is not None:
        node.warn("the numbers of windows of one element stay as they are; LiteRT makes them 0 or 1")
    ones = (1,) * node.operand(0).type.rank
    room = {"steps": attrs.get("base_dilations", ones), "paddings": attrs.get("paddings")}
    return Steps([Step("dilate", inputs, room)], (PREVIOUS,))


def _keeps_numbers(node: Node, attrs: Mapping[str, Any]) -> bool:
    """Tell whether "all" or "any" reduces numbers, not bools, over windows of one element, next to another.

    The initial value, as stored, must be the one that changes nothing. Raises ComputedError if a run
    computes it.
    """
    x, logical = node.operand(0).type, {"all": 1, "any": 0}
    if attrs["function"] not in logical or x.dtype is DType.BOOL:
        return False
    ones, room = (1,) * x.rank, [attrs[n] for n in ("dilations", "base_dilations") if n in attrs]
    if not attrs["size"] == attrs["strides"] == ones:
        return False
    if any(len(apart) != x.rank or min(apart, default=1) < 1 for apart in room):
        return False
    initial = node.constant(1, "padding values", x.dtype.value).item()
    return bool(initial == logical[attrs["function"]])
