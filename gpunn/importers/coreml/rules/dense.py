"""Rules of products of matrices, and of tables of vectors."""

from __future__ import annotations

import math

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.importers.coreml.node import Node, Value


def inner_product(node: Node) -> Value:
    """Return x W^T + b along the last axis, or along the channels where ranks are 4 or more."""
    params, x = node.params, node.only()
    outputs, inputs = int(params.outputChannels), int(params.inputChannels)
    filter = node.floats(node.weights(params.weights, outputs, inputs))
    bias = node.floats(node.weights(params.bias, outputs, what="bias")) if params.hasBias else None
    shape = x.type.shape
    if x.type.rank <= 3:
        leading, rest = shape[:-1], shape[-1:]
    else:
        leading, rest = shape[:-3], shape[-3:]
    if math.prod(rest) != inputs:
        node.corrupt(f"expected {inputs} input channels, got shape {list(shape)}")
    rows = node.add("reshape", x, shape=(math.prod(leading), inputs))
    y = node.add("fully_connected", rows, filter, bias)
    return node.add("reshape", y, shape=(*leading, outputs, *(1,) * (len(rest) - 1)))


def batched_matmul(node: Node) -> Value:
    """Return the matrix product of two inputs, or of one and weights of the file."""
    params = node.params
    if len(node.inputs) == 2:
        a, b = (_matrices(node, node.operand(k), 1 - k) for k in (0, 1))
        return node.add("batch_matmul", a, b, adj_a=params.transposeA, adj_b=params.transposeB)
    x = node.only()
    inputs, outputs = int(params.weightMatrixFirstDimension), int(params.weightMatrixSecondDimension)
    # The matrix [inputs, outputs] is stored by columns.
    filter = node.floats(node.weights(params.weights, outputs, inputs))
    bias = node.floats(node.weights(params.bias, outputs, what="bias")) if params.hasBias else None
    shape = x.type.shape
    if not shape or shape[-1] != inputs:
        node.corrupt(f"expected {inputs} columns, got shape {list(shape)}")
    rows = node.add("reshape", x, shape=(math.prod(shape[:-1]), inputs))
    y = node.add("fully_connected", rows, filter, bias)
    return node.add("reshape", y, shape=(*shape[:-1], outputs))


def _matrices(node: Node, x: Operand, row: int) -> Value:
    """Return x as it is, or a vector as a matrix of one row or else one column."""
    if x.type.rank != 1:
        return x
    return node.add("reshape", x, shape=(1, x.type.size) if row else (x.type.size, 1))


def embedding(node: Node) -> Value:
    """Return a vector of a table for each index [..., 1, 1, 1], as [..., C, 1, 1]."""
    params, x = node.params, node.only()
    if x.type.rank < 4 or x.type.shape[-3:] != (1, 1, 1):
        node.corrupt(f"expected indices [..., 1, 1, 1], got shape {list(x.type.shape)}")
    table, bias = _table(node, int(params.outputChannels), int(params.inputDim))
    y = _looked_up(node, x, table, bias)
    return node.add("reshape", y, shape=(*x.type.shape[:-3], int(params.outputChannels), 1, 1))


def embedding_nd(node: Node) -> Value:
    """Return a vector of a table for each index [..., 1], as [..., C]."""
    params, x = node.params, node.only()
    if x.type.rank < 2 or x.type.shape[-1] != 1:
        node.corrupt(f"expected indices [..., 1], got shape {list(x.type.shape)}")
    table, bias = _table(node, int(params.embeddingSize), int(params.vocabSize))
    y = _looked_up(node, x, table, bias)
    return node.add("reshape", y, shape=(*x.type.shape[:-1], int(params.embeddingSize)))


def _table(node: Node, size: int, count: int) -> tuple[Operand, Operand | None]:
    """Return vectors [count, size], which are stored as columns, and the bias [size]."""
    params = node.params
    table = np.ascontiguousarray(node.weights(params.weights, size, count).T)
    bias = node.floats(node.weights(params.bias, size, what="bias")) if params.hasBias else None
    return node.floats(table), bias


def _looked_up(node: Node, x: Operand, table: Operand, bias: Operand | None) -> Value:
    indices = node.add("cast", node.add("reshape", x, shape=(x.type.size,)), dtype="int32")
    y = node.add("gather", table, indices, axis=0)
    return y if bias is None else node.add("add", y, bias)
