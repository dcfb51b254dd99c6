"""Rules of the StableHLO operators of TFLite files (a part of the table in table.py).

The option tables are those of StableHLO's operations of the same names (specification, version 1), whose
shapes are all known: the file states the shape of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tflite as schema

from gpunn.importers.common.answers import PREVIOUS, Known, Step, Steps
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules.tensor import fill
from gpunn.importers.tflite.rules.value import expect_few
from gpunn.importers.tflite.rules.window import function, windowed
from gpunn.types import DType, TensorType

_DIRECTION = schema.StablehloComparisonDirection
COMPARISONS: Mapping[int, str] = {
    _DIRECTION.STABLEHLO_COMPARISON_DIRECTION_EQ: "equal",
    _DIRECTION.STABLEHLO_COMPARISON_DIRECTION_GE: "greater_equal",
    _DIRECTION.STABLEHLO_COMPARISON_DIRECTION_GT: "greater",
    _DIRECTION.STABLEHLO_COMPARISON_DIRECTION_LE: "less_equal",
    _DIRECTION.STABLEHLO_COMPARISON_DIRECTION_LT: "less",
    _DIRECTION.STABLEHLO_COMPARISON_DIRECTION_NE: "not_equal",
}


def _result(node: Node) -> TensorType:
    """Return the type that the file states for the first output."""
    found = node.outputs[0] if node.outputs else None
    if found is None:
        raise RefusedError("the output is of a type that is not supported")
    return found


def by_type(truths: str, numbers: str) -> Callable[[Node], Step]:
    """Make a rule for an operator that is one op on truth values and another on numbers."""
    return lambda node: Step(truths if node.operand(0).type.dtype is DType.BOOL else numbers, node.inputs)


def broadcast_in_dim(node: Node) -> Step:
    """Translate STABLEHLO_BROADCAST_IN_DIM: dimension i of the input becomes dimension
    broadcast_dimensions[i].
    """
    dims = node.options("StablehloBroadcastInDimOptions").ints("BroadcastDimensions")
    return Step("broadcast_in_dim", (node.operand(0),), {"shape": _result(node).shape, "dims": dims})


def clamp(node: Node) -> Step:
    """Translate STABLEHLO_CLAMP of a lowest value, a tensor and a highest value."""
    low, x, high = (node.operand(k) for k in range(3))
    return Step("clamp", (x, low, high))


def compare(node: Node) -> Step:
    """Translate STABLEHLO_COMPARE in one of six ways."""
    number = node.options("StablehloCompareOptions").get("ComparisonDirection")
    if number not in COMPARISONS:
        node.corrupt(f"there is no comparison direction number {number}")
    return Step(COMPARISONS[number], node.inputs)


def concatenate(node: Node) -> Step:
    """Translate STABLEHLO_CONCATENATE of any number of inputs."""
    return Step("concat", node.inputs, {"axis": node.options("StablehloConcatenateOptions").get("Dimension")})


def dot_general(node: Node) -> Steps:
    """Translate STABLEHLO_DOT_GENERAL: common dimensions, then summed ones, then those of each input."""
    options = node.options("StablehloDotGeneralOptions")
    names = {
        f"{side}_{kind}": f"{option}{title}Dimensions"
        for side, option in (("a", "Lhs"), ("b", "Rhs"))
        for kind, title in (("batch", "Batching"), ("contracting", "Contracting"))
    }
    attrs = {attr: options.ints(name) for attr, name in names.items()}
    return Steps([Step("dot_general", (node.operand(0), node.operand(1)), attrs)], (PREVIOUS,))


def iota(node: Node) -> Known:
    """Translate STABLEHLO_IOTA: 0, 1, 2 ... along a dimension."""
    found = _result(node)
    dimension = node.options("StablehloIotaOptions").get("IotaDimension")
    if not 0 <= dimension < found.rank or found.dtype in (DType.STRING, DType.BOOL):
        node.corrupt(f"cannot count along dimension {dimension} of {found}")
    expect_few(found.shape)
    numbers = np.arange(found.shape[dimension]).astype(found.dtype.numpy)
    along = numbers.reshape(-1, *(1,) * (found.rank - 1 - dimension))
    return Known(np.ascontiguousarray(np.broadcast_to(along, found.shape)))


def pad(node: Node) -> Step:
    """Translate STABLEHLO_PAD with one value before, after and between cells; a negative padding crops."""
    x, options = node.operand(0), node.options("StablehloPadOptions")
    low, high, between = (
        options.ints(n) or (0,) * x.type.rank
        for n in ("EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding")
    )
    if {len(low), len(high), len(between)} != {x.type.rank} or min(between, default=0) < 0:
        node.corrupt(f"pads {x.type} by {list(low)}, {list(high)} and {list(between)}")
    attrs = {"steps": tuple(n + 1 for n in between), "paddings": tuple(zip(low, high, strict=True))}
    return Step("dilate", (x, fill(node, 1)), attrs)


def reduce(node: Node) -> Steps:
    """Translate STABLEHLO_REDUCE of one tensor by a body of one operator."""
    options = node.options("StablehloReduceOptions")
    if len(node.inputs) != 2:
        raise RefusedError(f"it reduces {len(node.inputs) // 2} tensors together")
    how = function(node, options.get("BodySubgraphIndex"))
    attrs = {"function": how, "axes": options.ints("Dimensions")}
    return Steps([Step("reduce_from", (node.operand(0), node.operand(1)), attrs)], (PREVIOUS,))


def reduce_window(node: Node) -> Steps:
    """Translate STABLEHLO_REDUCE_WINDOW of one tensor by a body of one operator."""
    options = node.options("StablehloReduceWindowOptions")
    if len(node.inputs) != 2:
        raise RefusedError(f"it reduces {len(node.inputs) // 2} tensors together")
    rank = node.operand(0).type.rank
    names = {"strides": "WindowStrides", "base_dilations": "BaseDilations", "dilations": "WindowDilations"}
    around = options.ints("Padding") or (0,) * 2 * rank
    if len(around) != 2 * rank:
        node.corrupt(f"pads {rank} dimensions by {list(around)}")
    attrs = {
        "function": function(node, options.get("BodySubgraphIndex")),
        "size": options.ints("WindowDimensions"),
        "paddings": tuple(zip(around[::2], around[1::2], strict=True)),
        **{attr: options.ints(name) or (1,) * rank for attr, name in names.items()},
    }
    return windowed(node, attrs)


def reshape(node: Node) -> Step:
    """Translate STABLEHLO_RESHAPE to the shape of the output."""
    return Step("reshape", node.inputs, {"shape": _result(node).shape})


def transpose(node: Node) -> Step:
    """Translate STABLEHLO_TRANSPOSE by a permutation."""
    return Step(
        "transpose", node.inputs, {"perm": node.options("StablehloTransposeOptions").ints("Permutation")}
    )
