"""Weights of .mlmodel files: float32, float16, quantised to 1 to 8 bits, and int8; all become float32."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from google.protobuf.unknown_fields import UnknownFieldSet

from gpunn.errors import FormatError
from gpunn.importers.coreml.messages import Message
from gpunn.types import Array

_FIXED32 = 5  # wire type of a float that is not packed
_FLOATS = 1  # number of WeightParams.floatValue and of NeuralNetworkMeanImage.meanImage
_STORED = ("floatValue", "float16Value", "rawValue", "int8RawValue")
_LITTLE_FLOAT = np.dtype("<f4")
_LITTLE_HALF = np.dtype("<f2")


def packed_floats(message: Message, field: str) -> Array:
    """Return the floats of a `packed` field as float32 [N]; `field` is number 1 of its message.

    Elements may be packed, in any number of chunks, or stand alone. Raises FormatError for chunks that are
    no whole number of floats, and for a mixture, whose order is lost.
    """
    chunks = list(getattr(message, field))  # each access copies them
    alone = [f.data for f in UnknownFieldSet(message) if (f.field_number, f.wire_type) == (_FLOATS, _FIXED32)]
    if chunks and alone:
        raise FormatError(f"{field} is partly packed")
    if any(len(chunk) % _LITTLE_FLOAT.itemsize for chunk in chunks):
        raise FormatError(f"{field} has bytes that are no whole number of floats")
    if alone:
        return np.array(alone, "<u4").view(_LITTLE_FLOAT).astype(np.float32)
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    return np.frombuffer(data, _LITTLE_FLOAT).astype(np.float32, copy=False)


def is_stored(message: Message) -> bool:
    """Tell whether a message has any weights."""
    return any(map(len, _forms(message).values()))


def all_weights(message: Message) -> Array:
    """Return all weights of a WeightParams message, as float32 [N].

    Of weights quantised to less than 8 bits these are as many as the bytes hold: up to 7 may be there in
    addition. Scales belong to equal parts. Otherwise as weights().
    """
    linear = message.quantization.linearQuantization
    if message.rawValue:
        count = 8 * len(message.rawValue) // max(1, message.quantization.numberOfBits)
    else:
        sizes = {"floatValue": 1, "float16Value": 2, "int8RawValue": 1}
        count = next((len(v) // sizes[f] for f, v in _forms(message).items() if len(v)), 0)
    return weights(message, count, max(1, len(linear.scale), len(linear.bias)))


def weights(message: Message, count: int, rows: int) -> Array:
    """Return the weights of a WeightParams message, as float32 [count].

    `rows` is the extent of the first stored axis, which scales may belong to. Raises FormatError unless there
    are exactly `count` of them, in one form.
    """
    stored = {field: value for field, value in _forms(message).items() if len(value)}
    if len(stored) > 1:
        _corrupt(f"are stored in several forms: {', '.join(stored)}")
    if not stored:
        found = np.zeros(0, np.float32)
    elif "floatValue" in stored:
        found = np.asarray(stored["floatValue"])
    elif "float16Value" in stored:
        found = _halves(message.float16Value)
    elif "int8RawValue" in stored:
        scale = np.array(message.quantization.linearQuantization.scale, np.float32)
        values = np.frombuffer(message.int8RawValue, np.int8)
        found = values * (_per_row(scale, rows, values.size, "scales") if scale.size else np.float32(1))
    else:
        found = _quantized(message, count, rows)
    if found.size != count:
        _corrupt(f"have {found.size} values, expected {count}")
    return found


def _forms(message: Message) -> dict[str, Array | bytes]:
    """Return the values of a message in all forms, as far as they are stored."""
    return {f: packed_floats(message, f) if f == "floatValue" else getattr(message, f) for f in _STORED}


def _halves(data: bytes) -> Array:
    if len(data) % _LITTLE_HALF.itemsize:
        _corrupt("have bytes that are no whole number of float16")
    return np.frombuffer(data, _LITTLE_HALF).astype(np.float32)


def _quantized(message: Message, count: int, rows: int) -> Array:
    """Return weights of a bit stream: each is an index into a table, or an integer with scale and bias."""
    quantization, data = message.quantization, message.rawValue
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


def _unpack(data: bytes, bits: int, count: int) -> Array:
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
