"""The table of docs/nnapi.md: each NNAPI operation, the types it takes, and the backends that run it.

    python -m tests.nnapi.coverage

rewrites it. A cell comes from a small model of gpunn.nnapi. Its operations are lowered for a device with
WebGPU's default limits (no real device is needed) and run by the cpu backend on zeros.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpunn.backends.webgpu.lower import lower
from gpunn.compilation.compiler import compile_model
from gpunn.device import BASELINE
from gpunn.importers.nnapi.checks import centred, unit
from gpunn.importers.nnapi.signature import Param
from gpunn.importers.nnapi.table import OPERATIONS
from gpunn.nnapi import FeatureLevelCode, Model, OperandCode, OperandType, OperationCode
from gpunn.passes.relax import relax
from gpunn.planning.partition import HOST, partition
from tests.nnapi.builder import FLOAT, INT, QUANT8, add_constant
from tests.resources import ROOT

PAGE = ROOT / "docs" / "nnapi.md"
_BLOCK = re.compile(r"(?<=<!-- coverage -->\n).*?(?=<!-- end of coverage -->)", re.DOTALL)

INPUTS = {"x", "xs", "a", "b", "lookups", "state", "output_state", "cell_state"}  # others are constants
SCALE = 0.5
FIXED = {unit: (1 / 256, 0), centred: (1 / 128, 128)}  # scale and zero point that results must have
QUANTITIES = {"bias": SCALE * SCALE, "hits": 1.0}  # scales that are not SCALE


@dataclass(frozen=True, slots=True)
class Column:
    """A column of types: the code of the operation's type, and whether the model is relaxed."""

    title: str
    code: OperandCode
    relaxed: bool = False


COLUMNS = (
    Column("float32", FLOAT),
    Column("relaxed float32", FLOAT, relaxed=True),
    Column("float16", OperandCode.TENSOR_FLOAT16),
    Column("quant8 asymm", QUANT8),
    Column("quant8 asymm signed", OperandCode.TENSOR_QUANT8_ASYMM_SIGNED),
    Column("int32", INT),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Dimensions of tensors (tuples) and values of attributes (numbers, lists; None for none) by name."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, tuple[int, ...]]


def _of(y: tuple[int, ...], **inputs: Any) -> Sample:
    """Return a sample with one output."""
    return Sample(inputs, {"y": y})


_IMAGE, _MATRIX = (1, 4, 4, 2), (2, 3)
_WINDOW = {"padding": 1, "stride_width": 1, "stride_height": 1}
_POOL = _of(_IMAGE, x=_IMAGE, **_WINDOW, filter_width=2, filter_height=2, fuse=0)
_BINARY = _of(_IMAGE, a=_IMAGE, b=(2,), fuse=0)
_UNARY = _of(_IMAGE, x=_IMAGE)
_LSTM = {
    "x": (1, 2),
    **{f"input_to_{gate}": (3, 2) for gate in ("input", "forget", "cell", "output")},
    **{f"recurrent_to_{gate}": (3, 3) for gate in ("input", "forget", "cell", "output")},
    **dict.fromkeys(("cell_to_input", "cell_to_forget", "cell_to_output")),
    **dict.fromkeys(("input_gate_bias", "forget_gate_bias", "cell_bias", "output_gate_bias"), (3,)),
    **dict.fromkeys(("projection", "projection_bias")),
    **{"output_state": (1, 3), "cell_state": (1, 3), "fuse": 4, "cell_clip": 0.0, "proj_clip": 0.0},
}
_SLICE = {"begin": [0, 1, 1, 0], "end": [1, 3, 3, 2], "strides": [1, 1, 1, 1]}
_MASKS = dict.fromkeys(("begin_mask", "end_mask", "shrink_axis_mask"), 0)
_RNN = {"weights": (3, 2), "recurrent_weights": (3, 3), "bias": (3,), "state": (1, 3), "fuse": 1}
_SVDF = {"weights_feature": (4, 2), "weights_time": (4, 5), "bias": (2,), "state": (1, 20)}
_LAYER = {"bias": (4,), **_WINDOW, "fuse": 1}
_RESPONSE = {"bias": 1.0, "alpha": 1.0, "beta": 0.5}

SAMPLES: Mapping[str, Sample] = {
    "ADD": _BINARY,
    "AVERAGE_POOL_2D": _POOL,
    "BATCH_TO_SPACE_ND": _of((1, 4, 4, 2), x=(4, 2, 2, 2), block_shape=[2, 2]),
    "CONCATENATION": _of((1, 4, 4, 4), xs=_IMAGE, axis=3),
    "CONV_2D": _of((1, 4, 4, 4), x=_IMAGE, filter=(4, 3, 3, 2), **_LAYER),
    "DEPTHWISE_CONV_2D": _of((1, 4, 4, 4), x=_IMAGE, filter=(1, 3, 3, 4), **_LAYER, multiplier=2),
    "DEPTH_TO_SPACE": _of((1, 4, 4, 1), x=(1, 2, 2, 4), block_size=2),
    "DEQUANTIZE": _UNARY,
    "DIV": _BINARY,
    "EMBEDDING_LOOKUP": _of((2, 3), lookups=(2,), values=(5, 3)),
    "FLOOR": _UNARY,
    "FULLY_CONNECTED": _of((2, 4), x=(2, 3), weights=(4, 3), bias=(4,), fuse=1),
    "HASHTABLE_LOOKUP": Sample(
        {"lookups": (2,), "keys": (5,), "values": (5, 3)}, {"y": (2, 3), "hits": (2,)}
    ),
    "L2_NORMALIZATION": _UNARY,
    "L2_POOL_2D": _POOL,
    "LOCAL_RESPONSE_NORMALIZATION": _of(_IMAGE, x=_IMAGE, radius=1, **_RESPONSE),
    "LOGISTIC": _UNARY,
    "LSH_PROJECTION": _of((32,), hash=(4, 8), x=(3, 2), weight=None, type=2),
    "LSTM": Sample(_LSTM, {"scratch": (1, 12), **dict.fromkeys(("output_state", "cell_state", "y"), (1, 3))}),
    "MAX_POOL_2D": _POOL,
    "MEAN": _of((1, 2), x=_IMAGE, axes=[1, 2], keep_dims=0),
    "MUL": _BINARY,
    "PAD": _of((1, 6, 6, 2), x=_IMAGE, paddings=[[0, 0], [1, 1], [1, 1], [0, 0]]),
    "RELU": _UNARY,
    "RELU1": _UNARY,
    "RELU6": _UNARY,
    "RESHAPE": _of((4, 8), x=_IMAGE, shape=[4, -1]),
    "RESIZE_BILINEAR": _of((1, 6, 6, 2), x=_IMAGE, width=6, height=6),
    "RNN": Sample({"x": (1, 2), **_RNN}, {"state": (1, 3), "y": (1, 3)}),
    "SOFTMAX": _of(_MATRIX, x=_MATRIX, beta=1.0),
    "SPACE_TO_BATCH_ND": _of((4, 3, 3, 2), x=_IMAGE, block_shape=[2, 2], paddings=[[1, 1], [1, 1]]),
    "SPACE_TO_DEPTH": _of((1, 2, 2, 8), x=_IMAGE, block_size=2),
    "SQUEEZE": _of((4, 4, 2), x=_IMAGE, axes=[0]),
    "STRIDED_SLICE": _of((1, 2, 2, 2), x=_IMAGE, **_SLICE, **_MASKS),
    "SUB": _BINARY,
    "SVDF": Sample({"x": (1, 2), **_SVDF, "rank": 2, "fuse": 0}, {"state": (1, 20), "y": (1, 2)}),
    "TANH": _UNARY,
    "TRANSPOSE": _of((1, 2, 4, 4), x=_IMAGE, perm=[0, 3, 1, 2]),
}


def level_of(operation: OperationCode, column: Column) -> int | None:
    """Return the first feature level at which an operation takes the types of a column; None if none does."""
    rule = OPERATIONS[operation]
    return next((level for level in FeatureLevelCode if column.code in rule.signature(level).types), None)


def sample_model(operation: OperationCode, column: Column) -> Model:
    """Return the finished model of an operation's sample in the types of a column."""
    rule, sample = OPERATIONS[operation], SAMPLES[operation.name]
    level = level_of(operation, column)
    assert level is not None
    signature = rule.signature(level)
    form = next(f for f in signature.forms if {p.name for p in f} == sample.inputs.keys())
    model = Model(f"{operation.name} in {column.title}", feature_level=level)
    free: list[int] = []
    arguments: list[int] = []
    for param in form:
        for _ in range(2 if param.variadic else 1):
            arguments.append(_argument(model, param, sample.inputs[param.name], column.code, free))
    results = []
    scale, zero = FIXED.get(rule.scales, (SCALE, 0))
    zero -= 128 if rule.scales in FIXED and column.code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED else 0
    for param in signature.outputs:
        type = _type(param, sample.outputs[param.name], column.code, QUANTITIES.get(param.name, scale))
        results.append(model.add_operand(replace(type, zero_point=zero if type.scale else 0)))
    model.add_operation(operation, arguments, results)
    model.identify_inputs_and_outputs(free, results)
    model.relax_computation_float32_to_float16(column.relaxed)
    model.finish()
    return model


def _argument(model: Model, param: Param, value: Any, code: OperandCode, free: list[int]) -> int:
    """Add the operand of a parameter; append inputs of the model to `free` too."""
    if param.is_attribute:
        (kind,) = param.codes((code,))
        return add_constant(model, value, None if kind.is_tensor or value is None else OperandType(kind))
    absent = value is None
    dimensions = (0,) * param.ranks[0][0] if absent else value
    type = _type(param, dimensions, code, QUANTITIES.get(param.name, SCALE))
    index = model.add_operand(type)
    if param.name in INPUTS:
        free.append(index)
    else:
        model.set_operand_value(index, None if absent else np.zeros(dimensions, type.type.numpy))
    return index


def _type(param: Param, dimensions: tuple[int, ...], code: OperandCode, scale: float) -> OperandType:
    found = param.codes((code,))[0]
    scaled = found.form.quantised or (param.kind == "B" and code.form.quantised)
    return OperandType(found, dimensions, scale if scaled else 0.0)


def host_reason(operation: OperationCode, column: Column) -> str | None:
    """Return why the operation runs on the CPU, empty if on the GPU; None if it does not take the types."""
    if level_of(operation, column) is None:
        return None
    translation = sample_model(operation, column).translation
    assert not translation.deferred and not translation.refused, translation.refused
    graph = translation.graph
    with compile_model(graph, "cpu", relaxed=column.relaxed) as compiled:
        compiled(*(np.zeros(x.type.shape, x.type.dtype.numpy) for x in graph.inputs))
    model = relax(graph) if column.relaxed else graph
    placements = partition(model, lambda made: lower(made, BASELINE))
    return next((placement.reason for placement in placements if placement.backend == HOST), "")


def table(operations: Sequence[OperationCode] = tuple(OperationCode)) -> str:
    """Return the table in Markdown, in alphabetical order."""
    titles = ["operation", *(column.title for column in COLUMNS), "why on the CPU"]
    rows = [titles, ["---"] * len(titles)]
    for operation in sorted(operations, key=lambda code: code.name):
        reasons = [host_reason(operation, column) for column in COLUMNS]
        levels = [level_of(operation, column) for column in COLUMNS]
        cells = [_cell(reason, level) for reason, level in zip(reasons, levels, strict=True)]
        rows.append([operation.name, *cells, "; ".join(dict.fromkeys(filter(None, reasons)))])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(reason: str | None, level: int | None) -> str:
    """Return the backends of a cell, and the feature level if it is a later one."""
    if reason is None or level is None:
        return "-"
    return f"{'cpu' if reason else 'webgpu, cpu'}{f' ({level})' if level > 27 else ''}"


def refreshed(page: str) -> str:
    """Return the page with the current table."""
    assert _BLOCK.search(page), "the page has no place for the table"
    return _BLOCK.sub(lambda _: table(), page, count=1)


def main(path: Path = PAGE) -> None:
    """Rewrite the table of the page."""
    path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
