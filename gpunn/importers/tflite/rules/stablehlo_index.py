"""Rules of STABLEHLO_GATHER and STABLEHLO_SCATTER, whose indices name places of whole slices."""

from __future__ import annotations

from typing import Any

from gpunn.importers.common.answers import Step
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node, Options
from gpunn.importers.tflite.rules.window import function
from gpunn.ops.indexing.slices import FUNCTIONS
from gpunn.ops.reduction.window import joining
from gpunn.types import DType

GATHER = {
    "offset_dims": "OffsetDims",
    "collapsed_slice_dims": "CollapsedSliceDims",
    "start_index_map": "StartIndexMap",
    "slice_sizes": "SliceSizes",
}
SCATTER = {
    "update_window_dims": "UpdateWindowDims",
    "inserted_window_dims": "InsertedWindowDims",
    "scatter_dims_to_operand_dims": "ScatterDimsToOperandDims",
}


def _attributes(options: Options, names: dict[str, str]) -> dict[str, Any]:
    """Return the dimensions in the options of these names."""
    lists = {attr: options.ints(name) for attr, name in names.items()}
    return {**lists, "index_vector_dim": options.get("IndexVectorDim")}


def _expect_indices(node: Node) -> None:
    indices = node.operand(1)
    if indices.type.dtype not in (DType.INT32, DType.INT64):
        raise RefusedError(f"its indices are {indices.type}, only int32 and int64 are supported")


def gather(node: Node) -> Step:
    """Translate STABLEHLO_GATHER: slices of one size from the indices, moved so that they fit."""
    _expect_indices(node)
    attrs = _attributes(node.options("StablehloGatherOptions"), GATHER)
    return Step("gather_slices", (node.operand(0), node.operand(1)), attrs)


def scatter(node: Node) -> Step:
    """Translate STABLEHLO_SCATTER: updates at indices, combined by a body of one operator, or none."""
    options, x = node.options("StablehloScatterOptions"), node.operand(0)
    if len(node.inputs) != 3:
        raise RefusedError(f"it scatters into {len(node.inputs) // 3} tensors together")
    body = options.get("UpdateComputationSubgraphIndex")
    graph = node.subgraph(body)
    takes = not graph.operators and graph.outputs == graph.inputs[1:] and len(graph.inputs) == 2
    name = None if takes else function(node, body)
    if name is not None and (name not in FUNCTIONS or x.type.dtype is DType.BOOL):
        how = joining(name, x.type.dtype is DType.BOOL).join
        supported = ", ".join(join for _, join, _ in FUNCTIONS.values())
        raise RefusedError(f"updates are joined by {how}, only {supported} are supported")
    _expect_indices(node)
    attrs = _attributes(options, SCATTER)
    return Step("scatter_slices", (x, node.operand(1), node.operand(2)), {**attrs, "function": name})
