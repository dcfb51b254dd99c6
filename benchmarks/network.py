"""A float32 network in the making, with random weights, as a .tflite file.

The weights are normal, with a deviation of sqrt(gain / terms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpunn.types import Array, float32
from tests.tflite_builder import Graph

SEED = 0

Triple = tuple[int, int, int]


class Network:
    """A network in the making; tensors are numbers, as in the file."""

    def __init__(self, *shape: int, gain: float = 2.0) -> None:
        self.graph, self.rng, self.gain = Graph(), np.random.default_rng(SEED), gain
        self.input = self.graph.input(float32(*shape), "input")

    def shape(self, x: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.graph.tensors[x].type.shape

    def add(self, operator: str, inputs: Sequence[int], *shape: int, **options: object) -> int:
        """Append an operator with one result of that shape."""
        (result,) = self.graph.add(operator, inputs, [float32(*shape)], options)
        return result

    def weights(self, *shape: int, terms: int) -> int:
        """Add random weights of sums of so many terms."""
        deviation = math.sqrt(self.gain / terms)
        return self.graph.constant((self.rng.standard_normal(shape) * deviation).astype(np.float32))

    def constant(self, value: float | Sequence[int]) -> int:
        """Add a float32 number, or int32 numbers."""
        kept: Array = np.float32(value) if isinstance(value, float) else np.array(value, np.int32)
        return self.graph.constant(kept)

    def conv(self, x: int, channels: int, size: int = 1, stride: int = 1, activation: str = "NONE") -> int:
        """Convolve, SAME."""
        batch, height, width, depth = self.shape(x)
        filter = self.weights(channels, size, size, depth, terms=size * size * depth)
        options = {"stride_w": stride, "stride_h": stride, "fused_activation_function": activation}
        places = -(-height // stride), -(-width // stride)
        inputs = [x, filter, self._zeros(channels)]
        return self.add("CONV_2D", inputs, batch, *places, channels, padding="SAME", **options)

    def conv3d(
        self, x: int, channels: int, size: Triple, stride: Triple = (1, 1, 1), activation: str = "NONE"
    ) -> int:
        """Convolve over depth, height and width, SAME."""
        batch, *extents, depth = self.shape(x)
        filter = self.weights(*size, depth, channels, terms=math.prod(size) * depth)
        options = dict(zip(("stride_d", "stride_h", "stride_w"), stride, strict=True))
        places = (-(-extent // step) for extent, step in zip(extents, stride, strict=True))
        inputs, given = [x, filter, self._zeros(channels)], {"fused_activation_function": activation}
        return self.add("CONV_3D", inputs, batch, *places, channels, padding="SAME", **options, **given)

    def depthwise(self, x: int, size: int, stride: int = 1, activation: str = "NONE") -> int:
        """Convolve each channel, SAME."""
        batch, height, width, depth = self.shape(x)
        filter = self.weights(1, size, size, depth, terms=size * size)
        options = {"stride_w": stride, "stride_h": stride, "fused_activation_function": activation}
        places = -(-height // stride), -(-width // stride)
        inputs = [x, filter, self._zeros(depth)]
        shape = batch, *places, depth
        return self.add("DEPTHWISE_CONV_2D", inputs, *shape, padding="SAME", depth_multiplier=1, **options)

    def dense(self, x: int, units: int) -> int:
        """Multiply rows with a matrix."""
        *rows, depth = self.shape(x)
        inputs = [x, self.weights(units, depth, terms=2 * depth), self._zeros(units)]
        return self.add("FULLY_CONNECTED", inputs, *rows, units, keep_num_dims=True)

    def pair(self, operator: str, a: int, b: int, **options: object) -> int:
        """Append a function of two tensors, of which the first has the result's shape."""
        return self.add(operator, [a, b], *self.shape(a), **options)

    def function(self, operator: str, x: int, **options: object) -> int:
        """Append a function of one tensor."""
        return self.add(operator, [x], *self.shape(x), **options)

    def mean(self, x: int, axes: Sequence[int], *, keep: bool = True) -> int:
        """Average over axes."""
        extents = enumerate(self.shape(x))
        shape = [1 if k in axes else n for k, n in extents if keep or k not in axes]
        return self.add("MEAN", [x, self.constant(axes)], *shape, keep_dims=keep)

    def max_pool(self, x: int, size: int) -> int:
        """Take the maximum of windows with a stride of 2, SAME."""
        return self._pool("MAX_POOL_2D", x, size)

    def average_pool(self, x: int, size: int) -> int:
        """Average over windows with a stride of 2, SAME."""
        return self._pool("AVERAGE_POOL_2D", x, size)

    def reshape(self, x: int, *shape: int) -> int:
        """Give a tensor another shape."""
        return self.add("RESHAPE", [x, self.constant(shape)], *shape, new_shape=shape)

    def transpose(self, x: int, *order: int) -> int:
        """Reorder axes."""
        shape = self.shape(x)
        return self.add("TRANSPOSE", [x, self.constant(order)], *(shape[k] for k in order))

    def classes(self, x: int, count: int = 1000) -> bytes:
        """End with an average over all places, a matrix, and softmax; return the file."""
        places = range(1, len(self.shape(x)) - 1)
        scores = self.dense(self.mean(x, tuple(places), keep=False), count)
        return self.file(self.function("SOFTMAX", scores, beta=1.0))

    def file(self, result: int) -> bytes:
        """Return the file, with a signature, which quantizers ask for; its inputs are in0, in1..."""
        return self.graph.build([result], signature="serving_default")

    def _pool(self, operator: str, x: int, size: int) -> int:
        batch, height, width, depth = self.shape(x)
        options = {"filter_width": size, "filter_height": size, "stride_w": 2, "stride_h": 2}
        shape = batch, -(-height // 2), -(-width // 2), depth
        return self.add(operator, [x], *shape, padding="SAME", **options)

    def _zeros(self, count: int) -> int:
        return self.graph.constant(np.zeros(count, np.float32))
