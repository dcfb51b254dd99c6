"""Weights of .mlmodel files: float32, float16, quantised to 1 to 8 bits, and int8; all become float32."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from google.protobuf.unknown_fields import UnknownFieldSet

from gpunn.errors import FormatError
from gpunn.importers.coreml.chunks import Chunks, whole
from gpunn.importers.coreml.messages import Message
from gpunn.types import Array

_FIXED32 = 5  # wire type of a float that is not packed
_FLOATS = 1  # number of WeightParams.floatValue and of NeuralNetworkMeanImage.meanImage
_BYTES = ("float16Value", "rawValue", "int8RawValue")
Data = Array | bytes | memoryview
_LITTLE_FLOAT = np.dtype("<f4")
_LITTLE_HALF = np.dtype("<f2")


def packed_floats(message: Message, field: str, chunks: Chunks) -> Array:
    """Return the floats of a `packed` field as float32 [N]; `field` is number 1 of its message.

    Elements may be packed, in any number of chunks, or stand alone. Raises FormatError for chunks that are
    no whole number of floats, and for a mixture, whose order is lost.
    """
    parts = [whole(part, chunks) for part in getattr(message, field)]  # each access copies small ones
    alone = [f.data for f in UnknownFieldSet(message) if (f.field_number, f.wire_type) == (_FLOATS, _FIXED32)]
    if parts and alone:
        raise FormatError(f"{field} is partly packed")
    if any(len(part) % _LITTLE_FLOAT.itemsize for part in parts):
        raise FormatError(f"{field} has bytes that are no whole number of floats")
    if alone:
        return np.array(alone, "<u4").view(_LITTLE_FLOAT).astype(np.float32)
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return np.frombuffer(data, _LITTLE_FLOAT).astype(np.float32, copy=False)


def stored_count(message: Message, chunks: Chunks) -> int:
    """Return how many values a WeightParams message seems to hold, for those that may be one or many."""
    if message.floatValue:
        return sum(len(whole(part, chunks)) for part in message.floatValue) // _LITTLE_FLOAT.itemsize
    if message.float16Value:
        return len(whole(message.float16Value, chunks)) // _LITTLE_HALF.itemsize
    bits = message.quantization.numberOfBits or 8
    return 8 * len(whole(message.rawValue or message.int8RawValue, chunks)) // bits


def all_weights(message: Message, chunks: Chunks) -> Array:
    """Return all weights of a WeightParams message, as float32 [N].

    Of weights quantised to less than 8 bits these are as many as the bytes hold: up to 7 may be there in
    addition. Scales belong to equal parts. Otherwise as weights().
    """
    linear = message.quantization.linearQuantization
    if message.rawValue:
        data = whole(message.rawValue, chunks)
        count = 8 * len(data) // max(1, message.quantization.numberOfBits)
    else:
        sizes = {"floatValue": 1, "float16Value": 2, "int8RawValue": 1}
        count = next((len(v) // sizes[f] for f, v in _forms(message, chunks).items() if len(v)), 0)
    return weights(message, count, max(1, len(linear.scale), len(linear.bias)), chunks)


def weights(message: Message, count: int, rows: int, chunks: Chunks) -> Array:
    """Return the weights of a WeightParams message, as float32 [count].

    `rows` is the extent of the first stored axis, which scales may belong to. Raises FormatError unless there
    are exactly `count` of them, in one form.
    """
    stored = {field: value for field, value in _forms(message, chunks).items() if len(value)}
    if len(stored) > 1:
        _corrupt(f"are stored in several forms: {', '.join(stored)}")
    if not stored:
        found = np.zeros(0, np.float32)
    elif "floatValue" in stored:
        found = np.asarray(stored["floatValue"])
    elif "float16Value" in stored:
        found = _halves(stored["float16Value"])
    elif "int8RawValue" in stored:
        scale = np.array(message.quantization.linearQuantization.scale, np.float32)
        values = np.frombuffer(stored["int8RawValue"], np.int8)
        found = values * (_per_row(scale, rows, values.size, "scales") if scale.size else np.float32(1))
    else:
        found = _quantized(message.quantization, stored["rawValue"], count, rows)
    if found.size != count:
        _corrupt(f"have {found.size} values, expected {count}")
    return found


def _forms(message: Message, chunks: Chunks) -> dict[str, Data]:
    """Return the values of a message in all forms, as far as they are stored."""
    data = {field: whole(getattr(message, field), chunks) for field in _BYTES}
    return {"floatValue": packed_floats(message, "floatValue", chunks), **data}


def _halves(data: Data) -> Array:
    if len(data) % _LITTLE_HALF.itemsize:
        _corrupt("have bytes that are no whole number of float16")
    return np.frombuffer(data, _LITTLE_HALF).astype(np.float32)


def _quantized(quantization: Message, data: Data, count: int, rows: int) -> Array:
    """Return weights of a bit stream: each is an index into a table, or an integer with scale and bias."""
    bits = quantization.numberOfBits
    if not 1 <= bits <= 8:
        _corrupt(f"are quantised to {bits} bits, expected 1 to 8")
    if len(data) != -(-bits * count // 8):
        _corrupt(
            f"have {len(data)} bytes, expected {-(-bits * count // 8)} for {count} values of {bits} bits"
        )
    stored = _unpack(data, bits, count)
    kind = quantization.WhichOneof("QuantizationType")
    if kind == "lookupTableQuantization":
        table = np.array(quantization.lookupTableQuantization.floatValue, np.float32)
        if table.size != 1 << bits:
            _corrupt(f"have a table of {table.size} values, expected {1 << bits}")
        return table[stored]
    if kind != "linearQuantization":
        _corrupt("are quantised, but it is not said how")
    scale = np.array(quantization.linearQuantization.scale, np.float32)
    bias = np.array(quantization.linearQuantization.bias, np.float32)
    found = stored * _per_row(scale, rows, count, "scales")
    return found + _per_row(bias, rows, count, "biases") if bias.size else found


def _unpack(data: Data, bits: int, count: int) -> Array:
    """Return `count` integers of a stream of so many bits each, the highest bit first, as uint8."""
    if bits == 8:
        return np.frombuffer(data, np.uint8)
    stream = np.unpackbits(np.frombuffer(data, np.uint8))[: bits * count].reshape(count, bits)
    return np.packbits(stream, axis=1)[:, 0] >> (8 - bits)


def _per_row(values: Array, rows: int, count: int, what: str) -> Array:
    """Return one value, or one for each row repeated for all weights of the row, as float32."""
    if values.size == 1:
        return values
    if values.size != rows or rows == 0 or count % rows:
        _corrupt(f"have {values.size} {what}, expected 1 or {rows}")
    return np.repeat(values, count // rows)


def _corrupt(what: str) -> NoReturn:
    raise FormatError(f"weights {what}")
