"""Inputs and outputs of an .mlmodel file: what callers give, and how the network gets it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpunn.errors import FormatError, ModelError
from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.file import CoreMLFile, shown
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.weights import packed_floats
from gpunn.types import DType, Quantization, Shape, TensorType

CHANNELS = {10: 1, 20: 3, 30: 3}  # ImageFeatureType.ColorSpace: grey, RGB, BGR
BGR = 30
MAX_RANK = 8


@dataclass(frozen=True, slots=True)
class Feature:
    """An input of a model.

    An image has a `color_space`, and is bytes [1, height, width, channels]: grey, or RGB, also where the
    network computes with BGR. Every other input is float32: a network computes with nothing else. `open` are
    the axes whose extents callers choose. `default` is what an optional input is full of: it is no input of
    the graph.
    """

    name: str
    type: TensorType
    open: tuple[int, ...] = ()
    color_space: int = 0
    default: float | None = None


def feature_of(file: CoreMLFile, message: Message) -> Feature:
    """Return an input. Raises FormatError for one that means nothing, RefusedError for types unknown here."""
    kind = message.type.WhichOneof("Type")
    if kind == "imageType":
        return _image(file, message.name, message.type.imageType)
    if kind == "multiArrayType":
        return _array(file, message.name, message.type)
    if kind in ("doubleType", "int64Type"):
        return Feature(message.name, TensorType(DType.FLOAT32, (1,)))
    raise RefusedError(f"input {shown(message.name)} is of the type {kind}")


def _image(file: CoreMLFile, name: str, image: Message) -> Feature:
    if image.colorSpace not in CHANNELS:
        raise RefusedError(f"input {shown(name)} is an image of color space {image.colorSpace}")
    shape = (1, image.height, image.width, CHANNELS[image.colorSpace])
    _check(file, name, shape)
    axes: set[int] = set()
    if image.WhichOneof("SizeFlexibility") == "enumeratedSizes":
        sizes = image.enumeratedSizes.sizes
        axes = {1 for s in sizes if s.height != shape[1]} | {2 for s in sizes if s.width != shape[2]}
    elif image.WhichOneof("SizeFlexibility") == "imageSizeRange":
        ranges = {1: image.imageSizeRange.heightRange, 2: image.imageSizeRange.widthRange}
        axes = {axis for axis, r in ranges.items() if r.lowerBound != r.upperBound}
    bytes_ = TensorType(DType.UINT8, shape, Quantization((1.0,), (0,)))
    return Feature(name, bytes_, tuple(sorted(axes)), image.colorSpace)


def _array(file: CoreMLFile, name: str, type: Message) -> Feature:
    array = type.multiArrayType
    flexible = array.WhichOneof("ShapeFlexibility")
    shapes = [tuple(array.shape)]
    if flexible == "enumeratedShapes":
        shapes = [s for s in (*shapes, *(tuple(s.shape) for s in array.enumeratedShapes.shapes)) if s]
    ranges = array.shapeRange.sizeRanges if flexible == "shapeRange" else ()
    shape = shapes[0] if shapes and shapes[0] else tuple(max(1, r.lowerBound) for r in ranges)
    if not shape:
        file.fail(f"input {shown(name)} has no shape")
    _check(file, name, shape)
    axes = {k for s in shapes if len(s) == len(shape) for k in range(len(s)) if s[k] != shape[k]}
    if len(ranges) == len(shape):
        axes |= {k for k, r in enumerate(ranges) if r.lowerBound != r.upperBound}
    default = _default(array) if type.isOptional else None
    return Feature(name, TensorType(DType.FLOAT32, shape), tuple(sorted(axes)), default=default)


def _default(array: Message) -> float:
    """Return what an optional array is filled with where a caller does not give it."""
    field = array.WhichOneof("defaultOptionalValue")
    return float(getattr(array, field)) if field else 0.0


def _check(file: CoreMLFile, name: str, shape: Shape) -> None:
    if len(shape) > MAX_RANK or min(shape) < 1 or math.prod(shape) >= 2**31:
        file.fail(f"input {shown(name)} has the shape {list(shape[:MAX_RANK])}, which no tensor can have")


def into_network(file: CoreMLFile, feature: Feature, node: Node) -> Value:
    """Add the steps from an input as callers give it to the tensor that layers read."""
    x = node.operand(0)
    if feature.color_space:
        return _from_image(file, feature, node, x)
    shape = x.type.shape
    if file.network.arrayInputShapeMapping or not file.legacy or len(shape) == 5:
        return x
    declared = feature.type.rank
    if declared == 1 and len(shape) in (1, 3):
        five: Shape = (1, 1, *shape, 1, 1) if len(shape) == 1 else (*shape, 1, 1)
    elif declared == 3 and len(shape) in (3, 4):
        five = (1, 1, *shape) if len(shape) == 3 else (1, *shape)
    else:
        raise ModelError(
            f"{file.name}: input {shown(feature.name)} of declared shape {list(feature.type.shape)} cannot "
            f"have the shape {list(shape)}: expected [C] or [sequence, batch, C], [C, H, W] or "
            "[batch, C, H, W], or [sequence, batch, C, H, W]"
        )
    return node.add("reshape", x, shape=five)


def _from_image(file: CoreMLFile, feature: Feature, node: Node, x: Value) -> Value:
    """Turn bytes [N, H, W, C] into float32 [N, C, H, W], or [1, N, C, H, W], scaled and shifted as stated."""
    y: Value = node.add("dequantize", x)
    if feature.color_space == BGR:
        y = node.add(
            "strided_slice", y, begin=(0, 0, 0, None), end=(None,) * 4, strides=(1, 1, 1, -1), shrink_axes=()
        )
    y = node.add("transpose", y, perm=(0, 3, 1, 2))
    for step in file.network.preprocessing:
        if step.featureName in ("", feature.name):
            y = _preprocessed(file, feature, step, node, y)
    if file.network.imageInputShapeMapping == 0:
        y = node.add("reshape", y, shape=(1, *node.shape(y)))
    return y


def _preprocessed(file: CoreMLFile, feature: Feature, step: Message, node: Node, y: Value) -> Value:
    if step.WhichOneof("preprocessor") == "scaler":
        s = step.scaler
        bias = [s.redBias, s.greenBias, s.blueBias]
        if feature.color_space == BGR:
            bias.reverse()
        if CHANNELS[feature.color_space] == 1:
            bias = [s.grayBias]
        scaled = node.add("mul", y, node.scalar(s.channelScale))
        if not any(bias):
            return scaled
        return node.add("add", scaled, node.floats(np.array(bias).reshape(-1, 1, 1)))
    try:
        mean = packed_floats(step.meanImage, "meanImage")
    except FormatError as error:
        file.fail(str(error))
    if mean.size != math.prod(node.shape(y)[1:]):
        file.fail(f"the mean image has {mean.size} values, the image {list(node.shape(y)[1:])}")
    return node.add("sub", y, node.floats(mean.reshape(node.shape(y)[1:])))


def out_of_network(legacy: bool, shape: Shape) -> Shape:
    """Return the shape in which callers get a tensor of the network.

    In networks of five axes, [1, 1, C, H, W] is given as [C, H, W], or as [C] if nothing else is left. A rank
    of 0 becomes 1.
    """
    if legacy and len(shape) == 5 and shape[:2] == (1, 1):
        shape = shape[2:3] if shape[3:] == (1, 1) else shape[2:]
    return shape or (1,)
