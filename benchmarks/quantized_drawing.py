"""A random quantised layer in the making: a file with one operator, with inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.quantized import stored
from tests.tflite_builder import Graph

I32 = DType.INT32


@dataclass(frozen=True)
class Layer:
    """A file with one operator, and the values of its inputs, run by run."""

    file: bytes
    frames: Sequence[Sequence[Array]]


class Drawing:
    """A file with one operator in the making: tensors of random scales, in one element type.

    bias: the element type of a bias beside int16; beside 8 bits it is int32. zero: the zero point of all
    tensors of 8 bits; None: each has one of its own.
    """

    def __init__(self, rng: np.random.Generator, dtype: DType, bias: DType = DType.INT64) -> None:
        self.rng, self.dtype, self.bias = rng, dtype, bias
        self.zero: int | None = None
        self.graph, self.numbers = Graph(), list[int]()
        self.inputs, self.values = list[TensorType](), list[Array]()

    @property
    def bias_options(self) -> dict[str, str]:
        """Return what options of convolutions say of a bias."""
        short = self.dtype is DType.INT16 and self.bias is I32
        return {"quantized_bias_type": "INT32"} if short else {}

    def between(self, low: int, high: int) -> int:
        """Draw a number, ends included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def type(self, *shape: int, about: float = 0.05, dtype: DType | None = None) -> TensorType:
        """Draw a scale, up to four times smaller or larger than `about`, and a zero point; 0 for int16."""
        dtype = dtype or self.dtype
        limits = np.iinfo(dtype.numpy)
        if dtype is DType.INT16:
            zero = 0
        else:
            zero = self.between(limits.min, limits.max) if self.zero is None else self.zero
        scale = float(np.float32(about * 2.0 ** self.rng.uniform(-2, 2)))
        return TensorType(dtype, shape, Quantization((scale,), (zero,)))

    def fill(self, type: TensorType) -> Array:
        """Draw stored values."""
        return stored(self.between(0, 2**31), type)

    def input(self, *shape: int, like: TensorType | None = None) -> TensorType:
        """Add an input of the operator."""
        type = self.type(*shape) if like is None else like.with_shape(shape)
        self.numbers.append(self.graph.input(type))
        self.inputs.append(type)
        self.values.append(self.fill(type))
        return type

    def constant(self, value: Array) -> None:
        """Add a constant input without scale."""
        self.numbers.append(self.graph.constant(value))

    def filter(self, x: TensorType, *shape: int, axis: int = 0, channels: bool = True) -> float:
        """Add a filter and a bias for an input; return the scale of the largest products.

        channels: int8 has a scale for each channel.
        """
        assert x.quantization is not None
        count = shape[axis]
        if self.dtype is DType.UINT8:
            kind = self.type(*shape, about=0.02)
        else:
            number = count if channels else 1
            scales = tuple(float(np.float32(v)) for v in 0.02 * 2.0 ** self.rng.uniform(-2, 2, number))
            kind = TensorType(DType.INT8, shape, Quantization(scales, (0,) * number, axis))
        self.numbers.append(self.graph.tensor(kind, data=self.fill(kind).tobytes()))
        assert kind.quantization is not None
        steps = tuple(float(np.float32(x.quantization.scale[0] * s)) for s in kind.quantization.scale)
        wide = self.dtype is DType.INT16
        bias = TensorType(self.bias if wide else I32, (count,), Quantization(steps, (0,) * len(steps)))
        values = self.rng.integers(-5000, 5000, count).astype(bias.dtype.numpy)
        self.numbers.append(self.graph.tensor(bias, data=values.tobytes()))
        return max(steps)

    def sums(self, shape: Sequence[int], step: float, terms: int) -> TensorType:
        """Draw the type of sums of so many products in such steps: random values take most of its range."""
        return self.type(*shape, about=90 * step * math.sqrt(terms))

    def layer(
        self,
        operator: str,
        y: TensorType,
        options: Mapping[str, Any],
        version: int = 1,
        *,
        more: Sequence[TensorType] = (),
        intermediates: Sequence[int] = (),
        runs: int = 1,
    ) -> Layer:
        """Return the layer, with inputs for so many runs.

        more: types of the results after the first one, which are no outputs of the file.
        """
        made = self.graph.add(
            operator, self.numbers, [y, *more], options, version=version, intermediates=intermediates
        )
        later = [[self.fill(type) for type in self.inputs] for _ in range(runs - 1)]
        return Layer(self.graph.build(made[:1]), [self.values, *later])
