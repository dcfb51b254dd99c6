"""Random cases of quantised conv2d, depthwise_conv2d and fully_connected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpunn.kernel import Kernel
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.integer_checks import check_integer, integer_model
from tests.ops.quantized import quantized, stored

U8, I8 = DType.UINT8, DType.INT8
DTYPES = {"uint8": (U8, U8), "int8": (I8, I8), "int8 per channel": (I8, I8), "uint8 x int8": (U8, I8)}


def float32(value: float) -> float:
    """Return a scale as a file stores it."""
    return float(np.float32(value))


@dataclass
class Case:
    """One operation with random values, scales and zero points; `output` is the result's quantisation."""

    op: str
    kind: str
    x_shape: tuple[int, ...]
    w_shape: tuple[int, ...]
    seed: int = 0
    bias: bool = True
    spread: float = 1.0
    extreme: bool = False
    types: list[TensorType | None] = field(default_factory=list)
    inputs: list[Array | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        x_type, w_type = DTYPES[self.kind]
        axis = 3 if self.op == "depthwise_conv2d" else 0
        channels = self.w_shape[axis]
        terms = max(1, int(np.prod(self.w_shape)) // max(1, channels))
        x = quantized(x_type, self.x_shape, rng.uniform(0.001, 0.1), self.zero_point(rng, x_type))
        many = channels if self.kind == "int8 per channel" else 1
        scales = tuple(float32(s) for s in rng.uniform(0.001, 0.1, many))
        zero = self.zero_point(rng, w_type) if self.kind == "uint8" else 0
        w = TensorType(w_type, self.w_shape, Quantization(scales, (zero,) * many, axis if many > 1 else 0))
        assert x.quantization is not None
        steps = tuple(float32(x.quantization.scale[0] * s) for s in scales)
        bias = TensorType(DType.INT32, (channels,), Quantization(steps, (0,) * many))
        self.types = [x, w, bias if self.bias else None]
        values = [
            stored(self.seed + 1, x),
            stored(self.seed + 2, w),
            stored(self.seed + 3, bias, -9000, 9000),
        ]
        self.inputs = [*values[:2], values[2] if self.bias else None]
        scale = float32(np.mean(steps) * 60 * np.sqrt(terms) * self.spread)
        self.output = Quantization((scale,), (self.zero_point(rng, x_type),))

    def zero_point(self, rng: np.random.Generator, dtype: DType) -> int:
        """Return a zero point near the middle of the range, or at one of its ends."""
        low, high = LIMITS[dtype]
        return int(rng.choice([low, high]) if self.extreme else rng.integers(low + 110, high - 110))

    def centred(self) -> tuple[Array, Array, list[float]]:
        """Return input and filter minus their zero points, as int64, and the factors of their sums."""
        (x, w, _), (x_type, w_type, _) = self.inputs, self.types
        assert x is not None and w is not None and x_type is not None and w_type is not None
        assert x_type.quantization is not None and w_type.quantization is not None
        products = [x_type.quantization.scale[0] * s for s in w_type.quantization.scale]
        if x_type.dtype is U8:
            products = [float32(p) for p in products]
        factors = [p / self.output.scale[0] for p in products]
        zeros = x_type.quantization.zero_point[0], w_type.quantization.zero_point[0]
        return x.astype(np.int64) - zeros[0], w.astype(np.int64) - zeros[1], factors

    def check(self, backend: str, attrs: dict[str, Any], constants: tuple[int, ...] = (1, 2)) -> Array:
        """Return the backend's result; assert that it has the reference's bits."""
        (result,) = check_integer(
            self.op, self.inputs, self.types, attrs, self.output, constants, backend=backend
        )
        return result

    def kernels(self, attrs: dict[str, Any], constants: tuple[int, ...] = (1, 2)) -> list[Kernel]:
        """Return the operation's kernels."""
        model = integer_model(self.op, self.inputs, self.types, attrs, self.output, constants)
        with model.compile(backend="webgpu") as compiled:
            return [row.kernel for row in compiled.plan_rows()]

    def body(self, attrs: dict[str, Any], constants: tuple[int, ...] = (1, 2)) -> str:
        """Return the body of the operation's kernel."""
        return "".join(kernel.body for kernel in self.kernels(attrs, constants))


ATTRS: list[dict[str, Any]] = [
    {},
    {"padding": "same", "activation": "relu"},
    {"padding": "same", "stride": (2, 2), "activation": "relu6"},
    {"padding": "valid", "stride": (1, 2), "dilation": (2, 1), "activation": "relu1"},
    {"padding": ((1, 0), (2, 3)), "stride": (2, 1), "dilation": (1, 2)},
]
