"""Random quantised layers: a file with one operator, of random shapes, scales and zero points, with inputs.

benchmarks/quantized_sweep.py compares what gpunn and LiteRT make of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tflite

from benchmarks.quantized_drawing import I32, Drawing, Layer
from benchmarks.quantized_states import STATES
from gpunn.types import DType, Quantization, TensorType

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
MODES: tuple[Mapping[str, Any], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})
Draw = Callable[[Drawing], Layer]


def _window(drawing: Drawing, *size: int) -> tuple[dict[str, Any], list[int]]:
    """Draw options of a window over an image, and the extents of the result."""
    stride, same = drawing.between(1, 2), bool(drawing.between(0, 1))
    options = {
        "padding": "SAME" if same else "VALID",
        "stride_w": stride,
        "stride_h": stride,
        "fused_activation_function": str(drawing.rng.choice(ACTIVATIONS)),
    }
    return options, [-(-(n if same else n - k + 1) // stride) for n, k in zip(IMAGE, size, strict=True)]


IMAGE = (24, 20)


def conv2d(drawing: Drawing) -> Layer:
    """Draw CONV_2D."""
    depth, channels, size = drawing.between(1, 9), drawing.between(1, 40), drawing.between(1, 3)
    options, extents = _window(drawing, size, size)
    x = drawing.input(1, *IMAGE, depth)
    step = drawing.filter(x, channels, size, size, depth, channels=bool(drawing.between(0, 1)))
    y = drawing.sums((1, *extents, channels), step, depth * size * size)
    return drawing.layer("CONV_2D", y, {**options, **drawing.bias_options}, 3)


def depthwise(drawing: Drawing) -> Layer:
    """Draw DEPTHWISE_CONV_2D."""
    depth, multiplier, size = drawing.between(1, 20), drawing.between(1, 2), drawing.between(1, 3)
    options, extents = _window(drawing, size, size)
    x, channels = drawing.input(1, *IMAGE, depth), depth * multiplier
    step = drawing.filter(x, 1, size, size, channels, axis=3)
    y = drawing.sums((1, *extents, channels), step, size * size)
    return drawing.layer("DEPTHWISE_CONV_2D", y, {**options, "depth_multiplier": multiplier}, 3)


def transpose_conv(drawing: Drawing) -> Layer:
    """Draw TRANSPOSE_CONV."""
    depth, channels, size, stride = (drawing.between(1, most) for most in (9, 40, 4, 2))
    same = bool(drawing.between(0, 1))
    extents = [n * stride if same else (n - 1) * stride + size for n in (12, 10)]
    drawing.constant(np.array([1, *extents, channels], np.int32))
    x = drawing.input(1, 12, 10, depth)
    step = drawing.filter(x, channels, size, size, depth)
    shape, image, filter, bias = drawing.numbers
    drawing.numbers[:] = [shape, filter, image, bias]
    y = drawing.sums((1, *extents, channels), step, max(1, depth * size * size // stride**2))
    options = {"padding": "SAME" if same else "VALID", "stride_w": stride, "stride_h": stride}
    return drawing.layer("TRANSPOSE_CONV", y, {**options, **drawing.bias_options}, 3)


def fully_connected(drawing: Drawing) -> Layer:
    """Draw FULLY_CONNECTED."""
    rows, depth, channels = drawing.between(1, 60), drawing.between(1, 90), drawing.between(1, 200)
    x = drawing.input(rows, depth)
    step = drawing.filter(x, channels, depth, channels=False)
    y = drawing.sums((rows, channels), step, depth)
    options = {"fused_activation_function": str(drawing.rng.choice(ACTIVATIONS))}
    return drawing.layer("FULLY_CONNECTED", y, options, 4)


def shuffled(drawing: Drawing) -> Layer:
    """Draw FULLY_CONNECTED with shuffled weights, of which random ones need no order: uint8 to int16."""
    rows, depth, units = (
        int(drawing.rng.choice([1, 4])),
        16 * drawing.between(1, 4),
        4 * drawing.between(1, 50),
    )
    drawing.zero = 128
    x = drawing.input(rows, depth)
    step = drawing.filter(x, units, depth)
    y = drawing.type(rows, units, about=step * math.sqrt(depth), dtype=DType.INT16)
    options = {"weights_format": tflite.FullyConnectedOptionsWeightsFormat.SHUFFLED4x16INT8}
    return drawing.layer("FULLY_CONNECTED", y, options, 2, more=[x])


def batch_matmul(drawing: Drawing) -> Layer:
    """Draw BATCH_MATMUL."""
    rows, depth, columns = (drawing.between(1, 60) for _ in range(3))
    a, b = drawing.input(2, rows, depth), drawing.input(2, depth, columns)
    assert a.quantization is not None
    assert b.quantization is not None
    y = drawing.sums((2, rows, columns), a.quantization.scale[0] * b.quantization.scale[0], depth)
    return drawing.layer("BATCH_MATMUL", y, {}, 2)


def pool(operator: str) -> Draw:
    """Return what draws a pool."""

    def draw(drawing: Drawing) -> Layer:
        size = drawing.between(1, 5), drawing.between(1, 5)
        options, extents = _window(drawing, *size)
        channels = drawing.between(1, 40)
        x = drawing.input(2, *IMAGE, channels)
        window = {"filter_height": size[0], "filter_width": size[1]}
        return drawing.layer(operator, x.with_shape((2, *extents, channels)), {**options, **window}, 3)

    return draw


def unary(operator: str, options: Mapping[str, Any], version: int) -> Draw:
    """Return what draws a function of one tensor."""

    def draw(drawing: Drawing) -> Layer:
        drawing.input(drawing.between(3000, 6000))
        y = drawing.type(*drawing.values[0].shape)
        return drawing.layer(operator, y, options, version)

    return draw


def pair(operator: str, about: float, *, alike: bool = False) -> Draw:
    """Return what draws a function of two tensors; `alike`: all have one quantisation."""

    def draw(drawing: Drawing) -> Layer:
        x = drawing.input(drawing.between(3000, 6000))
        drawing.input(*x.shape, like=x if alike else None)
        y = x if alike else drawing.type(*x.shape, about=about)
        return drawing.layer(operator, y, {}, 2)

    return draw


def leaky_relu(drawing: Drawing) -> Layer:
    """Draw LEAKY_RELU."""
    return unary("LEAKY_RELU", {"alpha": float(drawing.rng.uniform(0, 2))}, 2)(drawing)


def comparison(operator: str) -> Draw:
    """Return what draws a comparison."""

    def draw(drawing: Drawing) -> Layer:
        x = drawing.input(drawing.between(3000, 6000))
        drawing.input(*x.shape, like=x if x.dtype is DType.INT16 else None)  # LiteRT ignores scales of int16
        return drawing.layer(operator, TensorType(DType.BOOL, x.shape), {}, 2)

    return draw


def reduction(operator: str, axes: Sequence[int], keep: bool, *, same: bool = False) -> Draw:
    """Return what draws a reduction; `same`: the result has the input's quantisation."""

    def draw(drawing: Drawing) -> Layer:
        shape = [drawing.between(1, 12) for _ in range(3)] + [drawing.between(1, 70)]
        x = drawing.input(*shape)
        drawing.constant(np.array(axes, np.int32))
        kept = [1 if k in axes else n for k, n in enumerate(shape)]
        rest = kept if keep else [n for k, n in enumerate(shape) if k not in axes]
        y = x.with_shape(tuple(rest)) if same else drawing.type(*rest)
        return drawing.layer(operator, y, {"keep_dims": keep}, 2)

    return draw


def l2_normalization(drawing: Drawing) -> Layer:
    """Draw L2_NORMALIZATION."""
    x = drawing.input(60, drawing.between(1, 100))
    zero = 128 if x.dtype is DType.UINT8 else 0
    y = TensorType(x.dtype, x.shape, Quantization((1 / 128,), (zero,)))
    return drawing.layer("L2_NORMALIZATION", y, {}, 2)


def concatenation(drawing: Drawing) -> Layer:
    """Draw CONCATENATION of two tensors."""
    x = drawing.input(drawing.between(1000, 3000))
    alike = x.dtype is not DType.UINT8  # LiteRT refuses other scales
    drawing.input(drawing.between(1000, 3000), like=x if alike else None)
    y = (x if alike else drawing.type(0)).with_shape((sum(v.size for v in drawing.values),))
    return drawing.layer("CONCATENATION", y, {"axis": 0}, 2)


def quantize(drawing: Drawing) -> Layer:
    """Draw QUANTIZE of quantised numbers."""
    x = drawing.input(drawing.between(3000, 6000))
    to = DType.INT16 if x.dtype is DType.INT16 else (DType.UINT8, DType.INT8)[drawing.between(0, 1)]
    return drawing.layer("QUANTIZE", drawing.type(*x.shape, dtype=to), {}, 2)


def quantize_wide(drawing: Drawing) -> Layer:
    """Draw QUANTIZE of int16 to int32, of int32 to 16 or 8 bits."""
    wide = drawing.dtype is I32
    x = drawing.type(drawing.between(3000, 6000), about=1e-4 if wide else 0.05)
    assert x.quantization is not None
    if wide:
        x = TensorType(I32, x.shape, Quantization(x.quantization.scale, (0,)))
    drawing.input(*x.shape, like=x)
    to = (DType.INT8, DType.INT16)[drawing.between(0, 1)] if wide else I32
    y = drawing.type(*x.shape, about=1000 if to is DType.INT8 else 10, dtype=to)
    return drawing.layer("QUANTIZE", y, {}, 2)


def resize_bilinear(drawing: Drawing) -> Layer:
    """Draw RESIZE_BILINEAR."""
    height, width, tall, wide = (drawing.between(1, 40) for _ in range(4))
    x = drawing.input(2, height, width, drawing.between(1, 8))
    drawing.constant(np.array([tall, wide], np.int32))
    mode = MODES[drawing.between(0, 2)]
    return drawing.layer("RESIZE_BILINEAR", x.with_shape((2, tall, wide, x.shape[3])), mode, 3)


# Functions of two tensors of int16, of which a file cannot have all pairs.
WIDE: Mapping[str, Draw] = {
    "ADD": pair("ADD", 0.05),
    "SUB": pair("SUB", 0.05),
    "MUL": pair("MUL", 50),
    "MAXIMUM": pair("MAXIMUM", 0, alike=True),
    "MINIMUM": pair("MINIMUM", 0, alike=True),
}
LAYERS: Mapping[str, Draw] = {
    "CONV_2D": conv2d,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": fully_connected,
    "FULLY_CONNECTED_SHUFFLED": shuffled,
    "BATCH_MATMUL": batch_matmul,
    "AVERAGE_POOL_2D": pool("AVERAGE_POOL_2D"),
    "MAX_POOL_2D": pool("MAX_POOL_2D"),
    **{name: unary(name, {}, 2) for name in ("RELU", "RELU6")},
    **{name: unary(name, {}, 1) for name in ("RELU_N1_TO_1", "HARD_SWISH")},
    "LEAKY_RELU": leaky_relu,
    **{name: comparison(name) for name in ("EQUAL", "NOT_EQUAL", "LESS", "GREATER_EQUAL")},
    "REDUCE_MAX": reduction("REDUCE_MAX", (1,), True, same=True),
    "REDUCE_MIN": reduction("REDUCE_MIN", (2,), False, same=True),
    "SUM": reduction("SUM", (1, 2), True),
    "REDUCE_PROD": reduction("REDUCE_PROD", (1,), True),
    "MEAN": reduction("MEAN", (1, 2), True),
    "MEAN_OF_ROWS": reduction("MEAN", (1,), False),
    "L2_NORMALIZATION": l2_normalization,
    "CONCATENATION": concatenation,
    "QUANTIZE": quantize,
    "QUANTIZE_WIDE": quantize_wide,
    "RESIZE_BILINEAR": resize_bilinear,
    **STATES,
}


def drawn_layer(rng: np.random.Generator, name: str, dtype: DType, bias: DType = DType.INT64) -> Layer:
    """Draw a layer of LAYERS, or of WIDE; `bias`: see Drawing."""
    return {**LAYERS, **WIDE}[name](Drawing(rng, dtype, bias))
