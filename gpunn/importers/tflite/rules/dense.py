"""The rule of FULLY_CONNECTED, whose weights may be shuffled (a part of the table in table.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tflite as schema

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Result, Step, StepList, Steps
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.rules.biases import with_bias
from gpunn.importers.tflite.rules.blocks import block_reals
from gpunn.types import DType, Quantization, TensorType

_ROWS, _COLUMNS = 4, 16  # of a block of shuffled weights
_ZERO = 128  # the zero point of input and weights there


def fully_connected(node: Node) -> Step | Steps:
    """Translate FULLY_CONNECTED, with keep_num_dims (since version 5).

    Shuffled weights are put in order when the file is read; x, which has no zero point of its own there,
    becomes int16, and int16 is what the operator yields.
    """
    options = node.options("FullyConnectedOptions")
    keep, activation = options.get("KeepNumDims"), options.activation()
    attrs = {"keep_dims": keep, **activation}
    format, formats = options.get("WeightsFormat"), schema.FullyConnectedOptionsWeightsFormat
    if format == formats.DEFAULT:
        if 1 in node.blocks:
            return _of_blocks(node, attrs)
        x, filter = node.operand(0), node.operand(1)
        return Step("fully_connected", (x, filter, *with_bias(options, x, filter, node.inputs[2:])), attrs)
    if format != formats.SHUFFLED4x16INT8:
        node.corrupt(f"there is no weights format number {format}")
    x, filter = node.operand(0), node.operand(1)
    types = [x.type.dtype, filter.type.dtype, *(t and t.dtype for t in node.outputs[:1])]
    if types != [DType.UINT8, DType.UINT8, DType.INT16]:
        raise RefusedError("with shuffled weights, input and weights must be UINT8 and the output INT16")
    scales = [_scale(node, operand) for operand in (x, filter)]
    short = {"dtype": "int16", "scale": scales[0], "zero_point": 0}
    weights = _in_rows(node, filter, scales[1])
    declared = [(None if t is None else t.quantization,) for t in node.outputs]
    steps = [
        Step("quantize", (x,), short),
        Step(
            "fully_connected",
            (Result(0), weights, *node.inputs[2:]),
            {**attrs, "halves_away": True},
            declared[0],
        ),
        # TFLite shuffles x in its second result, which means nothing.
        *(Step("reshape", (x,), {"shape": x.type.shape}, quantization) for quantization in declared[1:]),
    ]
    return Steps(steps, tuple(map(Result, range(1, len(steps)))))


def _of_blocks(node: Node, attrs: Mapping[str, Any]) -> Steps:
    """Compute with the reals of weights in which each block of a row has a scale of its own."""
    steps, filter = StepList(), node.operand(1)
    reals = block_reals(steps, node.blocks[1], filter, filter.type.shape, hybrid=True)
    return steps.answer(steps.add("fully_connected", (node.operand(0), reals, *node.inputs[2:]), attrs))


def _scale(node: Node, operand: Operand) -> float:
    """Return the scale of 8-bit numbers around 128; TFLite's kernel ignores what else the file says."""
    quantization = operand.type.quantization
    if quantization is None or quantization.zero_point != (_ZERO,):
        raise RefusedError(f"with shuffled weights, {operand.name} must have a scale and zero point {_ZERO}")
    return quantization.scale[0]


def _in_rows(node: Node, filter: Operand, scale: float) -> Operand:
    """Reorder weights from blocks, with their signs turned: int8, row by row."""
    value = node.constant(1, "shuffled weights", "uint8")
    rows, columns = value.shape if value.ndim == 2 else (1, 1)
    if rows % _ROWS or columns % _COLUMNS:
        node.corrupt(f"shuffled weights come in blocks of {_ROWS} by {_COLUMNS}, got {list(value.shape)}")
    blocks = value.view(np.int8).reshape(rows // _ROWS, columns // _COLUMNS, _ROWS, _COLUMNS)
    type = TensorType(DType.INT8, (rows, columns), Quantization((scale,), (0,)))
    return replace(filter, type=type, value=blocks.transpose(0, 2, 1, 3).reshape(type.shape))
