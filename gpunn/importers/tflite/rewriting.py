"""A .tflite file with the constants of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.trained import changed_constants
from gpunn.importers.common.rewriting import read_alike
from gpunn.importers.tflite.context import Context
from gpunn.importers.tflite.file import TfliteFile
from gpunn.importers.tflite.model_file import opened
from gpunn.importers.tflite.patch import Key, changing, with_contents
from gpunn.importers.tflite.scores import scoring, without_scoring
from gpunn.importers.tflite.subgraph import FileTensor
from gpunn.types import Array, DType

_STORED: Mapping[DType, npt.DTypeLike] = {DType.FLOAT32: np.dtype("<f4"), DType.FLOAT16: np.dtype("<f2")}


def with_constants(data: bytes, name: str, options: Mapping[str, Any], graph: Graph) -> bytes:
    """Return a .tflite file in which tensors have the values of a graph's constants, float32 or float16.

    The graph is of the same file. Values for float16 tensors are rounded to the nearest. If a value changes,
    the calibration and the threshold of scores go, for they are those of other weights. Raises
    UnsupportedError if a constant is stored in another form, and if the graph has other operations, and
    FormatError for a damaged file.
    """
    file, read, keys = read_constants(data, name, options, graph)
    contents: dict[Key, bytes] = {}
    for change in changed_constants(read, graph):
        key = keys.get(stored_operand(read, change.operand))
        if key is None:
            _fail(file, change.operand, change.operation, "the file has no tensor with it as it is")
        tensor = file.graph(key[0]).tensors[key[1]]
        contents[key] = content_of(file, tensor, change.operand, change.operation, change.value)
    with changing(name):
        made = with_contents(data, contents)
        if contents and scoring(file, data, [o.type for o in read.outputs]) is not None:
            made = without_scoring(made, name)
    _, again, _ = read_constants(made, name, options, graph)
    left = [change.operand for change in changed_constants(again, graph)]
    if any(o.value is not None and o.type.dtype is not DType.FLOAT16 for o in left):  # that may be rounded
        file.fail("its buffers overlap, so they cannot be changed")
    return made


def read_constants(
    data: bytes, name: str, options: Mapping[str, Any], graph: Graph
) -> tuple[TfliteFile, Graph, Mapping[Operand, Key]]:
    """Return a file, its graph for inputs of the shapes of another graph, and the tensors of constants."""
    contexts: list[Context] = []
    file, unread, _ = opened(data, name, options["limits"], options["custom"] or {}, contexts.append)
    read = read_alike(unread, graph)
    return file, read, {operand: key for c in contexts for key, operand in c.constants.items()}


def stored_operand(read: Graph, operand: Operand) -> Operand:
    """Return the constant of the file that an operand is, or that was widened to it from float16."""
    maker = next((o for o in read.operations if operand in o.outputs), None)
    source = None if maker is None or len(maker.inputs) != 1 else maker.inputs[0]
    if maker is None or source is None or source.value is None or source.type.dtype is not DType.FLOAT16:
        return operand
    widened = maker.evaluate([source.value])[0]
    return source if np.array_equal(widened, source.value, equal_nan=True) else operand


def content_of(
    file: TfliteFile, tensor: FileTensor, operand: Operand, operation: Operation, value: Array
) -> bytes:
    """Return a value of an operand, which an operation reads, as a tensor stores it.

    Raises UnsupportedError for tensors of other types than float32 and float16, and for values that are too
    large.
    """
    dtype = None if tensor.dtype is None else _STORED.get(tensor.dtype)
    if dtype is None or tensor.sparsity is not None or tensor.quantization is not None:
        form = "sparse" if tensor.sparsity is not None else tensor.type_name
        _fail(file, operand, operation, f"the file has it as {form}, only FLOAT32 and FLOAT16 are written")
    with np.errstate(over="ignore"):
        stored: Array = value.astype(dtype)
    if np.isinf(stored).any() and not np.isinf(value).any():
        _fail(file, operand, operation, "values are too large for FLOAT16")
    return stored.tobytes()


def _fail(file: TfliteFile, operand: Operand, operation: Operation, why: str) -> NoReturn:
    what = f"{operand.name!r}, which {operation.op} ({operation.origin}) reads"
    raise UnsupportedError(f"{file.name}: {what}, cannot be written back: {why}")
