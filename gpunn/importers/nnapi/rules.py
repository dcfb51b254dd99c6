"""The NNAPI operation table: signatures, constraints, and the op with attributes for each operation.

Sources: types.hal 1.0, OperationType, and NeuralNetworks.h, OperationCode; for BATCH_TO_SPACE_ND, MEAN,
SPACE_TO_BATCH_ND, SQUEEZE and TRANSPOSE types.hal 1.1. If the two differ, types.hal is right, as in Android:
RESIZE_BILINEAR takes the width first, the scratch buffer of LSTM is a matrix. Only the padding code 0 (NONE)
of types.hal is refused, because NeuralNetworks.h does not have it. A broken constraint is BAD_DATA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpunn.importers.common.answers import Step
from gpunn.importers.common.strided_slice import StridedSlice
from gpunn.importers.nnapi.checks import IN_RANGE, SORTED, DataCheck, Scales, free, hits, product, same, unit
from gpunn.importers.nnapi.codes import LSHProjectionType, OperandCode, OperationCode
from gpunn.importers.nnapi.node import PADDINGS, Node
from gpunn.importers.nnapi.recurrent import lstm, rnn, svdf
from gpunn.importers.nnapi.signature import FLOAT, INT, QUANT8, Signature, parse

ToStep = Callable[[Node], Step | Sequence[Step]]

FLOATS = (FLOAT,)
QUANTISED = (FLOAT, QUANT8)
ANY = (FLOAT, INT, QUANT8)


@dataclass(frozen=True, slots=True)
class Rule:
    """One operation: its signature, its ops, the rule for its scales, and its values at execution."""

    signature: Signature
    steps: ToStep
    scales: Scales
    checks: tuple[DataCheck, ...] = ()


def plain(op: str) -> ToStep:
    """Make a rule for the tensors in order, without attributes."""
    return lambda node: Step(op, tuple(node.tensor(name) for name in node.parameters))


def binary(op: str) -> ToStep:
    """Make a rule for two tensors and a fused activation."""

    def steps(node: Node) -> Step:
        attrs = node.activation()
        return Step(op, (node.tensor("a"), node.tensor("b")), attrs)

    return steps


def pool(op: str) -> ToStep:
    """Make a rule for a pool over windows."""

    def steps(node: Node) -> Step:
        attrs = {"size": (node.integer("filter_height", 1), node.integer("filter_width", 1)), **_window(node)}
        return Step(op, (node.tensor("x"),), attrs)

    return steps


def _window(node: Node) -> dict[str, Any]:
    """Return the common attributes of convolutions and pools: stride, padding, activation."""
    padding: Any
    if node.has("padding"):
        padding = node.code("padding", PADDINGS)
    else:
        top, bottom, left, right = (node.integer(side, 0) for side in ("top", "bottom", "left", "right"))
        padding = (top, bottom), (left, right)
    stride = node.integer("stride_height", 1), node.integer("stride_width", 1)
    return {"stride": stride, "padding": padding, **node.activation()}


def conv(node: Node) -> Step:
    """Translate CONV_2D: the filter has as many input channels as the input."""
    attrs = _window(node)
    x, filter = node.tensor("x"), node.tensor("filter")
    if filter.type.shape[3] != x.type.shape[3]:
        node.corrupt(f"filter has {filter.type.shape[3]} input channels, input has {x.type.shape[3]}")
    return Step("conv2d", (x, filter, node.tensor("bias")), attrs)


def depthwise_conv(node: Node) -> Step:
    """Translate DEPTHWISE_CONV_2D: depth_out = depth_in * multiplier."""
    attrs, multiplier = _window(node), node.integer("multiplier", 1)
    x, filter = node.tensor("x"), node.tensor("filter")
    if filter.type.shape[3] != x.type.shape[3] * multiplier:
        depths = f"{x.type.shape[3]} input channels times multiplier {multiplier}"
        node.corrupt(f"the filter's depth must be {depths}, got {filter.type.shape[3]}")
    return Step("depthwise_conv2d", (x, filter, node.tensor("bias")), attrs)


def fully_connected(node: Node) -> Step:
    """Translate FULLY_CONNECTED of the input flattened to rows."""
    attrs = node.activation()
    return Step("fully_connected", (node.tensor("x"), node.tensor("weights"), node.tensor("bias")), attrs)


def concatenation(node: Node) -> Step:
    """Translate CONCATENATION of any number of tensors."""
    axis = node.integer("axis", 0, len(node.types[0].dimensions) - 1)
    return Step("concat", node.tensors(), {"axis": axis})


def blocks(op: str) -> ToStep:
    """Make a rule for DEPTH_TO_SPACE or SPACE_TO_DEPTH."""

    def steps(node: Node) -> Step:
        size = node.integer("block_size", 1)
        return Step(op, (node.tensor("x"),), {"block_size": size})

    return steps


def batch_to_space(node: Node) -> Step:
    """Translate BATCH_TO_SPACE_ND, which has no crops in 1.1."""
    attrs = {"block_shape": node.integers("block_shape", 2), "crops": ((0, 0), (0, 0))}
    return Step("batch_to_space_nd", (node.tensor("x"),), attrs)


def space_to_batch(node: Node) -> Step:
    """Translate SPACE_TO_BATCH_ND, padded with zeros; quantised, with the zero point."""
    shape = node.integers("block_shape", 2)
    attrs = {"block_shape": shape, "paddings": node.pairs("paddings", 2), "value": _zero(node)}
    return Step("space_to_batch_nd", (node.tensor("x"),), attrs)


def _zero(node: Node) -> float:
    """Return the stored value for a real 0 in tensor x."""
    return float(node.type("x").zero_point)


def pad(node: Node) -> Step:
    """Translate PAD with zeros; quantised, with the zero point."""
    paddings = node.pairs("paddings", len(node.type("x").dimensions))
    return Step("pad", (node.tensor("x"),), {"paddings": paddings, "value": _zero(node)})


def reshape(node: Node) -> Step:
    """Translate RESHAPE; one extent may be -1."""
    shape = node.integers("shape")
    return Step("reshape", (node.tensor("x"),), {"shape": shape})


def squeeze(node: Node) -> Step:
    """Translate SQUEEZE of the given dimensions, or of all that are 1 if none is given."""
    axes = node.integers("axes") if node.has("axes") else ()
    return Step("squeeze", (node.tensor("x"),), {"axes": axes})


def transpose(node: Node) -> Step:
    """Translate TRANSPOSE; without a permutation the dimensions are reversed."""
    rank = len(node.type("x").dimensions)
    perm = node.integers("perm", rank) if node.has("perm") else tuple(reversed(range(rank)))
    return Step("transpose", (node.tensor("x"),), {"perm": perm})


def mean(node: Node) -> Step:
    """Translate MEAN; axes may be negative and may repeat."""
    attrs = {"axes": node.integers("axes"), "keep_dims": node.integer("keep_dims") > 0}
    return Step("mean", (node.tensor("x"),), attrs)


def strided_slice(node: Node) -> Step | Sequence[Step]:
    """Translate STRIDED_SLICE; a bound that a mask hides is None.

    Begins that come with an execution decide on the shape alone.
    """
    rank = len(node.type("x").dimensions)
    begin, end, strides = (node.integers(name, rank) for name in ("begin", "end", "strides"))
    hide_begin, hide_end, shrink = (
        node.integer(name) for name in ("begin_mask", "end_mask", "shrink_axis_mask")
    )
    if 0 in strides:
        node.corrupt(f"strides must not be 0, got {list(strides)}")
    shrunk = tuple(i for i in range(rank) if shrink >> i & 1)
    if any(strides[i] < 0 for i in shrunk):
        node.corrupt(f"strides of shrunk dimensions must be positive, got {list(strides)}")
    given = node.operand(node.parameters["begin"])
    if given.value is None:
        spec = StridedSlice(node, node.tensor("x"), computed=given, entries=rank)
        for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
            unread = bool(hide_begin >> i & 1)
            if i in shrunk:
                if not unread and not -spec.extent() <= first < spec.extent():
                    node.corrupt(f"begin[{i}] must be an index into {spec.x.type}, got {first}")
                spec.index(0 if unread else None, i)
            else:
                spec.slice(None if unread else first, None if hide_end >> i & 1 else last, step, i)
        return spec.steps()
    hidden = [0 if i in shrunk else None for i in range(rank)]  # a shrunk dimension needs an index
    attrs = {
        "begin": tuple(hidden[i] if hide_begin >> i & 1 else b for i, b in enumerate(begin)),
        "end": tuple(None if hide_end >> i & 1 else e for i, e in enumerate(end)),
        "strides": strides,
        "shrink_axes": shrunk,
    }
    return Step("strided_slice", (node.tensor("x"),), attrs)


def resize_bilinear(node: Node) -> Step:
    """Translate RESIZE_BILINEAR; the width comes first."""
    size = node.integer("height", 1), node.integer("width", 1)
    return Step("resize_bilinear", (node.tensor("x"),), {"size": size})


def softmax(node: Node) -> Step:
    """Translate SOFTMAX over the last dimension."""
    beta = node.real("beta")
    if not beta > 0:
        node.corrupt(f"beta must be positive, got {beta}")
    return Step("softmax", (node.tensor("x"),), {"axis": -1, "beta": beta})


def local_response_normalization(node: Node) -> Step:
    """Translate LOCAL_RESPONSE_NORMALIZATION over the last dimension."""
    attrs = {
        "radius": node.integer("radius", 0),
        **{name: node.real(name) for name in ("bias", "alpha", "beta")},
    }
    if attrs["bias"] == 0:
        node.corrupt("bias must not be 0")
    return Step("local_response_normalization", (node.tensor("x"),), attrs)


def lsh_projection(node: Node) -> Step:
    """Translate LSH_PROJECTION; a sparse signature must fit 32 bits."""
    kind = node.code("type", {LSHProjectionType.SPARSE: "sparse", LSHProjectionType.DENSE: "dense"})
    functions = node.tensor("hash")
    count, seeds = functions.type.shape
    if kind == "sparse" and seeds + math.ceil(math.log2(max(count, 1))) > 32:
        node.corrupt(f"{count} functions of {seeds} bits do not fit 32 bits")
    x, weight = node.tensor("x"), node.optional("weight")
    if weight is not None and weight.type.shape[0] != x.type.shape[0]:
        node.corrupt(f"weight must have {x.type.shape[0]} entries as the input, got {weight.type.shape[0]}")
    return Step("lsh_projection", (functions, x, weight), {"type": kind})


def _rule(
    types: Sequence[OperandCode],
    forms: Sequence[str],
    outputs: str,
    steps: ToStep,
    scales: Scales = free,
    *checks: DataCheck,
) -> Rule:
    signature = Signature(tuple(map(parse, forms)), parse(outputs), tuple(types))
    return Rule(signature, steps, scales, checks)


_SIDES = "left:i right:i top:i bottom:i stride_width:i stride_height:i"
_SCHEME = "padding:i stride_width:i stride_height:i"
_WINDOW = "filter_width:i filter_height:i fuse:i"
_POOL = (f"x:T4 {_SIDES} {_WINDOW}", f"x:T4 {_SCHEME} {_WINDOW}")
_CONV = (f"x:T4 filter:T4 bias:B1 {_SIDES} fuse:i", f"x:T4 filter:T4 bias:B1 {_SCHEME} fuse:i")
_DEPTHWISE = tuple(form.replace("fuse", "multiplier:i fuse") for form in _CONV)
_BINARY = ("a:T1-4 b:T1-4 fuse:i",)
_UNARY = ("x:T1-4",)
_LSTM = (
    "x:F2 input_to_input:F2? input_to_forget:F2 input_to_cell:F2 input_to_output:F2"
    " recurrent_to_input:F2? recurrent_to_forget:F2 recurrent_to_cell:F2 recurrent_to_output:F2"
    " cell_to_input:F1? cell_to_forget:F1? cell_to_output:F1?"
    " input_gate_bias:F1? forget_gate_bias:F1 cell_bias:F1 output_gate_bias:F1"
    " projection:F2? projection_bias:F1? output_state:F2 cell_state:F2 fuse:i? cell_clip:f proj_clip:f",
)
_SLICE = "x:T1-4 begin:V1 end:V1 strides:V1 begin_mask:i end_mask:i shrink_axis_mask:i"
_RNN = "x:F2 weights:F2 recurrent_weights:F2 bias:F1 state:F2 fuse:i?"
_SVDF = "x:F2 weights_feature:F2 weights_time:F2 bias:F1? state:F2 rank:i fuse:i?"


_TABLE: Mapping[str, Rule] = {
    "ADD": _rule(QUANTISED, _BINARY, "y:T1-4", binary("add")),
    "AVERAGE_POOL_2D": _rule(QUANTISED, _POOL, "y:T4", pool("average_pool2d"), same("x")),
    "BATCH_TO_SPACE_ND": _rule(QUANTISED, ["x:T4 block_shape:V1"], "y:T4", batch_to_space, same("x")),
    "CONCATENATION": _rule(QUANTISED, ["xs:T1-4* axis:i"], "y:T1-4", concatenation, same()),
    "CONV_2D": _rule(QUANTISED, _CONV, "y:T4", conv, product("x", "filter")),
    "DEPTHWISE_CONV_2D": _rule(QUANTISED, _DEPTHWISE, "y:T4", depthwise_conv, product("x", "filter")),
    "DEPTH_TO_SPACE": _rule(QUANTISED, ["x:T4 block_size:i"], "y:T4", blocks("depth_to_space"), same("x")),
    "DEQUANTIZE": _rule((QUANT8,), ["x:Q1-4"], "y:F1-4", plain("dequantize")),
    "DIV": _rule(FLOATS, _BINARY, "y:T1-4", binary("div")),
    "EMBEDDING_LOOKUP": _rule(
        ANY, ["lookups:I1 values:T2-"], "y:T2-", plain("embedding_lookup"), same("values"), IN_RANGE
    ),
    "FLOOR": _rule(FLOATS, _UNARY, "y:T1-4", plain("floor")),
    "FULLY_CONNECTED": _rule(
        QUANTISED,
        ["x:T2-4 weights:T2 bias:B1 fuse:i"],
        "y:T2",
        fully_connected,
        product("x", "weights"),
    ),
    "HASHTABLE_LOOKUP": _rule(
        ANY, ["lookups:I1 keys:I1 values:T2-"], "y:T2- hits:Q1", plain("hashtable_lookup"), hits, SORTED
    ),
    "L2_NORMALIZATION": _rule(FLOATS, ["x:T4"], "y:T4", plain("l2_normalization")),
    "L2_POOL_2D": _rule(FLOATS, _POOL, "y:T4", pool("l2_pool2d")),
    "LOCAL_RESPONSE_NORMALIZATION": _rule(
        FLOATS, ["x:T4 radius:i bias:f alpha:f beta:f"], "y:T4", local_response_normalization
    ),
    "LOGISTIC": _rule(QUANTISED, _UNARY, "y:T1-4", plain("logistic"), unit),
    "LSH_PROJECTION": _rule(ANY, ["hash:F2 x:A1- weight:F1? type:i"], "y:I1", lsh_projection),
    "LSTM": _rule(FLOATS, _LSTM, "scratch:F2 output_state:F2 cell_state:F2 y:F2", lstm),
    "MAX_POOL_2D": _rule(QUANTISED, _POOL, "y:T4", pool("max_pool2d"), same("x")),
    "MEAN": _rule(QUANTISED, ["x:T1-4 axes:V1 keep_dims:i"], "y:T1-4", mean),
    "MUL": _rule(QUANTISED, _BINARY, "y:T1-4", binary("mul"), product("a", "b")),
    "PAD": _rule(QUANTISED, ["x:T1-4 paddings:V2"], "y:T1-4", pad, same("x")),
    "RELU": _rule(QUANTISED, _UNARY, "y:T1-4", plain("relu"), same("x")),
    "RELU1": _rule(QUANTISED, _UNARY, "y:T1-4", plain("relu1"), same("x")),
    "RELU6": _rule(QUANTISED, _UNARY, "y:T1-4", plain("relu6"), same("x")),
    "RESHAPE": _rule(QUANTISED, ["x:T1-4 shape:V1"], "y:T1-4", reshape, same("x")),
    "RESIZE_BILINEAR": _rule(FLOATS, ["x:T4 width:i height:i"], "y:T4", resize_bilinear),
    "RNN": _rule(FLOATS, [_RNN], "state:F2 y:F2", rnn),
    "SOFTMAX": _rule(QUANTISED, ["x:T2,4 beta:f"], "y:T2,4", softmax, unit),
    "SPACE_TO_BATCH_ND": _rule(
        QUANTISED, ["x:T4 block_shape:V1 paddings:V2"], "y:T4", space_to_batch, same("x")
    ),
    "SPACE_TO_DEPTH": _rule(QUANTISED, ["x:T4 block_size:i"], "y:T4", blocks("space_to_depth"), same("x")),
    "SQUEEZE": _rule(QUANTISED, ["x:T1-4 axes:V1?"], "y:T1-4", squeeze, same("x")),
    "STRIDED_SLICE": _rule(QUANTISED, [_SLICE], "y:T1-4", strided_slice, same("x")),
    "SUB": _rule(FLOATS, _BINARY, "y:T1-4", binary("sub")),
    "SVDF": _rule(FLOATS, [_SVDF], "state:F2 y:F2", svdf),
    "TANH": _rule(FLOATS, _UNARY, "y:T1-4", plain("tanh")),
    "TRANSPOSE": _rule(QUANTISED, ["x:T1-4 perm:V1?"], "y:T1-4", transpose, same("x")),
}

OPERATIONS: Mapping[OperationCode, Rule] = {OperationCode[name]: rule for name, rule in _TABLE.items()}
