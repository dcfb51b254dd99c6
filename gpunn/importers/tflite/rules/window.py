"""Rules of TFLite operators of windows and of room between cells (a part of the table in table.py)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite as schema

from gpunn.importers.common.answers import Result, Step, Steps, Value, constant
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node, Options
from gpunn.importers.tflite.rules.tensor import PADDINGS, padding_value
from gpunn.ops.kernels.window import along
from gpunn.types import DType, Shape

MAX_PLACES = 1 << 22  # that the windows of one axis have, all in all
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


def conv3d_transpose(node: Node) -> Steps:
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
    layers: list[Step] = []
    turned = {"begin": (None,) * 5, "end": (None,) * 5, "strides": (-1, -1, -1, 1, 1)}
    weights = chain(layers, filter, ("strided_slice", turned))
    weights = chain(layers, weights, ("transpose", {"perm": (0, 1, 2, 4, 3)}))
    spaced = chain(layers, x, *dilation(x.type.shape, (1, *attrs["stride"], 1), 0))
    shape = (x.type.shape[0], *spread, x.type.shape[4])
    spaced = chain(layers, spaced, *margins(shape, (0, *low, 0), (0, *high, 0), 0))
    plain = {**attrs, "stride": (1, 1, 1), "padding": "valid"}
    layers.append(Step("conv3d", (spaced, weights, *node.inputs[3:]), plain))
    return Steps(layers, (Result(len(layers) - 1),))


def chain(layers: list[Step], start: Value, *moves: Move) -> Value:
    """What ops of one input, which are appended to the layers, make of a value one after the other."""
    for op, attrs in moves:
        layers.append(Step(op, (start,), attrs))
        start = Result(len(layers) - 1)
    return start


def dilate(node: Node) -> Steps:
    """DILATE by constant steps and one value: cells of each axis get room behind them, the last one not."""
    x = node.operand(0)
    steps = node.ints(1, "steps", x.type.rank)
    if min(steps, default=1) < 1:
        node.corrupt(f"steps should be at least 1, got {list(steps)}")
    layers: list[Step] = []
    chain(layers, x, *dilation(x.type.shape, steps, padding_value(node, 2)))
    return Steps(layers, (Result(len(layers) - 1),))


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
        cut((0,) * len(shape), ends),
    ]


def margins(shape: Shape, before: Sequence[int], after: Sequence[int], value: float) -> Sequence[Move]:
    """What puts cells of `value` around a tensor of `shape`; where there are less than none, cells go."""
    begin = tuple(max(-n, 0) for n in before)
    end = tuple(n - max(-a, 0) for n, a in zip(shape, after, strict=True))
    paddings = tuple((max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True))
    return [cut(begin, end), ("pad", {"paddings": paddings, "value": value})]


def cut(begin: Sequence[int], end: Sequence[int]) -> Move:
    """What takes begin[d] ... end[d] - 1 of axis d."""
    attrs = {"begin": tuple(begin), "end": tuple(end), "strides": (1,) * len(begin)}
    return "strided_slice", attrs


@dataclass(frozen=True, slots=True)
class Joining:
    """How the elements of a window become one: the reduction, what joins two, and what changes nothing."""

    reduce: str
    join: str
    neutral: float

    def of(self, dtype: DType) -> Joining:
        """The same for elements of a dtype: truth values are added and multiplied by or and and."""
        if dtype is not DType.BOOL:
            return self
        return ANY if self in (SUM, MOST, ANY) else ALL


SUM, PRODUCT = Joining("reduce_sum", "add", 0), Joining("reduce_prod", "mul", 1)
MOST, LEAST = Joining("reduce_max", "maximum", -math.inf), Joining("reduce_min", "minimum", math.inf)
ALL, ANY = Joining("reduce_all", "logical_and", 1), Joining("reduce_any", "logical_or", 0)
_FUNCTION = schema.ReduceWindowFunction
FUNCTIONS: Mapping[int, Joining] = {
    _FUNCTION.ADD: SUM,
    _FUNCTION.ALL: ALL,
    _FUNCTION.ANY: ANY,
    _FUNCTION.MAXIMUM: MOST,
    _FUNCTION.MINIMUM: LEAST,
    _FUNCTION.MUL: PRODUCT,
}

FUSED = ("AddOptions", "MulOptions")  # of bodies' operators that may have an activation
BODIES: Mapping[str, Joining] = {
    "ADD": SUM,
    "AND": ALL,
    "LOGICAL_AND": ALL,
    "LOGICAL_OR": ANY,
    "MAXIMUM": MOST,
    "MINIMUM": LEAST,
    "MUL": PRODUCT,
    "MULTIPLY": PRODUCT,
    "OR": ANY,
}


def joining(node: Node, index: int) -> Joining:
    """What a subgraph of one operator on its two inputs, in either order, does."""
    graph = node.subgraph(index)
    if len(graph.operators) != 1 or len(graph.inputs) != 2 or len(graph.outputs) != 1:
        raise RefusedError(f"subgraph {index} is not of one operator on two inputs")
    (body,) = graph.operators
    found, table = BODIES.get(body.code.removeprefix("STABLEHLO_")), f"{body.code.capitalize()}Options"
    inner = Node(node.origin, (), (), body.options_type, body.options_table)
    fused = table in FUSED and inner.options(table).activation()
    if found is None or fused or {*body.inputs} != {*graph.inputs} or body.outputs != graph.outputs:
        raise RefusedError(f"{body.code} of subgraph {index} is nothing that reduces")
    return found.of(node.operand(0).type.dtype)


def reduce_window(node: Node) -> Steps:
    """REDUCE_WINDOW by constant sizes, strides and dilations of windows inside the input."""
    number = node.options("ReduceWindowOptions").get("ReduceFunction")
    if number not in FUNCTIONS:
        node.corrupt(f"there is no function number {number} to reduce a window by")
    rank = node.operand(0).type.rank
    size, stride, dilations = (node.ints(2 + k, "extents", rank) for k in range(3))
    none = (0,) * rank
    how = FUNCTIONS[number].of(node.operand(0).type.dtype)
    return windowed(node, how, size, stride, (1,) * rank, dilations, (none, none))


def windowed(
    node: Node,
    how: Joining,
    size: Sequence[int],
    stride: Sequence[int],
    base: Sequence[int],
    dilations: Sequence[int],
    around: tuple[Sequence[int], Sequence[int]],
) -> Steps:
    """Input 0 reduced over windows, constant input 1 being what fills the room that `base` and `around` make.

    One axis after the other: a gather puts each window side by side, a reduction joins it. Input 1 then joins
    every window once more.
    """
    x, value = node.operand(0), padding_value(node, 1)
    if {len(size), len(stride), len(base), len(dilations)} != {x.type.rank}:
        node.corrupt(f"has windows of {list(size)} for {x.type}")
    if min((*size, *stride, *base, *dilations), default=1) < 1:
        node.corrupt(
            f"windows of {list(size)}, {list(stride)}, {list(base)} and {list(dilations)} go below 1"
        )
    layers: list[Step] = []
    found: Value = chain(layers, x, *dilation(x.type.shape, base, value))
    shape = [max((n - 1) * b + 1, 0) for n, b in zip(x.type.shape, base, strict=True)]
    found = chain(layers, found, *margins(tuple(shape), *around, value))
    for axis, (k, s, d) in enumerate(zip(size, stride, dilations, strict=True)):
        extent = shape[axis] + around[0][axis] + around[1][axis]
        count = max((extent - (k - 1) * d - 1) // s + 1, 0)
        if k == s == 1:
            continue
        if max(count, 1) * k > MAX_PLACES:
            raise RefusedError(f"windows of {k} at {count} places are too many, at most {MAX_PLACES} in all")
        places = np.arange(count)[:, None] * s + np.arange(k) * d
        index = constant(f"{node.origin}: windows of axis {axis}", places.astype(np.int32))
        layers.append(Step("gather", (found, index), {"axis": axis}))
        found = chain(layers, Result(len(layers) - 1), (how.reduce, {"axes": (axis + 1,)}))
    if value != how.neutral:
        layers.append(Step(how.join, (found, node.operand(1))))
    return Steps(layers, (Result(len(layers) - 1),))
