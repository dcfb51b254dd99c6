"""The table of layer types: which op, or which function, stands for each.

Modules of rules are imported with the first layer that needs one: most files need few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules import arithmetic
from gpunn.importers.coreml.statements import DRAWING

Rule = Callable[[Node], Value | Sequence[Value]]


class _Module:
    """A module of rules; its attributes are rules that import it."""

    def __init__(self, name: str) -> None:
        self._name = f"{__package__}.{name}"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args: getattr(import_module(self._name), name)(*args)

    def entries(self, *kinds: str) -> Mapping[str, Rule]:
        """Return rules that stand in the module's own table."""
        return {kind: self._entry(kind) for kind in kinds}

    def _entry(self, kind: str) -> Rule:
        return lambda node: import_module(self._name).RULES[kind](node)


custom = _Module("custom")
dense = _Module("dense")
indexing = _Module("indexing")
movement = _Module("movement")
normalization = _Module("normalization")
random = _Module("random")
recurrent = _Module("recurrent")
reductions = _Module("reductions")
scatter = _Module("scatter")
shapes = _Module("shapes")
vision = _Module("vision")
volumes = _Module("volumes")
windows = _Module("windows")


def _one(op: str) -> Rule:
    """Return the rule of a layer without parameters that is one op on its one input."""
    return lambda node: node.add(op, node.only())


def _two(op: str) -> Rule:
    """Return the rule of a layer without parameters that is one op on its two inputs."""
    return lambda node: node.add(op, *arithmetic.pair(node))


RULES: Mapping[str, Rule] = {
    # windows
    "convolution": windows.convolution,
    "pooling": windows.pooling,
    "upsample": windows.upsample,
    "padding": windows.padding,
    "crop": windows.crop,
    "resizeBilinear": vision.resize_bilinear,
    "cropResize": vision.crop_resize,
    "NonMaximumSuppression": vision.non_maximum_suppression,
    "convolution3d": volumes.convolution3d,
    "pooling3d": volumes.pooling3d,
    "globalPooling3d": volumes.global_pooling3d,
    # products
    "innerProduct": dense.inner_product,
    "batchedMatmul": dense.batched_matmul,
    "embedding": dense.embedding,
    "embeddingND": dense.embedding_nd,
    # normalisation
    "batchnorm": normalization.batchnorm,
    "mvn": normalization.mvn,
    "l2normalize": normalization.l2_normalize,
    "lrn": normalization.lrn,
    "softmax": normalization.softmax,
    "softmaxND": normalization.softmax_nd,
    "layerNormalization": normalization.layer_normalization,
    # functions of one tensor
    "activation": arithmetic.activation,
    "unary": arithmetic.unary,
    "clip": arithmetic.clip,
    "clampedReLU": arithmetic.clamped_relu,
    "gelu": arithmetic.gelu,
    "ceil": _one("ceil"),
    "floor": _one("floor"),
    "sign": _one("sign"),
    "round": _one("round"),
    "sin": _one("sin"),
    "cos": _one("cos"),
    "tanh": _one("tanh"),
    "exp2": lambda node: node.add("pow", node.scalar(2), node.only()),
    "atan": lambda node: node.add("atan2", node.only(), node.scalar(1)),
    "asin": arithmetic.asin,
    "acos": arithmetic.acos,
    "tan": arithmetic.tan,
    "sinh": _one("sinh"),
    "cosh": _one("cosh"),
    "asinh": _one("asinh"),
    "acosh": _one("acosh"),
    "atanh": _one("atanh"),
    "erf": _one("erf"),
    "copy": lambda node: node.only(),
    "custom": custom.custom,
    # functions of several tensors
    "add": lambda node: arithmetic.fold(node, "add_n", node.params.alpha),
    "multiply": lambda node: arithmetic.fold(node, "mul_n", node.params.alpha),
    "max": lambda node: arithmetic.fold(node, "maximum_n"),
    "min": lambda node: arithmetic.fold(node, "minimum_n"),
    "average": arithmetic.average,
    "scale": arithmetic.scale,
    "bias": arithmetic.bias,
    "dot": arithmetic.dot,
    "addBroadcastable": lambda node: arithmetic.fold(node, "add_n"),
    "multiplyBroadcastable": lambda node: arithmetic.fold(node, "mul_n"),
    "maxBroadcastable": lambda node: arithmetic.fold(node, "maximum_n"),
    "minBroadcastable": lambda node: arithmetic.fold(node, "minimum_n"),
    "subtractBroadcastable": _two("sub"),
    "divideBroadcastable": _two("div"),
    "powBroadcastable": _two("pow"),
    "modBroadcastable": _two("floor_mod"),
    "floorDivBroadcastable": _two("floor_div"),
    # comparison and logic
    "equal": arithmetic.comparison("equal"),
    "notEqual": arithmetic.comparison("not_equal"),
    "lessThan": arithmetic.comparison("less"),
    "lessEqual": arithmetic.comparison("less_equal"),
    "greaterThan": arithmetic.comparison("greater"),
    "greaterEqual": arithmetic.comparison("greater_equal"),
    "logicalAnd": arithmetic.logic("logical_and"),
    "logicalOr": arithmetic.logic("logical_or"),
    "logicalXor": arithmetic.logic("not_equal"),
    "logicalNot": arithmetic.logic("logical_not"),
    "whereBroadcastable": arithmetic.where_broadcastable,
    # recurrent layers
    "simpleRecurrent": recurrent.simple_recurrent,
    "gru": recurrent.gru,
    "uniDirectionalLSTM": recurrent.lstm,
    "biDirectionalLSTM": recurrent.bidirectional_lstm,
    # reductions
    "reduce": reductions.reduce,
    **reductions.entries("reduceL1", "reduceL2", "reduceMax", "reduceMin", "reduceSum", "reduceProd"),
    **reductions.entries("reduceMean", "reduceLogSum", "reduceSumSquare", "reduceLogSumExp"),
    **reductions.entries("argMax", "argMin"),
    # indices
    "gather": indexing.gather,
    "gatherND": indexing.gather_nd,
    "gatherAlongAxis": indexing.gather_along_axis,
    "scatter": scatter.scatter,
    "scatterND": scatter.scatter_nd,
    "scatterAlongAxis": scatter.scatter_along_axis,
    "reverseSeq": scatter.reverse_sequences,
    "cumSum": indexing.cumulative_sum,
    "oneHot": indexing.one_hot,
    "topK": indexing.top_k,
    "argSort": indexing.arg_sort,
    "whereNonZero": indexing.where_nonzero,
    "slidingWindows": indexing.sliding_windows,
    "matrixBandPart": indexing.band_part,
    "lowerTriangular": indexing.lower_triangular,
    "upperTriangular": indexing.upper_triangular,
    **random.entries(*DRAWING),
    # shapes and movement
    "loadConstant": shapes.load_constant,
    "loadConstantND": shapes.load_constant,
    "reshape": shapes.reshape,
    "flatten": shapes.flatten,
    "permute": movement.permute,
    "concat": movement.concat,
    "concatND": movement.concat_nd,
    "split": movement.split,
    "splitND": movement.split_nd,
    "slice": movement.slice_,
    "sliceStatic": movement.slice_static,
    "sliceDynamic": movement.slice_dynamic,
    "sliceBySize": movement.slice_by_size,
    "rangeStatic": shapes.range_static,
    "rangeDynamic": shapes.range_dynamic,
    "sequenceRepeat": movement.sequence_repeat,
    "reorganizeData": movement.reorganize,
    "transpose": movement.transpose,
    "squeeze": shapes.squeeze,
    "expandDims": shapes.expand_dims,
    "flattenTo2D": shapes.flatten_to_2d,
    "reshapeStatic": shapes.reshape_static,
    "reshapeLike": lambda node: node.add("reshape", node.operand(0), shape=node.operand(1).type.shape),
    "rankPreservingReshape": shapes.rank_preserving_reshape,
    "stack": movement.stack,
    "tile": movement.tile,
    "reverse": movement.reverse,
    "constantPad": movement.constant_pad,
    "reshapeDynamic": shapes.reshape_dynamic,
    "getShape": shapes.get_shape,
    "broadcastToDynamic": shapes.broadcast_to_dynamic,
    "fillDynamic": shapes.fill_dynamic,
    "broadcastToStatic": shapes.broadcast_to_static,
    "broadcastToLike": shapes.broadcast_to_like,
    "fillStatic": shapes.fill_static,
    "fillLike": lambda node: shapes.filled(node, node.only().type.shape),
}
