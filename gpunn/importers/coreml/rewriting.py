"""An .mlmodel file with the constants of a graph.

Rules transpose weights, put them together and divide them. So the file is read again with numbers in the
place of weights, which say where each element went.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np

from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.trained import Changed, changed_constants
from gpunn.importers.common.rewriting import read_alike
from gpunn.importers.coreml.chunks import NO_CHUNKS
from gpunn.importers.coreml.file import model_of, networks_in
from gpunn.importers.coreml.messages import Message, model_class
from gpunn.importers.coreml.model_file import read_model
from gpunn.importers.coreml.weights import all_weights
from gpunn.types import Array

_LAYER = re.compile(r"[^:]*: layer (\d+) ")
_DIGIT = 4096  # elements are numbered in two digits, each of which float32 holds exactly
_FILE = "model"  # as which a file is read again
_LARGEST_HALF = float(np.finfo(np.float16).max)
_CONSTANTS = ("loadConstant", "loadConstantND")  # layers without operations
_FORMS = {"floatValue": "<f4", "float16Value": "<f2"}  # that are written


def with_constants(data: bytes, name: str, options: Mapping[str, Any], graph: Graph) -> bytes:
    """Return an .mlmodel file in which weights have the values of a graph's constants, float32 or float16.

    The graph is of the same file. Values for float16 weights are rounded to the nearest. All else of the file
    stays, as far as fields are concerned. Raises UnsupportedError if a constant is stored in another form or
    does not consist of weights, for values that are too large for float16, and if the graph has other
    operations.
    """
    message = model_class().FromString(data)
    changes = changed_constants(_read(message, options, graph), graph)
    stored = [_Stored.of(m) for layer in _layers(name, message, changes) for m in _weights_in(layer)]
    starts = [0, *accumulate(s.values.size for s in stored)]
    old = np.concatenate([np.zeros(0, np.float32), *(s.values for s in stored)])
    numbers = np.zeros(old.size, np.int64) + np.arange(old.size)
    digits = []
    for digit in (numbers % _DIGIT, numbers // _DIGIT):
        for start, weights in zip(starts, stored, strict=False):
            weights.put(digit[start : start + weights.values.size], "floatValue")
        digits.append(_read(message, options, graph))
    new = old.copy()
    for change in changes:
        low, high = (_constant(read, change) for read in digits)
        _put(name, change, low + _DIGIT * high, old, new)
    for start, weights in zip(starts, stored, strict=False):
        values = new[start : start + weights.values.size]
        large = (values != weights.values) & (np.abs(values) > _LARGEST_HALF)
        if weights.form == "float16Value" and large.any():
            raise UnsupportedError(f"{name}: weights that the file has as float16 are now too large for it")
        weights.put(values, weights.form)
    return bytes(message.SerializeToString(deterministic=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """A WeightParams message, with its values and the form in which they were stored."""

    message: Message
    values: Array
    form: str

    @classmethod
    def of(cls, message: Message) -> _Stored:
        form = "float16Value" if message.float16Value else "floatValue"
        return cls(message, all_weights(message, NO_CHUNKS), form)

    def put(self, values: Array, form: str) -> None:
        """Store other values."""
        self.message.DiscardUnknownFields()  # floats that are not packed
        for field in _FORMS:
            self.message.ClearField(field)
        stored = values.astype(_FORMS[form]).tobytes()
        if form == "floatValue":
            self.message.floatValue.append(stored)
        else:
            self.message.float16Value = stored


def _read(message: Message, options: Mapping[str, Any], graph: Graph) -> Graph:
    """Return the graph of a file's message, for inputs of the types that another graph has."""
    made = read_model(message.SerializeToString(), _FILE, options["limits"], options["custom"] or {})
    assert made.template is not None
    return read_alike(made.template, graph)


def layer_number(origin: str) -> int | None:
    """Return the number of the layer of a network that operations of an origin come from; None for none."""
    match = _LAYER.match(origin)
    return None if match is None else int(match[1])


def _layers(name: str, message: Message, changes: Iterable[Changed]) -> list[Message]:
    """Return the layers of a file that read changed constants, or that are these, in their order.

    An operation's origin begins with the place of its layer, or of the layer that this one is within.
    """
    places = {
        f"{_FILE}: {network.within('')}layer {number} ": layer
        for network in networks_in(model_of(message, _FILE, NO_CHUNKS))
        for number, layer in enumerate(network.message.layers)
    }
    constants = {place: layer for place, layer in places.items() if layer.WhichOneof("layer") in _CONSTANTS}
    found: set[str] = set()
    for change in changes:
        alike = [place for place, layer in constants.items() if _has_value(layer, change.operand.value)]
        reader = [p for p in places if change.operation.origin.startswith(p)][:1]
        if not alike and not reader:
            _fail(name, change, "no layer of the file has it")
        found.update(alike, reader)
    return [layer for place, layer in places.items() if place in found]


def _has_value(layer: Message, value: Array | None) -> bool:
    """Tell whether the weights of a layer are the elements of an array, in their order."""
    stored = (all_weights(message, NO_CHUNKS) for message in _weights_in(layer))
    return value is not None and any(np.array_equal(s, value.ravel(), equal_nan=True) for s in stored)


def _weights_in(message: Message) -> Iterator[Message]:
    """Yield the float32 and float16 weights in a message and in those in it."""
    if message.DESCRIPTOR.name == "WeightParams":
        if not (message.HasField("quantization") or message.rawValue or message.int8RawValue):
            yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if not hasattr(value, "DESCRIPTOR") else (value,):
                yield from _weights_in(inner)


def _constant(read: Graph, change: Changed) -> Array:
    """Return what a graph that was read of other weights has in the place of a changed constant."""
    operand = read.operations[change.number].inputs[change.index]
    assert operand is not None
    return np.zeros(0) if operand.value is None else operand.value.astype(np.float64)


def _put(name: str, change: Changed, numbers: Array, old: Array, new: Array) -> None:
    """Put a changed constant into the weights, whose elements with these numbers it consists of."""
    was, value = change.operand.value, change.value
    places = numbers.astype(np.int64)
    fits = was is not None and places.shape == was.shape and np.array_equal(places, numbers)
    fits = fits and bool(np.all((places >= 0) & (places < old.size)))
    if was is None or not fits or not np.array_equal(old[places], was, equal_nan=True):
        _fail(name, change, "the file has it quantised, or gpunn computes with it in another form")
    new[places] = value
    if not np.array_equal(new[places], value, equal_nan=True):
        _fail(name, change, "it has elements of the file several times")


def _fail(name: str, change: Changed, why: str) -> NoReturn:
    what = f"{change.operand.name!r}, which {change.operation.op} ({change.operation.origin}) reads"
    raise UnsupportedError(f"{name}: {what}, cannot be written back: {why}")
