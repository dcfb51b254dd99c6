"""A case: one layer in one file, with its operation, constants, types and inputs.

A case is a .npz archive of plain arrays, which numpy.load reads. in0, in1, ... are the operands by position,
out0, ... the exact results. `case` is the JSON text of the operation: name, attributes, types. `gpunn compare
CASE.npz` runs it again, on any machine; load_case() returns its Model and Sample.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpunn.comparison.arrays import read_arrays
from gpunn.comparison.exact import evaluations, narrow, start
from gpunn.comparison.inputs import Sample, array_sample
from gpunn.comparison.parts import exact_parts, joined
from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.graph.exact import evaluate
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, TensorType

FORMAT = "gpunn case 1"
SUFFIX = ".npz"
MAX_TEXT = 1 << 16
MAX_OPERANDS = 256
MAX_DEPTH = 8  # of lists in attributes

_KINDS = (int, float, str, bool, type(None))


def save_layer(model: Model, index: int, sample: Sample, path: str | os.PathLike[str]) -> None:
    """Write operation `index` of the optimised model as a case, with the inputs that a sample gives it.

    Raises what expect_layer() does.
    """
    optimised = _optimised(model, index, sample)
    values = start(optimised, sample.arrays)
    wanted = next(itertools.islice(evaluations(optimised, values), index, None))
    sources = {o for o in wanted.inputs if o is not None and o.value is None}
    save_case(path, wanted, {o: narrow(values[o], o) for o in sources})


def expect_layer(model: Model, index: int, sample: Sample) -> None:
    """Raise an error unless save_layer() can write operation `index`, before anything is computed.

    Raises ModelError if there is no such operation; UnsupportedError if it is custom, works on strings, or
    has attributes that are not plain values.
    """
    _text_of(_optimised(model, index, sample).operations[index])


def _optimised(model: Model, index: int, sample: Sample) -> Graph:
    """Return the optimised model, if it has so many operations."""
    optimised = joined(exact_parts(model, sample.arrays))
    if not 0 <= index < len(optimised.operations):
        raise ModelError(f"{model.name} has layers 0 to {len(optimised.operations) - 1}, got {index}")
    return optimised


def save_case(path: str | os.PathLike[str], operation: Operation, values: Mapping[Operand, Array]) -> None:
    """Write a case; `values` are the inputs that are not constants."""
    text = np.frombuffer(_text_of(operation).encode(), np.uint8)
    arrays = {
        f"in{index}": operand.value if operand.value is not None else values[operand]
        for index, operand in enumerate(operation.inputs)
        if operand is not None
    }
    results = evaluate(operation, values)
    arrays |= {f"out{index}": np.asarray(result) for index, result in enumerate(results)}
    with open(path, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, case=text, **arrays)


def _text_of(operation: Operation) -> str:
    """Return the text of a case."""
    where = f"{operation.op} ({operation.origin})"
    operands = [o for o in (*operation.inputs, *operation.outputs) if o is not None]
    if operation.custom is not None or any(o.type.dtype is DType.STRING for o in operands):
        raise UnsupportedError(f"{where} is custom or works on strings, and cannot be saved by itself")
    described = {
        "format": FORMAT,
        "op": operation.op,
        "origin": operation.origin,
        "attributes": {name: _plain(value, where) for name, value in operation.attrs.items()},
        "inputs": [_described(operand) for operand in operation.inputs],
        "outputs": [_described(operand) for operand in operation.outputs],
    }
    return json.dumps(described)


def _plain(value: Any, where: str) -> Any:
    """Convert an attribute for JSON; tuples become lists."""
    if isinstance(value, (list, tuple)):
        return [_plain(item, where) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, _KINDS):
        raise UnsupportedError(f"{where}: an attribute is a {type(value).__name__}, which cannot be saved")
    return value


def _described(operand: Operand | None) -> dict[str, Any] | None:
    if operand is None:
        return None
    quantization = operand.type.quantization
    return {
        "name": operand.name,
        "constant": operand.value is not None,
        "dtype": operand.type.dtype.value,
        "shape": list(operand.type.shape),
        "quantization": quantization
        and {"scale": quantization.scale, "zero_point": quantization.zero_point, "axis": quantization.axis},
    }


def load_case(path: str | os.PathLike[str]) -> tuple[Model, Sample]:
    """Return the one-operation model of a case, and its inputs. Raises FormatError and ModelError."""
    path = Path(path)
    arrays = read_arrays(path)
    described = _text(path, arrays)
    try:
        model = _model(path, described, arrays)
        given = [
            arrays[f"in{index}"]
            for index, row in enumerate(described["inputs"])
            if row is not None and not row["constant"]
        ]
        return model, array_sample(model, given, path.name)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, ModelError):
            raise
        raise FormatError(f"{path}: is no case of gpunn: {type(error).__name__}: {error}") from None


def _text(path: Path, arrays: Mapping[str, Array]) -> dict[str, Any]:
    text = arrays.get("case")
    if text is None or text.dtype != np.uint8 or text.size > MAX_TEXT:
        raise FormatError(f"{path}: holds no layer that gpunn compare --save-layer wrote")
    try:
        described = json.loads(text.tobytes())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: its description cannot be read: {error}") from None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise FormatError(f"{path}: expected format {FORMAT!r}")
    return described


def _model(path: Path, described: Mapping[str, Any], arrays: Mapping[str, Array]) -> Model:
    inputs, outputs = described["inputs"], described["outputs"]
    if not 0 < len(inputs) <= MAX_OPERANDS or not 0 < len(outputs) <= MAX_OPERANDS:
        raise FormatError(f"{path}: {len(inputs)} inputs and {len(outputs)} outputs")
    model = Model(str(described["origin"]) or path.name)
    operands = [
        None
        if row is None
        else model.constant(str(row["name"]), arrays[f"in{index}"], _type(row))
        if row["constant"]
        else model.input(str(row["name"]), _type(row))
        for index, row in enumerate(inputs)
    ]
    wanted = [_type(row) for row in outputs]
    results = model.add(
        str(described["op"]),
        operands,
        {str(name): _attribute(value) for name, value in described["attributes"].items()},
        origin=str(described["origin"]),
        names=[str(row["name"]) for row in outputs],
        quantization=[t.quantization for t in wanted],
    )
    if [o.type for o in results] != wanted:
        raise ModelError(
            f"{path}: results should be {_listed(wanted)}, got {_listed([o.type for o in results])}"
        )
    model.output(*results)
    return model


def _listed(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))


def _type(row: Mapping[str, Any]) -> TensorType:
    stated = row["quantization"]
    quantization = stated and Quantization(
        tuple(float(s) for s in stated["scale"]),
        tuple(int(z) for z in stated["zero_point"]),
        int(stated["axis"]),
    )
    return TensorType(DType(row["dtype"]), tuple(int(d) for d in row["shape"]), quantization)


def _attribute(value: Any, depth: int = 0) -> Any:
    """Convert an attribute from JSON; lists become tuples."""
    if depth > MAX_DEPTH:
        raise ValueError("an attribute is nested too deeply")
    return tuple(_attribute(item, depth + 1) for item in value) if isinstance(value, list) else value
