"""Inputs of other shapes: models built anew for them, and arrays checked against what is open."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from gpunn.errors import GpunnError, ModelError, UnsupportedError
from gpunn.graph.complete import complete, stating
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.trained import changed_constants, with_changes
from gpunn.strings import as_strings
from gpunn.types import Array, DType, OpenShape, Shape

_PIXELS = (np.dtype(np.uint8), np.dtype(np.float64))  # what picture libraries give
_PICTURE_RANK = 3  # height, width, channels


def reshaped(model: Graph, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """Return the graph for inputs of these shapes, by name; see gpunn.Model.reshaped()."""
    if not isinstance(shapes, Mapping):
        raise ModelError(f"shapes must be a dict, by the names of inputs, got {shapes!r}")
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
    """Return the model for inputs of these shapes: its template completed, or its operations repeated.

    A model that was trained is completed from its file's template, and has the trained constants again.
    """
    source = model.trained_from
    if source is not None:
        with suppress(UnsupportedError):  # if it was changed otherwise, its operations are all that is known
            changes = changed_constants(source, model)
            made = _completed(source, shapes)
            trained = stating(with_changes(made, source, changes), model)
            trained.trained_from = made
            return trained
    return _completed(model, shapes)


def _completed(model: Graph, shapes: Sequence[Shape]) -> Graph:
    types = [i.type.with_shape(shape) for i, shape in zip(model.inputs, shapes, strict=True)]
    made = stating(complete(model.template or model, types), model)
    made.template = model.template
    return made


def as_input(operand: Operand, value: Any) -> Array:
    """Return `value` as a C-contiguous array for a model input.

    value: anything that numpy.asarray() takes. Extents that the input leaves open may be any. Another dtype
    is converted if no value changes by that; Python's numbers, alone or in lists, may be rounded to float32.
    None stands for the default of an input that has one, and an input that rounds takes any real numbers,
    a plain one if it has one element. Strings are taken as str and as bytes. Raises ModelError if dtype
    or shape do not fit, if there is no memory for the array, and for pictures of bytes or float64 where
    the input is of real numbers: these need the scaling that the model wants.
    """
    if _fits(operand, value):
        return np.asarray(value)
    try:
        return _as_input(operand, value)
    except MemoryError as error:
        raise ModelError(f"input {operand.name!r}: out of memory: {error}") from error


def by_name(model: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """Return values that are given by the names of inputs in the order of these, None for what has a default.

    Raises ModelError for names that are missing or unknown, and for inputs that cannot be told by their name.
    """
    names = [i.name for i in model.inputs]
    needed = {i.name for i in model.inputs if i.default is None}
    if len({*names}) < len(names) or not needed <= {*inputs} <= {*names}:
        raise ModelError(f"the model's inputs are {names}, got {[*inputs]}")
    return [inputs.get(name) for name in names]


def _fits(operand: Operand, value: Any) -> bool:
    """Tell whether a value is an array as the input wants it; most are, and need no further questions."""
    return (
        type(value) is np.ndarray
        and value.shape == operand.type.shape
        and value.dtype == operand.type.dtype.numpy
        and value.flags.c_contiguous
        and operand.type.dtype is not DType.STRING
    )


def _as_input(operand: Operand, value: Any) -> Array:
    if value is None and operand.default is not None:
        return np.full(operand.type.shape, operand.default, operand.type.dtype.numpy)
    name, wanted = operand.name, operand.open or OpenShape(operand.type.shape)
    if operand.type.dtype is DType.STRING:
        array = as_strings(value, f"input {name!r}")
    else:
        array = as_numbers(name, value)
    if operand.rounds and not array.shape and operand.type.size == 1:
        array = array.reshape(operand.type.shape)
    if not wanted.admits(array.shape):
        raise ModelError(f"input {name!r} must have shape {wanted}, got {list(array.shape)}")
    target = operand.type.dtype.numpy
    if array.dtype != target:
        array = _converted(operand, array, literal=isinstance(value, (int, float, list, tuple)))
    return np.asarray(array, target, order="C")


def as_numbers(name: str, value: Any) -> Array:
    """Return the value of an input as an array of any shape and dtype. Raises ModelError if it is none."""
    try:
        return np.asarray(value)
    except GpunnError:
        raise  # of a tensor on a device that is lost
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ) as error:  # a RuntimeError: a tensor of PyTorch with gradient
        raise ModelError(f"input {name!r} cannot be made an array: {error}") from None


def _converted(operand: Operand, array: Array, literal: bool) -> Array:
    """Return an array in the dtype of an input; `literal`: it was made of Python's numbers."""
    dtype, target = array.dtype, operand.type.dtype.numpy
    wrong = f"input {operand.name!r} must be {operand.type.dtype.value}, got {dtype}"
    numbers = "biufc" if target.kind == "c" else "biuf"
    if dtype.kind not in numbers or (dtype.kind == "b") != (target.kind == "b"):
        raise ModelError(wrong)
    pixels = dtype in _PIXELS and array.ndim >= _PICTURE_RANK and not literal
    if target.kind == "f" and pixels and not operand.rounds:
        raise ModelError(
            f"{wrong}; gpunn.vision.preprocess() scales a picture as a classifier wants it, "
            f"and astype({target.name!r}) converts other arrays"
        )
    with np.errstate(all="ignore"):
        found: Array = array.astype(target)
        back = found if target.kind == "c" else found.astype(dtype)
    fits = literal and np.array_equal(np.isfinite(found), np.isfinite(array))
    if target.kind in "fc" and dtype.kind in "fc" and (fits or operand.rounds):
        return found
    if not np.array_equal(back, array, equal_nan=dtype.kind in "fc"):
        raise ModelError(f"{wrong}, whose values it cannot hold")
    return found
