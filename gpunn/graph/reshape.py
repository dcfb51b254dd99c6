"""Inputs of other shapes: models built anew for them, and arrays checked against what is open."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
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
    """Return the model for inputs of these shapes: its template completed, or its operations repeated."""
    types = [i.type.with_shape(shape) for i, shape in zip(model.inputs, shapes, strict=True)]
    made = complete(model.template or model, types)
    made.template = model.template
    return made


def as_input(operand: Operand, value: Any) -> Array:
    """Return `value` as a C-contiguous array for a model input.

    Raises ModelError if dtype or shape do not fit. Extents that the input leaves open may be any.

    Lossless widening that numpy calls safe (float16 to float32, uint8 to int32) is done; anything
    else must be converted by the caller, who knows what is meant, unless the input rounds. Strings are taken
    as str and as bytes. None stands for the default of an input that has one.
    """
    if value is None and operand.default is not None:
        return np.full(operand.type.shape, operand.default, operand.type.dtype.numpy)
    strings = operand.type.dtype is DType.STRING
    array = as_strings(value, f"input {operand.name!r}") if strings else np.asarray(value)
    wanted = operand.open or OpenShape(operand.type.shape)
    if not wanted.admits(array.shape):
        raise ModelError(f"input {operand.name!r} must have shape {wanted}, got {list(array.shape)}")
    if np.can_cast(array.dtype, operand.type.dtype.numpy, "safe"):
        return np.asarray(array, operand.type.dtype.numpy, order="C")
    if operand.rounds and array.dtype.kind in "iuf":
        return _rounded(operand, array)
    raise ModelError(f"input {operand.name!r} must be {operand.type.dtype.value}, got {array.dtype}")


def _rounded(operand: Operand, array: Array) -> Array:
    """Return reals rounded to the type of an input, or integers, which must be there exactly."""
    with np.errstate(over="ignore"):  # a number that is too large becomes infinite, as in the type itself
        found = np.asarray(array, operand.type.dtype.numpy, order="C")
    if array.dtype.kind in "iu" and not (found.astype(np.longdouble) == array).all():
        raise ModelError(
            f"input {operand.name!r} must be {operand.type.dtype.value}, got integers in {array.dtype} that "
            "this does not hold exactly"
        )
    return found
