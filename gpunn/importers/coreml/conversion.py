"""Conversion between the arrays that callers see and the tensors of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gpunn.errors import FormatError, ModelError
from gpunn.importers.common.names import shown
from gpunn.importers.coreml.features import BGR, CHANNELS, GREY_FLOAT16, Feature, OutputFeature
from gpunn.importers.coreml.file import Network
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.weights import packed_floats
from gpunn.types import Array, DType, Shape

MAX_STEPS = 1 << 12  # of preprocessing that is for all images, in all


def preprocessing_of(network: Network, features: Sequence[Feature]) -> Mapping[str, Sequence[Message]]:
    """Return the preprocessing of each image among the inputs, by name: steps without a name are for all.

    Raises FormatError if a small file asks for too many steps.
    """
    images = [feature.name for feature in features if feature.color_space]
    steps = network.message.preprocessing
    unnamed = sum(not step.featureName for step in steps)
    if unnamed and unnamed * len(images) > max(MAX_STEPS, len(images)):
        network.fail(f"asks for {unnamed} steps of preprocessing for each of {len(images)} images")
    found: dict[str, list[Message]] = {name: [] for name in images}
    for step in steps:
        for name in (step.featureName,) if step.featureName else images:
            if name in found:
                found[name].append(step)
    return found


def into_network(network: Network, feature: Feature, steps: Sequence[Message], node: Node) -> Value:
    """Add the steps from an input as callers give it to the tensor that layers read.

    `steps` are an image's preprocessing.
    """
    x = node.operand(0)
    if feature.color_space:
        return _from_image(network, feature, steps, node, x)
    shape = x.type.shape
    if network.message.arrayInputShapeMapping or not network.legacy or len(shape) == 5:
        return x
    declared = feature.type.rank
    if declared == 1 and len(shape) in (1, 3):
        five: Shape = (1, 1, *shape, 1, 1) if len(shape) == 1 else (*shape, 1, 1)
    elif declared == 3 and len(shape) in (3, 4):
        five = (1, 1, *shape) if len(shape) == 3 else (1, *shape)
    else:
        raise ModelError(
            f"{network.name}: input {shown(feature.name)} of declared shape {list(feature.type.shape)} "
            f"cannot have the shape {list(shape)}: expected [C] or [sequence, batch, C], [C, H, W] or "
            "[batch, C, H, W], or [sequence, batch, C, H, W]"
        )
    return node.add("reshape", x, shape=five)


def _from_image(network: Network, feature: Feature, steps: Sequence[Message], node: Node, x: Value) -> Value:
    """Turn pixels [N, H, W, C] into float32 [N, C, H, W], or [1, N, C, H, W], scaled and shifted."""
    y: Value = node.add("dequantize", x)
    if feature.color_space == BGR:
        y = _turned(node, y)
    y = node.add("transpose", y, perm=(0, 3, 1, 2))
    for step in steps:
        y = _preprocessed(network, feature, step, node, y)
    if network.message.imageInputShapeMapping == 0:
        y = node.add("reshape", y, shape=(1, *node.shape(y)))
    return y


def _turned(node: Node, y: Value) -> Value:
    """Turn RGB into BGR along the last of four axes, or back."""
    begin, end = (0, 0, 0, None), (None,) * 4
    return node.add("strided_slice", y, begin=begin, end=end, strides=(1, 1, 1, -1), shrink_axes=())


def _preprocessed(network: Network, feature: Feature, step: Message, node: Node, y: Value) -> Value:
    if step.WhichOneof("preprocessor") == "scaler":
        s = step.scaler
        bias = [s.redBias, s.greenBias, s.blueBias]
        if feature.color_space == BGR:
            bias.reverse()
        if CHANNELS[feature.color_space] == 1:
            bias = [s.grayBias]
        return _scaled(node, y, s.channelScale, np.array(bias, np.float64).reshape(-1, 1, 1))
    try:
        mean = packed_floats(step.meanImage, "meanImage", network.chunks)
    except FormatError as error:
        network.fail(str(error))
    if mean.size != math.prod(node.shape(y)[1:]):
        network.fail(f"the mean image has {mean.size} values, the image {list(node.shape(y)[1:])}")
    return node.add("sub", y, node.floats(mean.reshape(node.shape(y)[1:])))


def _scaled(node: Node, y: Value, scale: float, bias: Array) -> Value:
    """Return scale * y + bias, with one number of `bias` for each channel.

    The sum comes first, as scale * (y + bias / scale), which rounds by no more: the first layer can take the
    product into its weights.
    """
    with np.errstate(all="ignore"):
        shift = (bias / np.float64(scale)).astype(np.float32)
    if not bias.any():
        return node.add("mul", y, node.scalar(scale))
    if scale and np.isfinite(shift).all():
        return node.add("mul", node.add("add", y, node.floats(shift)), node.scalar(scale))
    return node.add("add", node.add("mul", y, node.scalar(scale)), node.floats(bias))


def out_of_network(legacy: bool, feature: OutputFeature, shape: Shape) -> Shape:
    """Return the shape in which callers get a tensor of the network, if it is no image.

    A rank of 0 becomes 1. In networks of five axes, sequence and batch go if both are 1, and then height and
    width: as the declared shape says, [C] or [C, H, W], or if both are 1. A tensor whose channels contradict
    the declared shape keeps five axes, as in Core ML.
    """
    if not legacy or len(shape) != 5 or shape[:2] != (1, 1):
        return shape or (1,)
    channels, declared = shape[2], feature.shape
    if not feature.scores and len(declared) in (1, 3):
        if declared[0] != channels or (len(declared) == 1 and shape[3:] != (1, 1)):
            return shape
        return shape[2:] if len(declared) == 3 else (channels,)
    return (channels,) if shape[3:] == (1, 1) else shape[2:]


def to_image(feature: OutputFeature, node: Node, y: Value) -> Value:
    """Turn a tensor [..., C, H, W] into pixels [N, H, W, C]: bytes, grey or RGB, or grey in float16."""
    shape, channels = node.shape(y), CHANNELS[feature.color_space]
    if len(shape) < 3 or shape[-3] != channels:
        node.corrupt(f"an image of {channels} channels cannot be of the shape {list(shape)}")
    if len(shape) != 4:
        y = node.add("reshape", y, shape=(math.prod(shape[:-3]), *shape[-3:]))
    y = node.add("transpose", y, perm=(0, 2, 3, 1))
    if feature.color_space == BGR:
        y = _turned(node, y)
    if feature.color_space == GREY_FLOAT16:
        return node.add("cast", y, dtype=DType.FLOAT16.value)
    return node.add("quantize", y, dtype=DType.UINT8.value, scale=1.0)
