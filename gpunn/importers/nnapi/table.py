"""The NNAPI operation table: signatures, constraints, and the rule for each operation.

Sources: types.hal 1.0, OperationType, and NeuralNetworks.h, OperationCode; for BATCH_TO_SPACE_ND, MEAN,
SPACE_TO_BATCH_ND, SQUEEZE and TRANSPOSE types.hal 1.1. If the two differ, types.hal is right, as in Android:
RESIZE_BILINEAR takes the width first, the scratch buffer of LSTM is a matrix. Only the padding code 0 (NONE)
of types.hal is refused, because NeuralNetworks.h does not have it. What feature levels 29 and 30 add is from
NeuralNetworks.h of level 30; it stands as data in the lines of the table. A broken constraint is BAD_DATA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gpunn.importers.common.answers import Step
from gpunn.importers.nnapi import recurrent, rules
from gpunn.importers.nnapi.checks import (
    IN_RANGE,
    SORTED,
    DataCheck,
    Scales,
    before,
    centred,
    channels_along,
    every,
    free,
    hits,
    layer,
    over_product,
    same,
    unit,
)
from gpunn.importers.nnapi.codes import OperationCode
from gpunn.importers.nnapi.layout import channels_first
from gpunn.importers.nnapi.node import Node
from gpunn.importers.nnapi.rules import ToStep, binary, blocks, plain, pool
from gpunn.importers.nnapi.signature import (
    FLOAT,
    HALF,
    INT,
    PER_CHANNEL,
    QUANT8,
    SIGNED,
    SYMMETRIC,
    Signature,
    Types,
    signature,
)

FLOATS: Types = ((27, FLOAT), (29, HALF))
QUANTISED: Types = ((27, FLOAT), (27, QUANT8), (29, HALF), (30, SIGNED))
LATER_QUANTISED: Types = ((27, FLOAT), (29, HALF), (29, QUANT8), (30, SIGNED))
TABLES: Types = ((27, FLOAT), (27, INT), (27, QUANT8))
ADDED: Types = (*QUANTISED, (30, INT))
SUBTRACTED: Types = (*LATER_QUANTISED, (30, INT))
DIVIDED: Types = (*FLOATS, (30, INT))
STORED: Types = ((27, QUANT8), (29, SYMMETRIC), (29, PER_CHANNEL), (30, SIGNED))


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One operation: its types, forms and outputs (lines of signature.py) of all feature levels, its ops, the
    rule for its scales, and its values at execution.
    """

    types: Types
    forms: tuple[str, ...]
    outputs: str
    steps: ToStep
    scales: Scales
    checks: tuple[DataCheck, ...] = ()

    @cache  # noqa: B019 (rules live as long as the table)
    def signature(self, level: int) -> Signature:
        """Return the signature at a feature level."""
        return signature(self.types, self.forms, self.outputs, level)

    def answer(self, node: Node) -> Step | Sequence[Step]:
        """Return the ops of an operation; with the flag `layout` they stand between transposes."""
        return channels_first(node, self.steps) if node.flag("layout") else self.steps(node)


def _rule(
    types: Types,
    forms: Sequence[str],
    outputs: str,
    steps: ToStep,
    scales: Scales = free,
    *checks: DataCheck,
) -> Rule:
    return Rule(types, tuple(forms), outputs, steps, scales, checks)


_SIDES = "left:i right:i top:i bottom:i stride_width:i stride_height:i"
_SCHEME = "padding:i stride_width:i stride_height:i"
_WINDOW = "filter_width:i filter_height:i fuse:i"
_LAYOUT = "[29 layout:b]"
_POOL = (f"x:T4 {_SIDES} {_WINDOW} {_LAYOUT}", f"x:T4 {_SCHEME} {_WINDOW} {_LAYOUT}")
_DILATION = f"{_LAYOUT} [29 dilation_width:i dilation_height:i]"
_CONV = tuple(f"x:T4 filter:W4 bias:B1 {window} fuse:i {_DILATION}" for window in (_SIDES, _SCHEME))
_DEPTHWISE = tuple(form.replace("fuse", "multiplier:i fuse") for form in _CONV)
_BINARY = ("a:T1-4 b:T1-4 fuse:i",)
_UNARY = ("x:T1-4",)
_CENTRES = f"{_LAYOUT} [30 align_corners:b] [30 half_pixel_centers:b]"
_RESIZE = (f"x:T4 width:i height:i {_CENTRES}", f"29 x:T4 width_scale:f height_scale:f {_CENTRES}")
_LSTM = (
    "x:T2 input_to_input:T2? input_to_forget:T2 input_to_cell:T2 input_to_output:T2"
    " recurrent_to_input:T2? recurrent_to_forget:T2 recurrent_to_cell:T2 recurrent_to_output:T2"
    " cell_to_input:T1? cell_to_forget:T1? cell_to_output:T1?"
    " input_gate_bias:T1? forget_gate_bias:T1 cell_bias:T1 output_gate_bias:T1"
    " projection:T2? projection_bias:T1? output_state:T2 cell_state:T2 fuse:i? cell_clip:f proj_clip:f"
    " [29 input_layer_norm:T1? forget_layer_norm:T1? cell_layer_norm:T1? output_layer_norm:T1?]",
)
_SLICE = "x:T1-4 begin:V1 end:V1 strides:V1 begin_mask:i end_mask:i shrink_axis_mask:i"
_RNN = "x:T2 weights:T2 recurrent_weights:T2 bias:T1 state:T2 fuse:i?"
_SVDF = "x:T2 weights_feature:T2 weights_time:T2 bias:T1? state:T2 rank:i fuse:i?"
_ROWS = "y:T4/29:1-4"


_TABLE: Mapping[str, Rule] = {
    "ADD": _rule(ADDED, _BINARY, "y:T1-4", binary("add")),
    "AVERAGE_POOL_2D": _rule(QUANTISED, _POOL, "y:T4", pool("average_pool2d"), same("x")),
    "BATCH_TO_SPACE_ND": _rule(
        QUANTISED, [f"x:T4 block_shape:V1 {_LAYOUT}"], "y:T4", rules.batch_to_space, same("x")
    ),
    "CONCATENATION": _rule(QUANTISED, ["xs:T1-4* axis:i"], "y:T1-4", rules.concatenation, before(29, same())),
    "CONV_2D": _rule(QUANTISED, _CONV, "y:T4", rules.conv, every(layer("x", "filter"), channels_along(0))),
    "DEPTHWISE_CONV_2D": _rule(
        QUANTISED, _DEPTHWISE, "y:T4", rules.depthwise_conv, every(layer("x", "filter"), channels_along(3))
    ),
    "DEPTH_TO_SPACE": _rule(
        QUANTISED, [f"x:T4 block_size:i {_LAYOUT}"], "y:T4", blocks("depth_to_space"), same("x")
    ),
    "DEQUANTIZE": _rule(STORED, _UNARY, "y:R1-4", rules.dequantize),
    "DIV": _rule(DIVIDED, _BINARY, "y:T1-4", rules.div),
    "EMBEDDING_LOOKUP": _rule(
        (*TABLES, (30, HALF), (30, SIGNED)),
        ["lookups:I1 values:T2-"],
        "y:T2-",
        plain("embedding_lookup"),
        same("values"),
        IN_RANGE,
    ),
    "FLOOR": _rule(FLOATS, _UNARY, "y:T1-4", plain("floor")),
    "FULLY_CONNECTED": _rule(
        QUANTISED, ["x:T2-4 weights:T2 bias:B1 fuse:i"], "y:T2", rules.fully_connected, layer("x", "weights")
    ),
    "HASHTABLE_LOOKUP": _rule(
        TABLES, ["lookups:I1 keys:I1 values:T2-"], "y:T2- hits:Q1", plain("hashtable_lookup"), hits, SORTED
    ),
    "L2_NORMALIZATION": _rule(
        LATER_QUANTISED, ["x:T4/29:1-4 [29 axis:i]"], _ROWS, rules.l2_normalization, centred
    ),
    "L2_POOL_2D": _rule(FLOATS, _POOL, "y:T4", pool("l2_pool2d")),
    "LOCAL_RESPONSE_NORMALIZATION": _rule(
        FLOATS,
        ["x:T4/29:1-4 radius:i bias:f alpha:f beta:f [29 axis:i]"],
        _ROWS,
        rules.local_response_normalization,
    ),
    "LOGISTIC": _rule(QUANTISED, _UNARY, "y:T1-4", plain("logistic"), unit),
    "LSH_PROJECTION": _rule(
        (*TABLES, (29, HALF)), ["hash:R2 x:A1- weight:R1? type:i"], "y:I1", rules.lsh_projection
    ),
    "LSTM": _rule(FLOATS, _LSTM, "scratch:T2 output_state:T2 cell_state:T2 y:T2", recurrent.lstm),
    "MAX_POOL_2D": _rule(QUANTISED, _POOL, "y:T4", pool("max_pool2d"), same("x")),
    "MEAN": _rule(QUANTISED, ["x:T1-4 axes:V1 keep_dims:i"], "y:T1-4", rules.mean),
    "MUL": _rule(ADDED, _BINARY, "y:T1-4", binary("mul"), over_product("a", "b")),
    "PAD": _rule(QUANTISED, ["x:T1-4 paddings:V2"], "y:T1-4", rules.pad, same("x")),
    "RELU": _rule(QUANTISED, _UNARY, "y:T1-4", plain("relu"), same("x")),
    "RELU1": _rule(QUANTISED, _UNARY, "y:T1-4", plain("relu1"), same("x")),
    "RELU6": _rule(QUANTISED, _UNARY, "y:T1-4", plain("relu6"), same("x")),
    "RESHAPE": _rule(QUANTISED, ["x:T1-4 shape:V1"], "y:T1-4", rules.reshape, same("x")),
    "RESIZE_BILINEAR": _rule(LATER_QUANTISED, _RESIZE, "y:T4", rules.resize_bilinear, same("x")),
    "RNN": _rule(FLOATS, [_RNN], "state:T2 y:T2", recurrent.rnn),
    "SOFTMAX": _rule(QUANTISED, ["x:T2,4/29:1-4 beta:f [29 axis:i]"], "y:T2,4/29:1-4", rules.softmax, unit),
    "SPACE_TO_BATCH_ND": _rule(
        QUANTISED, [f"x:T4 block_shape:V1 paddings:V2 {_LAYOUT}"], "y:T4", rules.space_to_batch, same("x")
    ),
    "SPACE_TO_DEPTH": _rule(
        QUANTISED, [f"x:T4 block_size:i {_LAYOUT}"], "y:T4", blocks("space_to_depth"), same("x")
    ),
    "SQUEEZE": _rule(QUANTISED, ["x:T1-4 axes:V1?"], "y:T1-4", rules.squeeze, same("x")),
    "STRIDED_SLICE": _rule(QUANTISED, [_SLICE], "y:T1-4", rules.strided_slice, same("x")),
    "SUB": _rule(SUBTRACTED, _BINARY, "y:T1-4", binary("sub")),
    "SVDF": _rule(FLOATS, [_SVDF], "state:T2 y:T2", recurrent.svdf),
    "TANH": _rule(LATER_QUANTISED, _UNARY, "y:T1-4", plain("tanh"), centred),
    "TRANSPOSE": _rule(QUANTISED, ["x:T1-4 perm:V1?"], "y:T1-4", rules.transpose, same("x")),
}

OPERATIONS: Mapping[OperationCode, Rule] = {OperationCode[name]: rule for name, rule in _TABLE.items()}
