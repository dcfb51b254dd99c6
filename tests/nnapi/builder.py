"""Small NNAPI models for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gpunn.nnapi import (
    Compilation,
    Execution,
    Model,
    NnapiError,
    OperandCode,
    OperandType,
    OperationCode,
    ResultCode,
)

Array = npt.NDArray[Any]
FLOAT, INT, QUANT8 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_INT32, OperandCode.TENSOR_QUANT8_ASYMM
CODES = {"float32": FLOAT, "float16": OperandCode.TENSOR_FLOAT16, "int32": INT}
SCALARS = {"f": OperandCode.FLOAT32, "i": OperandCode.INT32, "b": OperandCode.BOOL}
BAD_DATA, BAD_STATE, NULL = ResultCode.BAD_DATA, ResultCode.BAD_STATE, ResultCode.UNEXPECTED_NULL
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
Y = np.maximum(X, 0)


@contextmanager
def expect(code: ResultCode, words: str = "") -> Iterator[None]:
    """Assert that the block raises NnapiError with this code, and a message that matches `words`."""
    with pytest.raises(NnapiError, match=words or None) as caught:
        yield
    assert caught.value.code is code, str(caught.value)


def tensor(*dimensions: int, code: OperandCode = FLOAT, scale: float = 0.0, zero: int = 0) -> OperandType:
    """Return a tensor type; quantised ones get the scale 0.5 unless another is given."""
    return OperandType(code, dimensions, scale or (0.5 if code.form.quantised else 0.0), zero)


def add_constant(model: Model, value: Any, type: OperandType | None = None) -> int:
    """Add a constant operand: a number or bool becomes a scalar, a list a TENSOR_INT32, an array a tensor."""
    if type is None and isinstance(value, np.ndarray):
        type = tensor(*value.shape, code=CODES[value.dtype.name])
    elif type is None and isinstance(value, list):
        type = tensor(*np.shape(value), code=INT)
    elif type is None:
        type = OperandType(SCALARS[np.asarray(value).dtype.kind])
    index = model.add_operand(type)
    model.set_operand_value(index, value)
    return index


def single(
    operation: str,
    inputs: Sequence[Any],
    outputs: Sequence[OperandType],
    *,
    finish: bool = True,
    level: int = 27,
) -> Model:
    """Return a model of one operation: types become model inputs, None no value, all else constants.

    A pair (type, value) is a constant of that type.
    """
    model = Model(operation, feature_level=level)
    indices, free = [], []
    for value in inputs:
        if isinstance(value, OperandType):
            free.append(model.add_operand(value))
            indices.append(free[-1])
        elif isinstance(value, tuple):
            indices.append(add_constant(model, value[1], value[0]))
        else:
            indices.append(add_constant(model, value))
    results = [model.add_operand(type) for type in outputs]
    model.add_operation(OperationCode[operation], indices, results)
    model.identify_inputs_and_outputs(free, results)
    if finish:
        model.finish()
    return model


def relu(*dimensions: int) -> Model:
    """Return the finished model of a RELU."""
    return single("RELU", [tensor(*dimensions)], [tensor(*dimensions)])


def compiled(model: Model, backend: str = "cpu") -> Compilation:
    """Return the finished compilation of a model."""
    compilation = Compilation(model, backend=backend)
    compilation.finish()
    return compilation


def run(
    compilation: Compilation, *inputs: Any, out: Array, types: Sequence[OperandType | None] = ()
) -> Array:
    """Compute one execution with one output; return `out`."""
    execution = Execution(compilation)
    for position, value in enumerate(inputs):
        execution.set_input(position, value, types[position] if types else None)
    execution.set_output(0, out, types[-1] if len(types) > len(inputs) else None)
    execution.start_compute().wait()
    return out


def empty(*shape: int) -> Any:
    """Return an array to write to."""
    return np.full(shape, np.nan, np.float32)
