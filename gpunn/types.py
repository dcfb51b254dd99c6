"""The type of a tensor: element type, shape, quantisation."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpunn.errors import ModelError

MAX_RANK = 64 if int(np.__version__.split(".")[0]) >= 2 else 32  # of numpy's arrays
MAX_ELEMENTS = 2**31 - 1  # of one tensor: shaders count elements in 32 bits
MAX_EXTENTS = 2**56  # what the extents of an empty tensor that are not 0 may multiply to: numpy counts bytes

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


class DType(enum.Enum):
    """Element type of a tensor; the value is numpy's name for it, if numpy has one.

    float16 is a storage type: operations compute in float32 and round to nearest, ties to even, when they
    store a result. Numbers from 65520 on become infinite. complex64 is two float32, the real part first.
    """

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT32 = "int32"
    INT64 = "int64"
    INT16 = "int16"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool"
    COMPLEX64 = "complex64"
    STRING = "string"

    def __init__(self, name: str) -> None:
        """Take numpy's name; note the numpy dtype, for strings that of bytes objects, and the bytes of an
        element on the host, for strings those of the reference to one.
        """
        self.numpy: np.dtype[Any] = np.dtype(object if name == "string" else name)
        self.itemsize = self.numpy.itemsize

    @classmethod
    def of(cls, dtype: npt.DTypeLike) -> DType:
        """Return the DType of a numpy dtype; raise ModelError for a dtype that tensors cannot have."""
        found = np.dtype(dtype)
        try:
            return _of(found)
        except ValueError:
            known = ", ".join(d.value for d in cls)
            raise ModelError(f"there are no tensors of {found.name}, only of {known}") from None


@cache
def _of(dtype: np.dtype[Any]) -> DType:
    return DType.STRING if dtype.name == "object" else DType(dtype.name)


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantisation: real = scale * (stored - zero_point), per tensor or along `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0

    @property
    def per_tensor(self) -> bool:
        """Tell whether all elements have the same scale."""
        return len(self.scale) == 1

    def __str__(self) -> str:
        """Describe the quantisation for messages, in a short form even with many scales."""
        if len(self.scale) == len(self.zero_point) == 1:
            return f"scale {self.scale[0]} and zero point {self.zero_point[0]}"
        return f"{len(self.scale)} scales and {len(self.zero_point)} zero points along axis {self.axis}"


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type, shape (all dimensions known, each >= 0) and quantisation of a tensor."""

    dtype: DType
    shape: Shape
    quantization: Quantization | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the dense array on the host."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> TensorType:
        """Return the same type with another shape."""
        return TensorType(self.dtype, shape, self.quantization)

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class OpenShape:
    """A shape with extents that are known only when a model runs: these are None.

    If `extents` itself is None, the number of extents is unknown too.
    """

    extents: tuple[int | None, ...] | None

    def admits(self, shape: Shape) -> bool:
        """Tell whether `shape` agrees with every known extent."""
        if self.extents is None:
            return True
        return len(shape) == len(self.extents) and all(
            known in (None, extent) for known, extent in zip(self.extents, shape, strict=True)
        )

    @property
    def is_open(self) -> bool:
        """Tell whether any extent is open."""
        return self.extents is None or None in self.extents

    def axes(self, shape: Shape) -> tuple[int, ...]:
        """Return the axes that are open in a tensor of `shape`; none if it has another rank."""
        if self.extents is None or len(self.extents) != len(shape):
            return ()
        return tuple(axis for axis, known in enumerate(self.extents) if known is None)

    def __str__(self) -> str:
        if self.extents is None:
            return "[...]"
        return f"[{', '.join('?' if e is None else str(e) for e in self.extents)}]"


class Tensor(Protocol):
    """A tensor, whatever holds or computes it."""

    @property
    def type(self) -> TensorType: ...


def float32(*shape: int) -> TensorType:
    """Make a float32 TensorType."""
    return TensorType(DType.FLOAT32, shape)


def bounded(name: str, type: TensorType) -> TensorType:
    """Return the type; raise ModelError if it exceeds the largest possible tensor."""
    size = type.size
    if 0 < size <= MAX_ELEMENTS and type.rank <= MAX_RANK and min(type.shape, default=1) > 0:
        return type
    if any(d < 0 for d in type.shape):
        raise ModelError(f"tensor {name!r} has a negative dimension: {list(type.shape)}")
    if type.rank > MAX_RANK:
        raise ModelError(f"tensor {name!r} has {type.rank} dimensions, at most {MAX_RANK} are possible")
    if size > MAX_ELEMENTS or any(d > MAX_ELEMENTS for d in type.shape):
        raise ModelError(f"tensor {name!r} has {size} elements, at most {MAX_ELEMENTS} can be addressed")
    if math.prod(d or 1 for d in type.shape) > MAX_EXTENTS:
        raise ModelError(f"tensor {name!r} is empty, but around that too large: {list(type.shape)}")
    return type
