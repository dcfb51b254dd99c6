"""Write a small TFLite model from NumPy arrays, in float32 or quantised to int8.

Only the operators of a convolutional picture classifier are here: CONV_2D, DEPTHWISE_CONV_2D,
ADD, MEAN, FULLY_CONNECTED and SOFTMAX.  The layout is TFLite's own: activations are NHWC with
batch 1, convolution weights are [out, height, width, in], depthwise weights [1, height, width,
channels].  Padding is SAME throughout, so a stride-2 convolution over an even size pads at the
bottom and the right only.

A tensor that is given Scales is int8, and so is the rest of the network from a quantised input on:
weights are then rounded to int8 here, symmetric, with a scale for each output channel (FULLY_CONNECTED:
one for all), and biases to int32 (TensorFlow Lite 8-bit quantization specification).

Needs the packages ``flatbuffers`` and ``tflite`` (the schema).
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

Array = NDArray[Any]
ALIGNMENT = 16
SCHEMA_VERSION = 3
FILE_IDENTIFIER = b"TFL3"
ACTIVATIONS = {
    "none": tflite.ActivationFunctionType.NONE,
    "relu": tflite.ActivationFunctionType.RELU,
    "relu6": tflite.ActivationFunctionType.RELU6,
}
TENSOR_TYPES = {
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.int32): tflite.TensorType.INT32,
    np.dtype(np.int8): tflite.TensorType.INT8,
}
INT8_VERSIONS = {  # of operators, from which on they take int8 (TensorFlow Lite, op_version.cc)
    tflite.BuiltinOperator.CONV_2D: 3,
    tflite.BuiltinOperator.DEPTHWISE_CONV_2D: 3,
    tflite.BuiltinOperator.ADD: 2,
    tflite.BuiltinOperator.MEAN: 2,
    tflite.BuiltinOperator.FULLY_CONNECTED: 4,
    tflite.BuiltinOperator.SOFTMAX: 2,
}


@dataclass(frozen=True)
class Scales:
    """The quantisation of a tensor: real = scale * (stored - zero_point).

    `scale` has one element, or one for each slice of the tensor along `axis`.
    """

    scale: Array
    zero_point: int = 0
    axis: int = 0

    @classmethod
    def covering(cls, low: float, high: float) -> Scales:
        """Spread the 256 values of int8 evenly from `low` to `high`, so that one of them is exactly 0."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = max(high - low, 1e-6) / 255
        return cls(np.array([scale]), round(-128 - low / scale))


PROBABILITIES = Scales(np.array([1 / 256]), -128)  # what int8 SOFTMAX must give


class ModelWriter:
    """Collects operators in execution order, then builds the flatbuffer.

    Each operator method returns the number of its output tensor, to be given to later ones.
    """

    def __init__(self, description: str) -> None:
        self.description = description
        self._builder = flatbuffers.Builder(1 << 20)
        self._shapes: list[tuple[int, ...]] = []
        self._scales: list[Scales | None] = []
        self._tensors: list[int] = []
        self._buffers: list[int] = [self._buffer(None)]
        self._codes: dict[int, int] = {}
        self._operators: list[int] = []
        self._inputs: list[int] = []

    def input(self, name: str, shape: Sequence[int], scales: Scales | None = None) -> int:
        """Declare a graph input of the given shape."""
        index = self._activation(name, tuple(shape), scales)
        self._inputs.append(index)
        return index

    def conv2d(
        self,
        x: int,
        weights: Array,
        bias: Array,
        stride: int,
        activation: str,
        name: str,
        scales: Scales | None = None,
    ) -> int:
        """Convolve NHWC `x` with `weights` [out, height, width, in], padding SAME."""

        def options(builder: flatbuffers.Builder) -> int:
            tflite.Conv2DOptionsStart(builder)
            tflite.Conv2DOptionsAddPadding(builder, tflite.Padding.SAME)
            tflite.Conv2DOptionsAddStrideW(builder, stride)
            tflite.Conv2DOptionsAddStrideH(builder, stride)
            tflite.Conv2DOptionsAddFusedActivationFunction(builder, ACTIVATIONS[activation])
            return int(tflite.Conv2DOptionsEnd(builder))

        batch, height, width, _ = self._shapes[x]
        shape = (batch, -(-height // stride), -(-width // stride), weights.shape[0])
        inputs = [x, *self._parameters(name, weights, bias, x, 0)]
        return self._operator("CONV_2D", "Conv2DOptions", options, inputs, name, shape, scales)

    def depthwise_conv2d(
        self,
        x: int,
        weights: Array,
        bias: Array,
        stride: int,
        activation: str,
        name: str,
        scales: Scales | None = None,
    ) -> int:
        """Convolve each channel of NHWC `x` with `weights` [1, height, width, channels], SAME."""

        def options(builder: flatbuffers.Builder) -> int:
            tflite.DepthwiseConv2DOptionsStart(builder)
            tflite.DepthwiseConv2DOptionsAddPadding(builder, tflite.Padding.SAME)
            tflite.DepthwiseConv2DOptionsAddStrideW(builder, stride)
            tflite.DepthwiseConv2DOptionsAddStrideH(builder, stride)
            tflite.DepthwiseConv2DOptionsAddDepthMultiplier(builder, 1)
            tflite.DepthwiseConv2DOptionsAddFusedActivationFunction(builder, ACTIVATIONS[activation])
            return int(tflite.DepthwiseConv2DOptionsEnd(builder))

        batch, height, width, channels = self._shapes[x]
        shape = (batch, -(-height // stride), -(-width // stride), channels)
        inputs = [x, *self._parameters(name, weights, bias, x, 3)]
        kind = "DepthwiseConv2DOptions"
        return self._operator("DEPTHWISE_CONV_2D", kind, options, inputs, name, shape, scales)

    def add(self, a: int, b: int, name: str, scales: Scales | None = None) -> int:
        """Add two tensors of the same shape."""

        def options(builder: flatbuffers.Builder) -> int:
            tflite.AddOptionsStart(builder)
            return int(tflite.AddOptionsEnd(builder))

        return self._operator("ADD", "AddOptions", options, [a, b], name, self._shapes[a], scales)

    def mean(self, x: int, name: str, scales: Scales | None = None) -> int:
        """Average NHWC `x` over height and width to [batch, channels]."""

        def options(builder: flatbuffers.Builder) -> int:
            tflite.ReducerOptionsStart(builder)
            tflite.ReducerOptionsAddKeepDims(builder, False)
            return int(tflite.ReducerOptionsEnd(builder))

        batch, _, _, channels = self._shapes[x]
        axes = self._constant(f"{name}/axes", np.array([1, 2], np.int32))
        return self._operator("MEAN", "ReducerOptions", options, [x, axes], name, (batch, channels), scales)

    def fully_connected(
        self, x: int, weights: Array, bias: Array, name: str, scales: Scales | None = None
    ) -> int:
        """Multiply `x` [batch, in] with `weights` [out, in] and add `bias` [out]."""

        def options(builder: flatbuffers.Builder) -> int:
            tflite.FullyConnectedOptionsStart(builder)
            return int(tflite.FullyConnectedOptionsEnd(builder))

        shape = (self._shapes[x][0], weights.shape[0])
        inputs = [x, *self._parameters(name, weights, bias, x, None)]
        kind = "FullyConnectedOptions"
        return self._operator("FULLY_CONNECTED", kind, options, inputs, name, shape, scales)

    def softmax(self, x: int, name: str) -> int:
        """Turn the logits `x` [batch, classes] into probabilities."""

        def options(builder: flatbuffers.Builder) -> int:
            tflite.SoftmaxOptionsStart(builder)
            tflite.SoftmaxOptionsAddBeta(builder, 1.0)
            return int(tflite.SoftmaxOptionsEnd(builder))

        scales = None if self._scales[x] is None else PROBABILITIES
        return self._operator("SOFTMAX", "SoftmaxOptions", options, [x], name, self._shapes[x], scales)

    def finish(self, outputs: Sequence[int]) -> bytes:
        """Return the finished model file; the writer must not be used afterwards."""
        builder = self._builder
        codes = [self._operator_code(code) for code in self._codes]
        name = builder.CreateString("main")
        tensors = self._offsets(self._tensors)
        operators = self._offsets(self._operators)
        inputs = self._int32s(self._inputs)
        graph_outputs = self._int32s(outputs)
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddTensors(builder, tensors)
        tflite.SubGraphAddInputs(builder, inputs)
        tflite.SubGraphAddOutputs(builder, graph_outputs)
        tflite.SubGraphAddOperators(builder, operators)
        tflite.SubGraphAddName(builder, name)
        subgraphs = self._offsets([tflite.SubGraphEnd(builder)])
        operator_codes = self._offsets(codes)
        buffers = self._offsets(self._buffers)
        description = builder.CreateString(self.description)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, SCHEMA_VERSION)
        tflite.ModelAddOperatorCodes(builder, operator_codes)
        tflite.ModelAddSubgraphs(builder, subgraphs)
        tflite.ModelAddDescription(builder, description)
        tflite.ModelAddBuffers(builder, buffers)
        builder.Finish(tflite.ModelEnd(builder), file_identifier=FILE_IDENTIFIER)
        return bytes(builder.Output())

    def _parameters(self, name: str, weights: Array, bias: Array, x: int, axis: int | None) -> list[int]:
        """Return weights and bias for an operator on `x`, quantised along `axis` if x is quantised."""
        names, given = (f"{name}/weights", f"{name}/bias"), self._scales[x]
        if given is None:
            return [self._constant(names[0], np.float32(weights)), self._constant(names[1], np.float32(bias))]
        others = None if axis is None else tuple(n for n in range(weights.ndim) if n != axis)
        largest = np.abs(weights.astype(np.float64)).max(others, keepdims=True)
        scale = np.maximum(largest, 1e-9) / 127
        stored = np.rint(weights / scale).astype(np.int8)
        scales = Scales(scale.ravel(), axis=axis or 0)
        products = Scales(given.scale[0] * scales.scale)
        sums = np.rint(bias / products.scale).astype(np.int32)
        return [self._constant(names[0], stored, scales), self._constant(names[1], sums, products)]

    def _constant(self, name: str, values: Array, scales: Scales | None = None) -> int:
        self._buffers.append(self._buffer(np.ascontiguousarray(values).tobytes()))
        return self._tensor(name, values.shape, values.dtype, len(self._buffers) - 1, scales)

    def _activation(self, name: str, shape: tuple[int, ...], scales: Scales | None) -> int:
        return self._tensor(name, shape, np.dtype(np.int8 if scales else np.float32), 0, scales)

    def _buffer(self, data: bytes | None) -> int:
        builder = self._builder
        offset = None
        if data is not None:
            builder.StartVector(1, len(data), ALIGNMENT)
            builder.head -= len(data)
            builder.Bytes[builder.head : builder.head + len(data)] = data
            offset = builder.EndVector()
        tflite.BufferStart(builder)
        if offset is not None:
            tflite.BufferAddData(builder, offset)
        return int(tflite.BufferEnd(builder))

    def _tensor(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], buffer: int, scales: Scales | None
    ) -> int:
        builder = self._builder
        label = builder.CreateString(name)
        quantization = None if scales is None else self._quantization(scales)
        dimensions = self._int32s(shape)
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, dimensions)
        tflite.TensorAddType(builder, TENSOR_TYPES[dtype])
        tflite.TensorAddBuffer(builder, buffer)
        tflite.TensorAddName(builder, label)
        if quantization is not None:
            tflite.TensorAddQuantization(builder, quantization)
        self._tensors.append(tflite.TensorEnd(builder))
        self._shapes.append(shape)
        self._scales.append(scales)
        return len(self._tensors) - 1

    def _quantization(self, scales: Scales) -> int:
        builder = self._builder
        scale = builder.CreateNumpyVector(scales.scale.astype(np.float32))
        zero_point = builder.CreateNumpyVector(np.full(len(scales.scale), scales.zero_point, np.int64))
        tflite.QuantizationParametersStart(builder)
        tflite.QuantizationParametersAddScale(builder, scale)
        tflite.QuantizationParametersAddZeroPoint(builder, zero_point)
        tflite.QuantizationParametersAddQuantizedDimension(builder, scales.axis)
        return int(tflite.QuantizationParametersEnd(builder))

    def _operator(
        self,
        kind: str,
        options_kind: str,
        options: Callable[[flatbuffers.Builder], int],
        inputs: Sequence[int],
        name: str,
        shape: tuple[int, ...],
        scales: Scales | None,
    ) -> int:
        """Append an operator; its output, quantised exactly where its first input is."""
        if (scales is None) != (self._scales[inputs[0]] is None):
            raise ValueError(f"{name}: an int8 input wants scales for the output, a float32 input none")
        builder = self._builder
        output = self._activation(name, shape, scales)
        code = getattr(tflite.BuiltinOperator, kind)
        index = self._codes.setdefault(code, len(self._codes))
        options_offset = options(builder)
        input_vector = self._int32s(inputs)
        output_vector = self._int32s([output])
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, index)
        tflite.OperatorAddInputs(builder, input_vector)
        tflite.OperatorAddOutputs(builder, output_vector)
        tflite.OperatorAddBuiltinOptionsType(builder, getattr(tflite.BuiltinOptions, options_kind))
        tflite.OperatorAddBuiltinOptions(builder, options_offset)
        self._operators.append(tflite.OperatorEnd(builder))
        return output

    def _operator_code(self, code: int) -> int:
        builder = self._builder
        tflite.OperatorCodeStart(builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, code)
        quantised = self._scales[0] is not None
        tflite.OperatorCodeAddVersion(builder, INT8_VERSIONS[code] if quantised else 1)
        tflite.OperatorCodeAddBuiltinCode(builder, code)
        return int(tflite.OperatorCodeEnd(builder))

    def _int32s(self, values: Sequence[int]) -> int:
        return int(self._builder.CreateNumpyVector(np.array(values, np.int32)))

    def _offsets(self, offsets: Sequence[int]) -> int:
        builder = self._builder
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())


def write_with_labels(path: Path, model: bytes, labels: Sequence[str]) -> None:
    """Write `model` to `path` with a zip holding labels.txt (one label a line) at its end."""
    path.write_bytes(model)
    entry = zipfile.ZipInfo("labels.txt", date_time=(1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(entry, "".join(f"{label}\n" for label in labels))
