"""Forms of operations that later feature levels added: level, and message of the level before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.nnapi import OperandCode, OperandType, SymmPerChannelQuantParams
from tests.nnapi.builder import INT, QUANT8, tensor
from tests.nnapi.constraints import (
    BIAS,
    CONV,
    DEPTHWISE,
    FILTER,
    HASH,
    LSTM,
    LSTM_OUT,
    QX,
    Y3,
    X,
    biased,
    changed,
    quantised,
)

HALF, SIGNED = OperandCode.TENSOR_FLOAT16, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
SYMMETRIC, PER_CHANNEL = OperandCode.TENSOR_QUANT8_SYMM, OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
HX, SX, IX = tensor(1, 4, 4, 2, code=HALF), tensor(1, 4, 4, 2, code=SIGNED), tensor(1, 4, 4, 2, code=INT)
HY = tensor(1, 4, 4, 3, code=HALF)
HALF_ONE = (OperandType(OperandCode.FLOAT16), np.float16(1))
QFILTER = (tensor(3, 2, 2, 2, code=QUANT8), np.ones((3, 2, 2, 2), np.uint8))
QCONV = changed(CONV, {0: QX, 1: QFILTER, 2: biased(0.25)})
NCHW, CHANNELS_FIRST = tensor(1, 2, 4, 4), True
NORMS = [np.ones(3, np.float32)] * 4
LOOKUPS = tensor(2, code=INT)


def per_channel(dimension: int, *shape: int) -> tuple[OperandType, Any]:
    """Return a constant filter with scales 1, 2, ... along a dimension."""
    scales = tuple(float(k + 1) for k in range(shape[dimension]))
    channels = SymmPerChannelQuantParams(dimension, scales)
    return OperandType(PER_CHANNEL, shape, channels=channels), np.ones(shape, np.int8)


def unit(code: OperandCode, zero: int, *shape: int) -> OperandType:
    """Return the type of a result with steps of 1/256."""
    return tensor(*shape, code=code, scale=1 / 256, zero=zero)


def centred(code: OperandCode, zero: int) -> OperandType:
    """Return the type of a result of QX's shape with steps of 1/128."""
    return tensor(1, 4, 4, 2, code=code, scale=1 / 128, zero=zero)


PER_CHANNEL_CONV = changed(CONV, {0: QX, 1: per_channel(0, 3, 2, 2, 2), 2: biased(0.0)})
Q3 = tensor(1, 4, 4, 3, code=QUANT8)

# Each: operation, inputs, outputs, the level, words of the message at the level before.
ADDED: dict[str, tuple[str, Sequence[Any], Sequence[OperandType], int, str]] = {
    # types
    "float16": (
        "FLOOR",
        [HX],
        [HX],
        29,
        "no operand type TENSOR_FLOAT16 at feature level 28, only from 29 on",
    ),
    "scalars are float16 beside float16": (
        "SOFTMAX",
        [HX, HALF_ONE],
        [HX],
        29,
        "no operand type TENSOR_FLOAT16",
    ),
    "float16 layers": (
        "CONV_2D",
        changed(CONV, {0: HX, 1: FILTER.astype(np.float16), 2: BIAS.astype(np.float16)}),
        [HY],
        29,
        "TENSOR_FLOAT16",
    ),
    "dequantised is float16": ("DEQUANTIZE", [QX], [HX], 29, "TENSOR_FLOAT16"),
    "symmetric": ("DEQUANTIZE", [tensor(2, code=SYMMETRIC)], [tensor(2)], 29, "TENSOR_QUANT8_SYMM"),
    "scales per channel": ("CONV_2D", PER_CHANNEL_CONV, [Q3], 29, "TENSOR_QUANT8_SYMM_PER_CHANNEL"),
    "depthwise scales per channel": (
        "DEPTHWISE_CONV_2D",
        changed(
            DEPTHWISE,
            {0: QX, 1: per_channel(3, 1, 2, 2, 4), 2: (tensor(4, code=INT), np.zeros(4, np.int32))},
        ),
        [tensor(1, 4, 4, 4, code=QUANT8)],
        29,
        "TENSOR_QUANT8_SYMM_PER_CHANNEL",
    ),
    "quantised difference": ("SUB", [QX, QX, 0], [QX], 29, r"\(a\) must be TENSOR_FLOAT32, got"),
    "quantised tanh": ("TANH", [QX], [centred(QUANT8, 128)], 29, "must be TENSOR_FLOAT32, got"),
    "quantised norm": ("L2_NORMALIZATION", [QX], [centred(QUANT8, 128)], 29, "must be TENSOR_FLOAT32, got"),
    "quantised resize": ("RESIZE_BILINEAR", [QX, 4, 4], [QX], 29, "must be TENSOR_FLOAT32, got"),
    "signed": ("RELU", [SX], [SX], 30, "no operand type TENSOR_QUANT8_ASYMM_SIGNED at feature level 29"),
    "signed logistic": ("LOGISTIC", [SX], [unit(SIGNED, -128, 1, 4, 4, 2)], 30, "SIGNED"),
    "signed tanh": ("TANH", [SX], [centred(SIGNED, 0)], 30, "SIGNED"),
    "signed lookup": (
        "EMBEDDING_LOOKUP",
        [LOOKUPS, tensor(3, 2, code=SIGNED)],
        [tensor(2, 2, code=SIGNED)],
        30,
        "SIGNED",
    ),
    "float16 lookup": (
        "EMBEDDING_LOOKUP",
        [LOOKUPS, tensor(3, 2, code=HALF)],
        [tensor(2, 2, code=HALF)],
        30,
        r"\(values\) must be TENSOR_FLOAT32 or TENSOR_INT32 or TENSOR_QUANT8_ASYMM, got",
    ),
    **{
        f"integers: {name}": (name, [IX, IX, 0], [IX], 30, r"\(a\) must be .*, got TENSOR_INT32")
        for name in ("ADD", "DIV", "MUL", "SUB")
    },
    # ranks
    "softmax of rank 1": ("SOFTMAX", [tensor(3), 1.0], [tensor(3)], 29, "rank 2 or 4"),
    "softmax of rank 3": ("SOFTMAX", [tensor(1, 2, 3), 1.0], [tensor(1, 2, 3)], 29, "rank 2 or 4"),
    "norm of rank 2": ("L2_NORMALIZATION", [tensor(2, 3)], [tensor(2, 3)], 29, "rank 4"),
    "response of rank 1": (
        "LOCAL_RESPONSE_NORMALIZATION",
        [tensor(3), 1, 1.0, 1.0, 1.0],
        [tensor(3)],
        29,
        "rank 4",
    ),
    "any rank": (
        "RELU",
        [OperandType(OperandCode.TENSOR_FLOAT32)],
        [OperandType(OperandCode.TENSOR_FLOAT32)],
        29,
        "TENSOR_FLOAT32 must have dimensions",
    ),
    # parameters
    "axis of a softmax": ("SOFTMAX", [tensor(2, 3), 1.0, 0], [tensor(2, 3)], 29, "takes 2 inputs, got 3"),
    "axis of a norm": ("L2_NORMALIZATION", [X, -4], [X], 29, "takes 1 inputs, got 2"),
    "axis of responses": (
        "LOCAL_RESPONSE_NORMALIZATION",
        [X, 1, 1.0, 1.0, 1.0, 2],
        [X],
        29,
        "takes 5 inputs, got 6",
    ),
    "layout of a pool": (
        "MAX_POOL_2D",
        [NCHW, 1, 1, 1, 2, 2, 0, CHANNELS_FIRST],
        [NCHW],
        29,
        "no operand type BOOL",
    ),
    "layout of a convolution": (
        "CONV_2D",
        [*changed(CONV, {0: NCHW}), CHANNELS_FIRST],
        [tensor(1, 3, 4, 4)],
        29,
        "no operand type BOOL",
    ),
    "dilation": ("CONV_2D", [*CONV, False, 2, 2], [Y3], 29, "no operand type BOOL"),
    "scales of a resize": (
        "RESIZE_BILINEAR",
        [X, 1.5, 0.5],
        [tensor(1, 2, 6, 2)],
        29,
        r"input 1 \(width\) must be INT32, got FLOAT32",
    ),
    "aligned corners": ("RESIZE_BILINEAR", [X, 4, 4, False, True], [X], 30, "takes 3 or 4 .* inputs, got 5"),
    "half pixels": (
        "RESIZE_BILINEAR",
        [X, 4, 4, False, False, True],
        [X],
        30,
        "takes 3 or 4 .* inputs, got 6",
    ),
    "layer normalisation": ("LSTM", [*LSTM, *NORMS], LSTM_OUT, 29, "takes 23 inputs, got 27"),
    # values and scales
    "signatures with offset": (
        "LSH_PROJECTION",
        [HASH, tensor(3, 2), (tensor(3), None), 3],
        [tensor(4, code=INT)],
        29,
        "type must be one of 1, 2, got 3",
    ),
    "bias 0": ("LOCAL_RESPONSE_NORMALIZATION", [X, 1, 0.0, 1.0, 1.0], [X], 28, "bias must not be 0"),
    "mixed scales": (
        "CONCATENATION",
        [QX, quantised(0.25), 3],
        [tensor(1, 4, 4, 4, code=QUANT8)],
        29,
        "scale and zero point of the input",
    ),
    "scale below the product": (
        "CONV_2D",
        QCONV,
        [tensor(1, 4, 4, 3, code=QUANT8, scale=0.125)],
        29,
        "must be over x scale",
    ),
}

# Broken constraints at level 30: operation, inputs, outputs, words of the message.
WRONG: dict[str, tuple[str, Sequence[Any], Sequence[OperandType], str]] = {
    "axis below": ("SOFTMAX", [tensor(2, 3), 1.0, -3], [tensor(2, 3)], "axis must be -2 to 1, got -3"),
    "axis above": ("L2_NORMALIZATION", [X, 4], [X], "axis must be -4 to 3, got 4"),
    "one dilation": ("CONV_2D", [*CONV, False, 2], [Y3], "takes .* inputs, got 9"),
    "dilation 0": ("CONV_2D", [*CONV, False, 2, 0], [Y3], "dilation_height must be at least 1, got 0"),
    "number for a layout": (
        "MAX_POOL_2D",
        [X, 1, 1, 1, 2, 2, 0, 1],
        [X],
        r"input 7 \(layout\) must be BOOL, got INT32",
    ),
    "corners and centres": (
        "RESIZE_BILINEAR",
        [X, 4, 4, False, True, True],
        [X],
        "align_corners and half_pixel_centers exclude each other",
    ),
    "scale 0 of a resize": ("RESIZE_BILINEAR", [X, 0.0, 1.0], [X], "must be positive"),
    "float32 scalar beside float16": (
        "SOFTMAX",
        [HX, 1.0],
        [HX],
        r"\(beta\) must be FLOAT16, got FLOAT32",
    ),
    "fused integers": ("ADD", [IX, IX, 1], [IX], "fuse must be 0 for integers, got 1"),
    "scale of a quantised norm": ("L2_NORMALIZATION", [QX], [QX], "scale 1/128 and zero point 128"),
    "scale of a signed norm": ("L2_NORMALIZATION", [SX], [centred(SIGNED, 1)], "zero point 0, got"),
    "scale of a signed softmax": (
        "SOFTMAX",
        [tensor(2, 3, code=SIGNED), 1.0],
        [unit(SIGNED, 0, 2, 3)],
        "scale 1/256 and zero point -128",
    ),
    "scale of a resize": ("RESIZE_BILINEAR", [QX, 4, 4], [quantised(0.25)], "scale and zero point"),
    "scale of a product": ("MUL", [QX, QX, 0], [quantised(0.25)], "must be over a scale"),
    "signed and unsigned": ("ADD", [QX, SX, 0], [QX], r"input 1 \(b\) must be TENSOR_QUANT8_ASYMM, got"),
    "channels of a convolution": (
        "CONV_2D",
        changed(PER_CHANNEL_CONV, {1: per_channel(3, 3, 2, 2, 2)}),
        [Q3],
        "scales must be along dimension 0",
    ),
    "bias beside scales per channel": (
        "CONV_2D",
        changed(PER_CHANNEL_CONV, {2: biased(0.25)}),
        [Q3],
        "the bias must have scale 0",
    ),
    "filter per channel beside floats": (
        "CONV_2D",
        changed(CONV, {1: per_channel(0, 3, 2, 2, 2)}),
        [Y3],
        r"\(filter\) must be TENSOR_FLOAT32, got",
    ),
    "half of the layer normalisation": (
        "LSTM",
        [*LSTM, *NORMS[:3], (tensor(3), None)],
        LSTM_OUT,
        "layer_norm",
    ),
}
