"""The content of a TFLite file's buffer for a constant: plain, sparse, small integers, strings."""

from __future__ import annotations

import numpy as np

from gpunn.importers.tflite import strings as tflite_strings
from gpunn.importers.tflite.sparse import Sparsity, dense
from gpunn.types import Array, DType, TensorType


def values_of(type: TensorType, data: Array, bits: int = 0, sparsity: Sparsity | None = None) -> Array:
    """Return the value of a type in the bytes of a buffer, of which plain ones are a view.

    A bool is true for every byte but 0; numpy knows only 0 and 1. bits: of an element, where several share a
    byte. Raises ValueError where the bytes are not those of such a value.
    """
    if type.dtype is DType.STRING:
        return tflite_strings.decode(data, type.size).reshape(type.shape)
    if bits:
        data = _unpacked(data, bits, type.size)
    if type.dtype is DType.BOOL and (data > 1).any():
        data = (data != 0).view(np.uint8)
    values = data.view(type.dtype.numpy.newbyteorder("<")) if data.size % type.dtype.itemsize == 0 else None
    if values is not None and sparsity is not None:
        return dense(sparsity, type.shape, values)
    if values is None or values.size != type.size:
        raise ValueError(f"{type} takes {type.nbytes} bytes, got {data.size}")
    return values.reshape(type.shape)


def _unpacked(data: Array, bits: int, count: int) -> Array:
    """Return `count` signed integers of so many bits each, the lowest first, as the bytes of as many int8.

    LiteRT, tensor_utils, UnpackPackedIntToInt8.
    """
    each, half = 8 // bits, 1 << (bits - 1)
    if len(data) != -(-count // each):
        raise ValueError(f"{count} integers of {bits} bits do not fill {len(data)} bytes")
    parts = data[:, None] >> np.array(range(0, 8, bits), np.uint8)
    signed = ((parts & (2 * half - 1)) ^ half).astype(np.int8) - np.int8(half)
    return signed.reshape(-1)[:count].view(np.uint8)
