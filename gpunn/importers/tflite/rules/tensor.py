"""Rules of TFLite operators that reduce, order, cut and move tensors (a part of the table in table.py)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tflite as schema

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Known, Step, StepList, Steps
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node
from gpunn.types import DType

INDEX_TYPES = {schema.TensorType.INT32: "int32", schema.TensorType.INT64: "int64"}


def reduction(op: str) -> Callable[[Node], Step]:
    """Make a rule for the reductions, which share ReducerOptions: axes may be negative and may repeat."""

    def rule(node: Node) -> Step:
        keep_dims = node.options("ReducerOptions").get("KeepDims")
        return Step(op, (node.operand(0),), {"axes": node.ints(1, "axes"), "keep_dims": keep_dims})

    return rule


def arg_extreme(op: str, options: str) -> Callable[[Node], Step]:
    """Make a rule for ARG_MAX and ARG_MIN along a constant axis."""

    def rule(node: Node) -> Step:
        dtype = node.options(options).get("OutputType")
        if dtype not in INDEX_TYPES:
            node.corrupt(f"the output type should be INT32 or INT64, got number {dtype}")
        return Step(op, (node.operand(0),), {"axis": _axis(node, 1), "dtype": INDEX_TYPES[dtype]})

    return rule


def batch_matmul(node: Node) -> Step:
    """Translate BATCH_MATMUL of any ranks, which broadcast."""
    options = node.options("BatchMatMulOptions")
    attrs = {"adj_a": options.get("AdjX"), "adj_b": options.get("AdjY")}
    return Step("batch_matmul", (node.operand(0), node.operand(1)), attrs)


def cumsum(node: Node) -> Step:
    """Translate CUMSUM; a computed axis stays an operand."""
    options = node.options("CumsumOptions")
    attrs = {"exclusive": options.get("Exclusive"), "reverse": options.get("Reverse")}
    if node.operand(1).value is None:
        node.expect_ints(1, "axes", 1)
        return Step("cumsum", (node.operand(0), node.operand(1)), attrs)
    return Step("cumsum", (node.operand(0),), {"axis": _axis(node, 1), **attrs})


def gather(node: Node) -> Step:
    """Translate GATHER along an axis; batch_dims since version 5."""
    options = node.options("GatherOptions")
    attrs = {"axis": options.get("Axis"), "batch_dims": options.get("BatchDims")}
    return Step("gather", (node.operand(0), node.operand(1)), attrs)


def sparse_to_dense(node: Node) -> Step:
    """Translate SPARSE_TO_DENSE into a constant shape; the option validate_indices is always on."""
    inputs = (node.operand(0), node.operand(2), node.operand(3))
    return Step("sparse_to_dense", inputs, {"shape": node.ints(1, "extents")})


def broadcast(node: Node) -> Step:
    """Translate BROADCAST_TO a constant shape."""
    return Step("broadcast_to", (node.operand(0),), {"shape": node.ints(1, "extents")})


def reverse_sequence(node: Node) -> Step:
    """Translate REVERSE_SEQUENCE of lengths that may be computed."""
    options = node.options("ReverseSequenceOptions")
    attrs = {"axis": options.get("SeqDim"), "batch_axis": options.get("BatchDim")}
    return Step("reverse_sequence", (node.operand(0), node.operand(1)), attrs)


def scatter_nd(node: Node) -> Step:
    """Translate SCATTER_ND into zeros of a constant shape."""
    return Step("scatter_nd", (node.operand(0), node.operand(1)), {"shape": node.ints(2, "extents")})


def segment_sum(node: Node) -> Step:
    """Translate SEGMENT_SUM by constant ids in ascending order; the last id gives the number of segments."""
    ids = node.constant(1, "segments' ids", "int32")
    if ids.ndim != 1 or (np.diff(ids) < 0).any():
        node.corrupt("the segments' ids should be a list in ascending order")
    segments = int(ids[-1]) + 1 if ids.size else 0
    return Step("segment_sum", (node.operand(0), node.operand(1)), {"segments": max(segments, 0)})


def unsorted_segments(op: str) -> Callable[[Node], Step]:
    """Make a rule for the operators of a constant number of segments; negative ids belong to none."""

    def rule(node: Node) -> Step:
        (segments,) = node.ints(2, "numbers of segments", 1)
        return Step(op, (node.operand(0), node.operand(1)), {"segments": segments, "drops": True})

    return rule


def _axis(node: Node, index: int) -> int:
    """Return the only element of constant input `index`."""
    return node.ints(index, "axes", 1)[0]


def expand_dims(node: Node) -> Step:
    """Translate EXPAND_DIMS: a reshape; a negative axis counts in the result."""
    x, axis = node.operand(0), _axis(node, 1)
    rank = x.type.rank + 1
    if not -rank <= axis < rank:
        node.corrupt(f"axis {axis} is out of range for a result of rank {rank}")
    shape = list(x.type.shape)
    shape.insert(axis % rank, 1)
    return Step("reshape", (x,), {"shape": tuple(shape)})


def fill(node: Node, index: int) -> Operand:
    """Return input `index`, one element of the first input's type."""
    x, found = node.operand(0), node.operand(index)
    node.expect_dtype(index, "padding values", x.type.dtype.value)
    if found.type.size != 1:
        node.corrupt(f"expected one padding value, got {found.type.size}")
    if found.type.quantization != x.type.quantization:
        raise RefusedError("the padding value is quantised differently than the input")
    return found


def pack(node: Node) -> Step:
    """Translate PACK of any number of inputs."""
    options = node.options("PackOptions")
    if options.get("ValuesCount") != len(node.inputs):
        node.corrupt(f"packs {options.get('ValuesCount')} values, got {len(node.inputs)} inputs")
    return Step("stack", node.inputs, {"axis": options.get("Axis")})


def unpack(node: Node) -> Step:
    """Translate UNPACK along an axis, whose extent is the number of results."""
    x, options = node.operand(0), node.options("UnpackOptions")
    axis, count = options.get("Axis"), options.get("Num")
    extent = x.type.shape[axis] if -x.type.rank <= axis < x.type.rank else count
    if not count == extent == len(node.outputs):
        node.corrupt(f"unpacks {extent} slices as {count} values into {len(node.outputs)} outputs")
    return Step("unstack", (x,), {"axis": axis})


def rank(node: Node) -> Known:
    """Translate RANK: known from the type of the input."""
    return Known(np.array(node.operand(0).type.rank, np.int32))


def shape(node: Node) -> Known:
    """Translate SHAPE: known from the type of the input."""
    dtype = node.options("ShapeOptions").get("OutType")
    if dtype not in INDEX_TYPES:
        node.corrupt(f"the output type should be INT32 or INT64, got number {dtype}")
    return Known(np.array(node.operand(0).type.shape, INDEX_TYPES[dtype]))


def resize(op: str, options: str) -> Callable[[Node], Step]:
    """Make a rule for RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR to a constant height and width."""

    def rule(node: Node) -> Step:
        found = node.options(options)
        attrs = {
            "size": node.ints(1, "extents", 2),
            "align_corners": found.get("AlignCorners"),
            "half_pixel_centers": found.get("HalfPixelCenters"),
        }
        return Step(op, (node.operand(0),), attrs)

    return rule


def split(node: Node) -> Step:
    """Translate SPLIT along a constant axis (the first input) into equal parts."""
    x, axis = node.operand(1), _axis(node, 0)
    count = node.options("SplitOptions").get("NumSplits")
    extent = _extent(node, x.type.shape, axis)
    if count != len(node.outputs) or count < 1 or extent % count:
        node.corrupt(f"splits {extent} slices into {count} equal parts and {len(node.outputs)} outputs")
    return Step("split", (x,), {"axis": axis, "sizes": (extent // count,) * count})


def split_v(node: Node) -> Step:
    """Translate SPLIT_V into parts of constant sizes, one of which may be -1, along a constant axis."""
    x, sizes, axis = node.operand(0), node.ints(1, "sizes"), _axis(node, 2)
    count = node.options("SplitVOptions").get("NumSplits")
    if not count == len(sizes) == len(node.outputs):
        node.corrupt(f"splits into {count} parts, {len(sizes)} sizes and {len(node.outputs)} outputs")
    extent = _extent(node, x.type.shape, axis)
    if sizes.count(-1) == 1:
        rest = extent - sum(sizes) - 1
        sizes = tuple(rest if n == -1 else n for n in sizes)
    return Step("split", (x,), {"axis": axis, "sizes": sizes})


def _extent(node: Node, shape: tuple[int, ...], axis: int) -> int:
    """Return the extent of a shape along an axis that may be negative."""
    if not -len(shape) <= axis < len(shape):
        node.corrupt(f"axis {axis} is out of range for rank {len(shape)}")
    return shape[axis]


def tile(node: Node) -> Step:
    """Translate TILE by constant multiples."""
    x = node.operand(0)
    return Step("tile", (x,), {"multiples": node.ints(1, "multiples", x.type.rank)})


def top_k(node: Node) -> Steps:
    """Translate TOPK_V2 of a constant number of values; their places are int32, or int16 if the file says."""
    count = node.constant(1, "number of values", "int32", "int64", "int16")
    if count.size != 1:
        node.corrupt(f"expected 1 number of values, got {count.size}")
    steps = StepList()
    values = steps.add("top_k", (node.operand(0),), {"k": int(count.reshape(-1)[0])})
    places = values.beside(1)
    if len(node.outputs) > 1 and node.outputs[1] is not None and node.outputs[1].dtype is DType.INT16:
        places = steps.add("cast", (places,), {"dtype": "int16"})
    return steps.answer(values, places)


def hashtable_lookup(node: Node) -> Step | Steps:
    """Translate HASHTABLE_LOOKUP; files may quantise the hits, 0 or 1, or leave them out."""
    hits = node.outputs[1] if len(node.outputs) == 2 else None
    if hits is None or hits.quantization is not None:
        return Step("hashtable_lookup", node.inputs)
    values = node.inputs[-1] if node.inputs else None
    steps = StepList()
    declared = (None if values is None else values.type.quantization, None)
    found = steps.add("hashtable_lookup", node.inputs, quantization=declared)
    return steps.answer(found, found.beside(1))
