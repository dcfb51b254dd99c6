"""Inputs of other shapes: models built anew for them, and arrays checked against what is open."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.graph import Graph, with_bodies
from gpunn.graph.operation import Operand, Operation
from gpunn.strings import as_strings
from gpunn.types import Array, DType, OpenShape, Shape


def reshaped(model: Graph, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """Return the graph for inputs of these shapes, by name; see gpunn.Model.reshaped()."""
    names, wanted = [i.name for i in model.inputs], [i.type.shape for i in model.inputs]
    for name, shape in shapes.items():
        if names.count(name) != 1:
            raise ModelError(f"the model's inputs are {names}, {name!r} is not one of them")
        wanted[names.index(name)] = _as_shape(name, shape)
    return rebuilt(model, wanted)


def _as_shape(name: str, shape: Sequence[int]) -> Shape:
    try:
        return tuple(operator.index(n) for n in shape)
    except TypeError:
        raise ModelError(f"the shape of input {name!r} should be integers, got {shape!r}") from None


def rebuilt(model: Graph, shapes: Sequence[Shape]) -> Graph:
    """The model for inputs of these shapes, in order: by its source, else by repeating its operations."""
    if model.source is not None:
        return model.source(shapes)
    if model.rest is not None:
        raise ModelError(f"model {model.name!r} was changed and cannot be read again from its file")
    made = Graph(model.name, labels=model.labels)
    new: dict[Operand, Operand] = {}
    for i, shape in zip(model.inputs, shapes, strict=True):
        whole = i.open is not None and i.open.extents is None
        axes = i.open.axes(shape) if i.open else ()
        new[i] = made.input(i.name, i.type.with_shape(shape), open=None if whole else axes)
    for variable, value in model.variables.items():
        new[variable] = made.variable(variable.name, variable.type, value)
    for o in model.operations:
        inputs = [i and new.get(i, i) for i in o.inputs]
        results = made.add(
            o.custom or o.op,
            inputs,
            _reshaped_bodies(o, [i.type.shape for i in inputs if i is not None]),
            origin=o.origin,
            names=[result.name for result in o.outputs],
            quantization=[result.type.quantization for result in o.outputs],
            open=[result.open for result in o.outputs],
            hybrid=any(result.hybrid for result in o.outputs),
        )
        new.update(zip(o.outputs, results, strict=True))
    for variable, operand in model.updates.items():
        made.update(new[variable], new.get(operand, operand))
    made.output(*(new.get(o, o) for o in model.outputs))
    return made


def _reshaped_bodies(operation: Operation, shapes: Sequence[Shape]) -> Mapping[str, Any]:
    """The attributes, with bodies for inputs of these shapes: each takes the last ones, as many as it has."""
    return with_bodies(operation, lambda body: rebuilt(body, shapes[len(shapes) - len(body.inputs) :])).attrs


def as_input(operand: Operand, value: Any) -> Array:
    """`value` as a C-contiguous array for a model input; ModelError when dtype or shape do not fit.

    Extents that the input leaves open may be any.

    Lossless widening that numpy calls safe (float16 to float32, uint8 to int32) is done; anything
    else must be converted by the caller, who knows what is meant. Strings are taken as str and as bytes.
    """
    strings = operand.type.dtype is DType.STRING
    array = as_strings(value, f"input {operand.name!r}") if strings else np.asarray(value)
    wanted = operand.open or OpenShape(operand.type.shape)
    if not wanted.admits(array.shape):
        raise ModelError(f"input {operand.name!r} must have shape {wanted}, got {list(array.shape)}")
    if not np.can_cast(array.dtype, operand.type.dtype.numpy, "safe"):
        raise ModelError(f"input {operand.name!r} must be {operand.type.dtype.value}, got {array.dtype}")
    return np.asarray(array, operand.type.dtype.numpy, order="C")
