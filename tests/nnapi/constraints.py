"""Operations that break one constraint each, with the expected message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.nnapi import OperandCode, OperandType
from tests.nnapi.builder import INT, QUANT8, tensor

X = tensor(1, 4, 4, 2)
QX = tensor(1, 4, 4, 2, code=QUANT8)
FILTER, BIAS = np.ones((3, 2, 2, 2), np.float32), np.zeros(3, np.float32)
QFILTER = (tensor(3, 2, 2, 2, code=QUANT8), np.ones((3, 2, 2, 2), np.uint8))
SIDES, SCHEME = [0, 0, 0, 0], [1]
INT32, FLOAT32 = OperandType(OperandCode.INT32), OperandType(OperandCode.FLOAT32)
Y3 = tensor(1, 4, 4, 3)


def biased(scale: float) -> tuple[OperandType, Any]:
    """Return the bias of a quantised product."""
    return OperandType(INT, (3,), scale), np.zeros(3, np.int32)


def quantised(scale: float, zero: int = 0) -> OperandType:
    """Return a quantised result of QX's shape."""
    return tensor(1, 4, 4, 2, code=QUANT8, scale=scale, zero=zero)


CONV = [X, FILTER, BIAS, *SCHEME, 1, 1, 0]
DEPTHWISE = [X, np.ones((1, 2, 2, 4), np.float32), np.zeros(4, np.float32), *SCHEME, 1, 1, 2, 0]
LSTM: list[Any] = [
    tensor(1, 2),
    *[np.ones((3, 2), np.float32)] * 4,
    *[np.ones((3, 3), np.float32)] * 4,
    *[(tensor(3), None)] * 3,
    *[np.ones(3, np.float32)] * 4,
    (tensor(3, 3), None),
    (tensor(3), None),
    tensor(1, 3),
    tensor(1, 3),
    4,
    0.0,
    0.0,
]
LSTM_OUT = [tensor(1, 12), tensor(1, 3), tensor(1, 3), tensor(1, 3)]
RNN = [
    tensor(1, 2),
    np.ones((3, 2), np.float32),
    np.ones((3, 3), np.float32),
    np.ones(3, np.float32),
    tensor(1, 3),
]
SVDF: list[Any] = [tensor(1, 2), np.ones((4, 2), np.float32), np.ones((4, 5), np.float32), (tensor(2), None)]
HASH = np.ones((4, 8), np.float32)


def changed(inputs: Sequence[Any], changes: dict[int, Any]) -> list[Any]:
    """Return the inputs with some of them replaced."""
    return [changes.get(k, value) for k, value in enumerate(inputs)]


WRONG: dict[str, tuple[str, Sequence[Any], Sequence[OperandType], str]] = {
    # signatures: number, codes and ranks of operands
    "too few inputs": ("ADD", [X, X], [X], "takes 3 inputs, got 2"),
    "too many inputs": ("RELU", [X, 0], [X], "takes 1 inputs, got 2"),
    "neither form of padding": ("MAX_POOL_2D", [X, 1, 1, 1, 2, 2, 0, 0], [X], "takes 10 or 7 inputs, got 8"),
    "too many outputs": ("RELU", [X], [X, X], "has 1 outputs, got 2"),
    "no inputs to concatenate": ("CONCATENATION", [INT32], [X], "takes 1 or more inputs, got 1"),
    "integers are not added": (
        "ADD",
        [tensor(2, code=INT), tensor(2, code=INT), 0],
        [tensor(2, code=INT)],
        "must be",
    ),
    "types are not mixed": ("ADD", [X, QX, 0], [X], r"input 1 \(b\) must be TENSOR_FLOAT32"),
    "the result has the inputs' type": (
        "ADD",
        [X, X, 0],
        [quantised(1.0)],
        r"output 0 \(y\) must be TENSOR_FLOAT32",
    ),
    "scalars are no tensors": ("ADD", [X, 1.0, 0], [X], r"input 1 \(b\) must be"),
    "a fuse code is an INT32": ("ADD", [X, X, 0.0], [X], r"input 2 \(fuse\) must be INT32"),
    "beta is a FLOAT32": ("SOFTMAX", [tensor(1, 3), 1], [tensor(1, 3)], r"\(beta\) must be FLOAT32"),
    "floats only": ("FLOOR", [QX], [QX], "must be TENSOR_FLOAT32"),
    "floats only, either": ("SUB", [QX, QX, 0], [QX], "must be TENSOR_FLOAT32"),
    "quantised only": ("DEQUANTIZE", [X], [X], "must be TENSOR_QUANT8_ASYMM"),
    "dequantised is float": ("DEQUANTIZE", [QX], [QX], r"output 0 \(y\) must be TENSOR_FLOAT32"),
    "rank 5": ("RELU", [tensor(1, 1, 1, 1, 2)], [tensor(1, 1, 1, 1, 2)], "rank 1 to 4"),
    "rank 3 for images": ("L2_NORMALIZATION", [tensor(1, 2, 3)], [tensor(1, 2, 3)], "rank 4"),
    "rank 3 for softmax": ("SOFTMAX", [tensor(1, 2, 3), 1.0], [tensor(1, 2, 3)], "rank 2 or 4"),
    "rank 1 for layers": (
        "FULLY_CONNECTED",
        [tensor(2), FILTER[0, 0], BIAS[:2], 0],
        [tensor(1, 2)],
        "rank 2 to 4",
    ),
    "rank of the result": (
        "FULLY_CONNECTED",
        [tensor(1, 2), FILTER[0, 0], BIAS[:2], 0],
        [tensor(2)],
        "rank 2",
    ),
    # shapes
    "declared shape": ("RELU", [tensor(2, 3)], [tensor(3, 2)], r"has shape \[2, 3\], but was declared"),
    "declared rank": ("RELU", [tensor(2, 3)], [tensor(0)], r"has shape \[2, 3\], but was declared"),
    "incompatible shapes": ("MUL", [tensor(2, 3), tensor(2), 0], [tensor(2, 3)], "operation 0, MUL"),
    "channels of the filter": (
        "CONV_2D",
        changed(CONV, {1: np.ones((3, 2, 2, 1), np.float32)}),
        [Y3],
        "1 input channels",
    ),
    "length of the bias": ("CONV_2D", changed(CONV, {2: np.zeros(2, np.float32)}), [Y3], "bias"),
    "filter over the image": (
        "CONV_2D",
        [X, np.ones((3, 5, 5, 2), np.float32), BIAS, 2, 1, 1, 0],
        [Y3],
        "fit",
    ),
    "depth multiplier": (
        "DEPTHWISE_CONV_2D",
        changed(DEPTHWISE, {6: 3}),
        [tensor(1, 4, 4, 4)],
        "multiplier 3",
    ),
    "multiplier 0": (
        "DEPTHWISE_CONV_2D",
        changed(DEPTHWISE, {6: 0}),
        [tensor(1, 4, 4, 4)],
        "multiplier must be at least 1",
    ),
    "batch of depthwise filters": (
        "DEPTHWISE_CONV_2D",
        changed(DEPTHWISE, {1: np.ones((2, 2, 2, 4), np.float32)}),
        [tensor(1, 4, 4, 4)],
        "filter",
    ),
    "rows of a layer": (
        "FULLY_CONNECTED",
        [tensor(1, 3), FILTER[0, 0], BIAS[:2], 0],
        [tensor(1, 2)],
        "rows of 2",
    ),
    "concatenated shapes": ("CONCATENATION", [tensor(2, 3), tensor(3, 3), 1], [tensor(2, 6)], "axis 1"),
    "elements of a shape": ("RESHAPE", [tensor(2, 3), [4, 2]], [tensor(4, 2)], "6 elements"),
    "two open extents": ("RESHAPE", [tensor(2, 3), [-1, -1]], [tensor(2, 3)], "one -1"),
    "squeezed dimension": ("SQUEEZE", [tensor(2, 3), [0]], [tensor(3)], "must be 1"),
    "squeezed axis": ("SQUEEZE", [tensor(1, 3), [2]], [tensor(3)], "out of range"),
    "permutation": ("TRANSPOSE", [tensor(2, 3), [0, 0]], [tensor(2, 2)], "perm"),
    "length of the permutation": (
        "TRANSPOSE",
        [tensor(2, 3), [0]],
        [tensor(2, 3)],
        "perm must have 2 entries",
    ),
    "shape of the paddings": (
        "PAD",
        [tensor(2, 3), [[1, 1]]],
        [tensor(4, 3)],
        r"paddings must have shape \[2, 2\]",
    ),
    "length of begin": (
        "STRIDED_SLICE",
        [tensor(2, 3), [0], [1, 1], [1, 1], 0, 0, 0],
        [tensor(1, 1)],
        "begin must have 2",
    ),
    "block does not divide": ("SPACE_TO_DEPTH", [X, 3], [tensor(1, 1, 1, 18)], "block_size 3"),
    "block does not divide the depth": ("DEPTH_TO_SPACE", [X, 2], [tensor(1, 8, 8, 1)], "depth"),
    "blocks and batch": ("BATCH_TO_SPACE_ND", [X, [2, 2]], [tensor(1, 8, 8, 2)], "batch"),
    "two blocks": ("BATCH_TO_SPACE_ND", [X, [1]], [X], "block_shape must have 2 entries"),
    "blocks and space": (
        "SPACE_TO_BATCH_ND",
        [X, [3, 2], [[0, 0], [0, 0]]],
        [tensor(6, 1, 2, 2)],
        "operation 0",
    ),
    "mean over no such axis": ("MEAN", [tensor(2, 3), [2], 0], [tensor(2)], "out of range"),
    "keys and values": (
        "HASHTABLE_LOOKUP",
        [tensor(2, code=INT), [1, 2, 3], tensor(2, 2)],
        [tensor(2, 2), OperandType(QUANT8, (2,), 1.0)],
        "key",
    ),
    "weights of a hash": (
        "LSH_PROJECTION",
        [HASH, tensor(5, code=INT), np.ones(4, np.float32), 2],
        [tensor(32, code=INT)],
        "weight",
    ),
    "units of an RNN": ("RNN", [*RNN[:4], tensor(1, 4), 0], [tensor(1, 3), tensor(1, 3)], "operation 0, RNN"),
    "state of an SVDF": (
        "SVDF",
        [*SVDF, tensor(1, 19), 2, 0],
        [tensor(1, 19), tensor(1, 2)],
        "operation 0, SVDF",
    ),
    "units of an LSTM": ("LSTM", changed(LSTM, {13: np.ones(4, np.float32)}), LSTM_OUT, "operation 0, LSTM"),
    # values of attributes
    "fuse code 4": ("ADD", [X, X, 4], [X], "fuse must be one of 0, 1, 2, 3, got 4"),
    "fuse code below 0": ("CONV_2D", changed(CONV, {6: -1}), [Y3], "fuse must be one of"),
    "padding code 0": ("CONV_2D", changed(CONV, {3: 0}), [Y3], "padding must be one of 1, 2, got 0"),
    "padding code 3": ("L2_POOL_2D", [X, 3, 1, 1, 2, 2, 0], [X], "padding must be one of"),
    "negative padding": ("AVERAGE_POOL_2D", [X, 0, -1, 0, 0, 1, 1, 2, 2, 0], [X], "right must be at least 0"),
    "stride 0": ("AVERAGE_POOL_2D", [X, *SIDES, 0, 1, 2, 2, 0], [X], "stride_width must be at least 1"),
    "stride 0 down": ("CONV_2D", changed(CONV, {5: 0}), [Y3], "stride_height must be at least 1"),
    "filter 0": ("MAX_POOL_2D", [X, *SIDES, 1, 1, 2, 0, 0], [X], "filter_height must be at least 1"),
    "axis over the rank": ("CONCATENATION", [X, X, 4], [X], "axis must be 0 to 3, got 4"),
    "axis below 0": ("CONCATENATION", [X, X, -1], [X], "axis must be 0 to 3, got -1"),
    "block 0": ("SPACE_TO_DEPTH", [X, 0], [X], "block_size must be at least 1"),
    "block below 0": ("DEPTH_TO_SPACE", [X, -2], [X], "block_size must be at least 1"),
    "block shape 0": ("SPACE_TO_BATCH_ND", [X, [0, 1], [[0, 0], [0, 0]]], [X], "block_shape"),
    "negative paddings": ("PAD", [tensor(2), [[-1, 0]]], [tensor(1)], "negative"),
    "negative paddings of blocks": ("SPACE_TO_BATCH_ND", [X, [1, 1], [[0, -1], [0, 0]]], [X], "negative"),
    "stride 0 of a slice": (
        "STRIDED_SLICE",
        [tensor(3), [0], [1], [0], 0, 0, 0],
        [tensor(1)],
        "strides must not be 0",
    ),
    "index of a slice": ("STRIDED_SLICE", [tensor(3), [3], [4], [1], 0, 0, 1], [tensor(1)], "index"),
    "width 0": ("RESIZE_BILINEAR", [X, 0, 4], [X], "width must be at least 1"),
    "height 0": ("RESIZE_BILINEAR", [X, 4, 0], [X], "height must be at least 1"),
    "beta 0": ("SOFTMAX", [tensor(1, 3), 0.0], [tensor(1, 3)], "beta must be positive"),
    "bias 0": ("LOCAL_RESPONSE_NORMALIZATION", [X, 1, 0.0, 1.0, 1.0], [X], "bias must not be 0"),
    "negative radius": (
        "LOCAL_RESPONSE_NORMALIZATION",
        [X, -1, 1.0, 1.0, 1.0],
        [X],
        "radius must be at least 0",
    ),
    "projection type 0": (
        "LSH_PROJECTION",
        [HASH, tensor(5, code=INT), (tensor(5), None), 0],
        [tensor(32, code=INT)],
        "type must be one of 1, 2",
    ),
    "bits of a sparse hash": (
        "LSH_PROJECTION",
        [np.ones((4, 31), np.float32), tensor(5, code=INT), (tensor(5), None), 1],
        [tensor(4, code=INT)],
        "32 bits",
    ),
    "activation of an RNN": ("RNN", [*RNN, 5], [tensor(1, 3), tensor(1, 3)], "fuse must be one of"),
    "activation of an LSTM": ("LSTM", changed(LSTM, {20: 2}), LSTM_OUT, "fuse must be one of 0, 1, 3, 4, 6"),
    "rank of an SVDF": (
        "SVDF",
        [*SVDF, tensor(1, 20), 0, 0],
        [tensor(1, 20), tensor(1, 2)],
        "rank must be at least 1",
    ),
    "cell clip": ("LSTM", changed(LSTM, {21: -1.0}), LSTM_OUT, "cell_clip"),
    # optional operands that go together
    "half an input gate": (
        "LSTM",
        changed(LSTM, {1: (tensor(3, 2), None)}),
        LSTM_OUT,
        "all there or all absent",
    ),
    "half a peephole": (
        "LSTM",
        changed(LSTM, {10: np.ones(3, np.float32)}),
        LSTM_OUT,
        "cell_to_output_weights must be all there or all absent",
    ),
    "bias without projection": ("LSTM", changed(LSTM, {17: np.ones(3, np.float32)}), LSTM_OUT, "projection"),
    # scales and zero points
    "scale of a pool": (
        "MAX_POOL_2D",
        [QX, 1, 1, 1, 2, 2, 0],
        [quantised(0.25)],
        "scale and zero point of the input",
    ),
    "zero point of a reshape": (
        "RESHAPE",
        [QX, [1, 4, 4, 2]],
        [quantised(0.5, 1)],
        "scale and zero point of the input",
    ),
    "scales of a concatenation": (
        "CONCATENATION",
        [QX, quantised(0.25), 3],
        [tensor(1, 4, 4, 4, code=QUANT8)],
        "scale",
    ),
    "scale of a softmax": ("SOFTMAX", [QX, 1.0], [quantised(0.5)], "scale 1/256"),
    "zero point of a logistic": ("LOGISTIC", [QX], [quantised(1 / 256, 1)], "zero point 0"),
    "scale of a product": ("MUL", [QX, QX, 0], [quantised(0.25)], "must be over a scale"),
    "scale of a convolution": (
        "CONV_2D",
        changed(CONV, {0: QX, 1: QFILTER, 2: biased(0.25)}),
        [tensor(1, 4, 4, 3, code=QUANT8, scale=0.25)],
        "must be over",
    ),
    "scale of a bias": (
        "CONV_2D",
        changed(CONV, {0: QX, 1: QFILTER, 2: biased(0.5)}),
        [tensor(1, 4, 4, 3, code=QUANT8, scale=1.0)],
        "the bias must have",
    ),
    "type of a bias": (
        "CONV_2D",
        changed(CONV, {0: QX, 1: QFILTER}),
        [tensor(1, 4, 4, 3, code=QUANT8, scale=1.0)],
        r"\(bias\) must be TENSOR_INT32",
    ),
    "scale of hits": (
        "HASHTABLE_LOOKUP",
        [tensor(2, code=INT), [1, 2], tensor(2, 2)],
        [tensor(2, 2), OperandType(QUANT8, (2,), 0.5)],
        "hits must have scale 1",
    ),
    "scale of looked up values": (
        "EMBEDDING_LOOKUP",
        [tensor(2, code=INT), tensor(3, 2, code=QUANT8)],
        [tensor(2, 2, code=QUANT8, scale=1.0)],
        "scale",
    ),
}
