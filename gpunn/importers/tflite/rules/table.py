"""The TFLite operator table: the op and the attributes for each builtin operator.

Operators and their option tables are those of the TensorFlow Lite schema of November 2018 (enum
BuiltinOperator, union BuiltinOptions), with the fields that later schemas (2.18) added to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import PREVIOUS, Answer, Result, Step, Steps
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules import (
    borders,
    convolution,
    dense,
    recurrent,
    signal,
    slices,
    stablehlo,
    stablehlo_index,
    tensor,
    value,
    window,
)
from gpunn.types import DType, TensorType

WIDENED = ((DType.INT8, DType.INT16), (DType.UINT8, DType.INT16))  # by softmax

Rule = Callable[[Node], Answer]


def plain(op: str) -> Rule:
    """Make a rule for operators without options: the same inputs in the same order."""
    return lambda node: Step(op, node.inputs)


def activated(op: str, options: str) -> Rule:
    """Make a rule for operators whose only option is the fused activation."""
    return lambda node: Step(op, node.inputs, node.options(options).activation())


def concatenation(node: Node) -> Step:
    """Translate CONCATENATION of any number of inputs."""
    options = node.options("ConcatenationOptions")
    return Step("concat", node.inputs, {"axis": options.get("Axis"), **options.activation()})


def leaky_relu(node: Node) -> Step:
    """Translate LEAKY_RELU: alpha below zero."""
    return Step("leaky_relu", node.inputs, {"alpha": node.options("LeakyReluOptions").get("Alpha")})


def softmax(node: Node) -> Step | Sequence[Step]:
    """Translate SOFTMAX over the last axis; from 8 bits to 16 it goes through the real numbers."""
    attrs = {"axis": -1, "beta": node.options("SoftmaxOptions").get("Beta")}
    x, result = node.operand(0).type, node.outputs[0] if node.outputs else None
    if x.quantization is None or result is None or (x.dtype, result.dtype) not in WIDENED:
        return Step("softmax", node.inputs, attrs)
    return [
        Step("dequantize", node.inputs),
        Step("softmax", (PREVIOUS,), attrs),
        _quantized(result, PREVIOUS),
    ]


def quantize(node: Node) -> Step:
    """Translate QUANTIZE to the type that the file states for the output."""
    return _quantized(node.outputs[0] if node.outputs else None, node.operand(0))


def _quantized(type: TensorType | None, x: Operand | Result) -> Step:
    if type is None or type.quantization is None or not type.quantization.per_tensor:
        raise RefusedError("the output has no scale and zero point, or several")
    (scale,), (zero_point,) = type.quantization.scale, type.quantization.zero_point
    return Step("quantize", (x,), {"dtype": type.dtype.value, "scale": scale, "zero_point": zero_point})


def reshape(node: Node) -> Step:
    """Translate RESHAPE: the shape is the second input if it is a vector, else the option new_shape.

    One extent may be -1. Old converters wrote a scalar's shape as the option [0]. Files of a fixed batch
    state it here, too: a first extent that only repeats the batch follows the input, also beside -1 where
    the result that the file states has as many elements for each sample.
    """
    x = node.operand(0)
    if len(node.inputs) > 1 and node.operand(1).type.rank == 1:
        shape = node.ints(1, "extents")
    else:
        shape = node.options("ReshapeOptions").ints("NewShape")
        shape = () if shape == (0,) else shape
    result = node.outputs[0] if node.outputs else None
    stated = result.shape if result is not None and -1 in shape[1:] else shape
    if stated and -1 not in stated and x.type.rank and math.prod(stated[1:]) == math.prod(x.type.shape[1:]):
        shape = (x.type.shape[0], *stated[1:])
    return Step("reshape", (x,), {"shape": shape})


def squeeze(node: Node) -> Step:
    """Translate SQUEEZE of the given axes, or of all that are 1 if none is given."""
    return Step("squeeze", node.inputs, {"axes": node.options("SqueezeOptions").ints("SqueezeDims")})


def transpose(node: Node) -> Step:
    """Translate TRANSPOSE by a constant permutation, whose axes may be negative."""
    x = node.operand(0)
    perm = node.ints(1, "axes", x.type.rank)
    return Step("transpose", (x,), {"perm": tuple(a + x.type.rank if a < 0 else a for a in perm)})


OPERATORS: Mapping[str, Rule] = {
    "ABS": plain("abs"),
    "ADD": activated("add", "AddOptions"),
    "ADD_N": value.sum_of_all,
    "ARG_MAX": tensor.arg_extreme("arg_max", "ArgMaxOptions"),
    "ARG_MIN": tensor.arg_extreme("arg_min", "ArgMinOptions"),
    "ATAN2": plain("atan2"),
    "AVERAGE_POOL_2D": convolution.pool("average_pool2d"),
    "BATCH_MATMUL": tensor.batch_matmul,
    "BATCH_TO_SPACE_ND": borders.batch_to_space,
    "BIDIRECTIONAL_SEQUENCE_LSTM": recurrent.bidirectional_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": recurrent.bidirectional_rnn,
    "BITCAST": value.to_output_type("bitcast"),
    "BITWISE_XOR": plain("bitwise_xor"),
    "BROADCAST_ARGS": value.broadcast_args,
    "BROADCAST_TO": tensor.broadcast,
    "BUCKETIZE": value.bucketize,
    "CAST": value.to_output_type("cast"),
    "CEIL": plain("ceil"),
    "COMPLEX_ABS": plain("complex_abs"),
    "CONCATENATION": concatenation,
    "CONCAT_EMBEDDINGS": value.concat_embeddings,
    "CONV_2D": convolution.conv,
    "CONV_3D": convolution.conv3d,
    "CONV_3D_TRANSPOSE": convolution.conv3d_transpose,
    "COS": plain("cos"),
    "CUMSUM": tensor.cumsum,
    "DENSIFY": lambda node: Steps((), (node.operand(0),)),  # a constant, unfolded when it was read
    "DEPTHWISE_CONV_2D": convolution.depthwise_conv,
    "DEPTH_TO_SPACE": value.blocks("depth_to_space", "DepthToSpaceOptions"),
    "DEQUANTIZE": plain("dequantize"),
    "DILATE": window.dilate,
    "DIV": activated("div", "DivOptions"),
    "DYNAMIC_UPDATE_SLICE": plain("dynamic_update_slice"),
    "ELU": plain("elu"),
    "EMBEDDING_LOOKUP": value.embedding_lookup,
    "EMBEDDING_LOOKUP_SPARSE": value.embedding_lookup_sparse,
    "EQUAL": plain("equal"),
    "EXP": plain("exp"),
    "EXPAND_DIMS": tensor.expand_dims,
    "FAKE_QUANT": value.fake_quant,
    "FILL": value.fill,
    "FLOOR": plain("floor"),
    "FLOOR_DIV": plain("floor_div"),
    "FLOOR_MOD": plain("floor_mod"),
    "FULLY_CONNECTED": dense.fully_connected,
    "GATHER": tensor.gather,
    "GATHER_ND": plain("gather_nd"),
    "GELU": value.gelu,
    "GREATER": plain("greater"),
    "GREATER_EQUAL": plain("greater_equal"),
    "HARD_SWISH": plain("hard_swish"),
    "HASHTABLE_LOOKUP": tensor.hashtable_lookup,
    "IMAG": plain("imag"),
    "L2_NORMALIZATION": value.l2_normalization,
    "L2_POOL_2D": convolution.pool("l2_pool2d"),
    "LEAKY_RELU": leaky_relu,
    "LESS": plain("less"),
    "LESS_EQUAL": plain("less_equal"),
    "LOCAL_RESPONSE_NORMALIZATION": value.local_response_normalization,
    "LOG": plain("log"),
    "LOGICAL_AND": plain("logical_and"),
    "LOGICAL_NOT": plain("logical_not"),
    "LOGICAL_OR": plain("logical_or"),
    "LOGISTIC": plain("logistic"),
    "LOG_SOFTMAX": plain("log_softmax"),
    "LSH_PROJECTION": value.lsh_projection,
    "LSTM": recurrent.lstm,
    "MATRIX_DIAG": plain("matrix_diag"),
    "MATRIX_SET_DIAG": plain("matrix_set_diag"),
    "MAXIMUM": plain("maximum"),
    "MAX_POOL_2D": convolution.pool("max_pool2d"),
    "MEAN": tensor.reduction("mean"),
    "MINIMUM": plain("minimum"),
    "MIRROR_PAD": borders.mirror_pad,
    "MUL": activated("mul", "MulOptions"),
    "MULTINOMIAL": value.random("multinomial"),
    "NEG": plain("neg"),
    "NON_MAX_SUPPRESSION_V4": value.suppression((0, 2)),
    "NON_MAX_SUPPRESSION_V5": value.suppression((0, 1, 2)),
    "NOT_EQUAL": plain("not_equal"),
    "ONE_HOT": value.one_hot,
    "PACK": tensor.pack,
    "PAD": borders.pad,
    "PADV2": borders.pad,
    "POW": plain("pow"),
    "PRELU": plain("prelu"),
    "QUANTIZE": quantize,
    "RANDOM_STANDARD_NORMAL": value.random("random_normal"),
    "RANDOM_UNIFORM": value.random("random_uniform"),
    "RANGE": value.sequence,
    "RANK": tensor.rank,
    "REAL": plain("real"),
    "REDUCE_ALL": tensor.reduction("reduce_all"),
    "REDUCE_ANY": tensor.reduction("reduce_any"),
    "REDUCE_MAX": tensor.reduction("reduce_max"),
    "REDUCE_MIN": tensor.reduction("reduce_min"),
    "REDUCE_PROD": tensor.reduction("reduce_prod"),
    "REDUCE_WINDOW": window.reduce_window,
    "RELU": plain("relu"),
    "RELU6": plain("relu6"),
    "RELU_0_TO_1": plain("relu01"),
    "RELU_N1_TO_1": plain("relu1"),
    "RESHAPE": reshape,
    "RESIZE_BILINEAR": tensor.resize("resize_bilinear", "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": tensor.resize("resize_nearest", "ResizeNearestNeighborOptions"),
    "REVERSE_SEQUENCE": tensor.reverse_sequence,
    "REVERSE_V2": slices.reverse,
    "RFFT2D": signal.rfft2d,
    "RIGHT_SHIFT": plain("right_shift"),
    "RNN": recurrent.rnn,
    "ROUND": plain("round"),
    "RSQRT": plain("rsqrt"),
    "SCATTER_ND": tensor.scatter_nd,
    "SEGMENT_SUM": tensor.segment_sum,
    "SELECT": value.choose,
    "SELECT_V2": plain("select"),
    "SHAPE": tensor.shape,
    "SIGN": plain("sign"),
    "SIN": plain("sin"),
    "SKIP_GRAM": value.skip_grams,
    "SLICE": slices.cut,
    "SOFTMAX": softmax,
    "SPACE_TO_BATCH_ND": borders.space_to_batch,
    "SPACE_TO_DEPTH": value.blocks("space_to_depth", "SpaceToDepthOptions"),
    "SPARSE_TO_DENSE": tensor.sparse_to_dense,
    "SPLIT": tensor.split,
    "SPLIT_V": tensor.split_v,
    "SQRT": plain("sqrt"),
    "SQUARE": plain("square"),
    "SQUARED_DIFFERENCE": plain("squared_difference"),
    "SQUEEZE": squeeze,
    "STABLEHLO_ABS": plain("abs"),
    "STABLEHLO_ADD": stablehlo.by_type("logical_or", "add"),
    "STABLEHLO_AND": stablehlo.by_type("logical_and", "bitwise_and"),
    "STABLEHLO_BROADCAST_IN_DIM": stablehlo.broadcast_in_dim,
    "STABLEHLO_CLAMP": stablehlo.clamp,
    "STABLEHLO_COMPARE": stablehlo.compare,
    "STABLEHLO_CONCATENATE": stablehlo.concatenate,
    "STABLEHLO_CONVERT": value.to_output_type("cast"),
    "STABLEHLO_COSINE": plain("cos"),
    "STABLEHLO_DIVIDE": plain("div"),
    "STABLEHLO_DOT_GENERAL": stablehlo.dot_general,
    "STABLEHLO_DYNAMIC_SLICE": slices.dynamic_slice,
    "STABLEHLO_DYNAMIC_UPDATE_SLICE": slices.dynamic_update_slice,
    "STABLEHLO_EXPONENTIAL": plain("exp"),
    "STABLEHLO_FLOOR": plain("floor"),
    "STABLEHLO_GATHER": stablehlo_index.gather,
    "STABLEHLO_IOTA": stablehlo.iota,
    "STABLEHLO_LOG": plain("log"),
    "STABLEHLO_LOGISTIC": plain("logistic"),
    "STABLEHLO_MAXIMUM": stablehlo.by_type("logical_or", "maximum"),
    "STABLEHLO_MINIMUM": stablehlo.by_type("logical_and", "minimum"),
    "STABLEHLO_MULTIPLY": stablehlo.by_type("logical_and", "mul"),
    "STABLEHLO_NEGATE": plain("neg"),
    "STABLEHLO_OR": stablehlo.by_type("logical_or", "bitwise_or"),
    "STABLEHLO_PAD": stablehlo.pad,
    "STABLEHLO_POWER": plain("pow"),
    "STABLEHLO_REDUCE": stablehlo.reduce,
    "STABLEHLO_REDUCE_WINDOW": stablehlo.reduce_window,
    "STABLEHLO_RESHAPE": stablehlo.reshape,
    "STABLEHLO_RSQRT": plain("rsqrt"),
    "STABLEHLO_SCATTER": stablehlo_index.scatter,
    "STABLEHLO_SELECT": plain("select"),
    "STABLEHLO_SHIFT_LEFT": plain("left_shift"),
    "STABLEHLO_SLICE": slices.take,
    "STABLEHLO_SUBTRACT": plain("sub"),
    "STABLEHLO_TANH": plain("tanh"),
    "STABLEHLO_TRANSPOSE": stablehlo.transpose,
    "STRIDED_SLICE": slices.strided_slice,
    "SUB": activated("sub", "SubOptions"),
    "SUM": tensor.reduction("reduce_sum"),
    "SVDF": recurrent.svdf,
    "TANH": plain("tanh"),
    "TILE": tensor.tile,
    "TOPK_V2": tensor.top_k,
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV": convolution.transpose_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": recurrent.sequence_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": recurrent.sequence_rnn,
    "UNIQUE": value.unique,
    "UNPACK": tensor.unpack,
    "UNSORTED_SEGMENT_MAX": tensor.unsorted_segments("segment_max"),
    "UNSORTED_SEGMENT_MIN": tensor.unsorted_segments("segment_min"),
    "UNSORTED_SEGMENT_PROD": tensor.unsorted_segments("segment_prod"),
    "UNSORTED_SEGMENT_SUM": tensor.unsorted_segments("segment_sum"),
    "WHERE": value.where,
    "ZEROS_LIKE": plain("zeros_like"),
}

REFUSED: Mapping[str, str] = {
    "DELEGATE": "it stands for a delegate's own code, which no file holds",
    "STABLEHLO_CUSTOM_CALL": "it stands for code of another program, which no file holds",
    "STABLEHLO_RNG_BIT_GENERATOR": "its state is UINT64, which is not supported",
}
