"""Rules of the NNAPI operations: the op with attributes for each (table.py has their signatures)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.importers.common.answers import PREVIOUS, Step
from gpunn.importers.common.strided_slice import StridedSlice
from gpunn.importers.nnapi.codes import LSHProjectionType
from gpunn.importers.nnapi.node import PADDINGS, Node
from gpunn.importers.nnapi.signature import HALF, INT

ToStep = Callable[[Node], Step | Sequence[Step]]


def plain(op: str) -> ToStep:
    """Make a rule for the tensors in order, without attributes."""
    return lambda node: Step(op, tuple(node.tensor(name) for name in node.parameters))


def binary(op: str) -> ToStep:
    """Make a rule for two tensors and a fused activation."""

    def steps(node: Node) -> Step:
        attrs = node.activation()
        if attrs and node.type("a").type is INT:
            node.corrupt(f"fuse must be 0 for integers, got {node.integer('fuse')}")
        return Step(op, (node.tensor("a"), node.tensor("b")), attrs)

    return steps


def div(node: Node) -> Step | Sequence[Step]:
    """Translate DIV; of integers the quotient is rounded down."""
    return binary("floor_div" if node.type("a").type is INT else "div")(node)


def dequantize(node: Node) -> Step | Sequence[Step]:
    """Translate DEQUANTIZE to float32, or to float16, which is that rounded."""
    step = Step("dequantize", (node.tensor("x"),))
    if node.results[0].type is not HALF:
        return step
    return step, Step("cast", (PREVIOUS,), {"dtype": "float16"})


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


def _dilation(node: Node) -> dict[str, Any]:
    """Return the dilation of a convolution; nothing if the form has none."""
    if "dilation_width" not in node.parameters:
        return {}
    return {"dilation": (node.integer("dilation_height", 1), node.integer("dilation_width", 1))}


def conv(node: Node) -> Step:
    """Translate CONV_2D: the filter has as many input channels as the input."""
    attrs = {**_window(node), **_dilation(node)}
    x, filter = node.tensor("x"), node.tensor("filter")
    if filter.type.shape[3] != x.type.shape[3]:
        node.corrupt(f"filter has {filter.type.shape[3]} input channels, input has {x.type.shape[3]}")
    return Step("conv2d", (x, filter, node.tensor("bias")), attrs)


def depthwise_conv(node: Node) -> Step:
    """Translate DEPTHWISE_CONV_2D: depth_out = depth_in * multiplier."""
    attrs, multiplier = {**_window(node), **_dilation(node)}, node.integer("multiplier", 1)
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
    ranked = next((t for t in node.types[: node.variadic] if t.ranked), None)
    axis = node.integer("axis", 0, None if ranked is None else len(ranked.dimensions) - 1)
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
    paddings = node.pairs("paddings", node.rank("x"))
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
    rank = node.rank("x")
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
    rank = node.rank("x")
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
    """Translate RESIZE_BILINEAR to a size, or by scales; the width comes first."""
    attrs = {name: node.flag(name) for name in ("align_corners", "half_pixel_centers")}
    if all(attrs.values()):
        node.corrupt("align_corners and half_pixel_centers exclude each other")
    if "width" in node.parameters:
        size = node.integer("height", 1), node.integer("width", 1)
        return Step("resize_bilinear", (node.tensor("x"),), {"size": size, **attrs})
    scales = [node.real(name) for name in ("height_scale", "width_scale")]
    if not all(0 < scale < math.inf for scale in scales):
        node.corrupt(f"height_scale and width_scale must be positive, got {scales}")
    x = node.tensor("x")
    sizes = [
        math.floor(np.float32(n) * np.float32(f)) for n, f in zip(x.type.shape[1:3], scales, strict=True)
    ]
    return Step("resize_bilinear", (x,), {"size": tuple(sizes), **attrs})


def l2_normalization(node: Node) -> Step:
    """Translate L2_NORMALIZATION along an axis, or the last dimension."""
    attrs = {"axis": node.axis()}
    return Step("l2_normalization", (node.tensor("x"),), attrs)


def softmax(node: Node) -> Step:
    """Translate SOFTMAX along an axis, or the last dimension."""
    beta = node.real("beta")
    if not beta > 0:
        node.corrupt(f"beta must be positive, got {beta}")
    attrs = {"axis": node.axis(), "beta": beta}
    return Step("softmax", (node.tensor("x"),), attrs)


def local_response_normalization(node: Node) -> Step:
    """Translate LOCAL_RESPONSE_NORMALIZATION along an axis, or the last dimension.

    The documents of all feature levels forbid a bias of 0. In practice it is computed, so only level 27
    refuses it here.
    """
    attrs = {
        "radius": node.integer("radius", 0),
        **{name: node.real(name) for name in ("bias", "alpha", "beta")},
        "axis": node.axis(),
    }
    if attrs["bias"] == 0 and node.level == 27:
        node.corrupt("bias must not be 0")
    return Step("local_response_normalization", (node.tensor("x"),), attrs)


def lsh_projection(node: Node) -> Step:
    """Translate LSH_PROJECTION; a sparse signature must fit 32 bits."""
    kinds = {code: kind for code, (since, kind, _) in _LSH_KINDS.items() if since <= node.level}
    number, kind = node.integer("type"), node.code("type", kinds)
    functions = node.tensor("hash")
    count, seeds = functions.type.shape
    if kind == "sparse" and seeds + math.ceil(math.log2(max(count, 1))) > 32:
        node.corrupt(f"{count} functions of {seeds} bits do not fit 32 bits")
    x, weight = node.tensor("x"), node.optional("weight")
    if weight is not None and weight.type.shape[0] != x.type.shape[0]:
        node.corrupt(f"weight must have {x.type.shape[0]} entries as the input, got {weight.type.shape[0]}")
    attrs = {"type": kind, "offset": _LSH_KINDS[LSHProjectionType(number)][2]}
    return Step("lsh_projection", (functions, x, weight), attrs)


# By number: the first feature level, the type of the op, and whether signatures get an offset.
_LSH_KINDS = {
    LSHProjectionType.SPARSE: (27, "sparse", False),
    LSHProjectionType.DENSE: (27, "dense", False),
    LSHProjectionType.SPARSE_WITH_OFFSET: (29, "sparse", True),
}
