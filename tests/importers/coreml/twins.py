"""One small network as an .mlmodel and as a .tflite file: a 3x3 convolution, and a classifier behind it."""

from __future__ import annotations

import numpy as np

from gpunn.types import Array, float32
from tests.importers.coreml.builder import floats
from tests.importers.coreml.builder import model as specification
from tests.tflite_builder import Graph

HEIGHT, WIDTH = 6, 7
LABELS = ("ant", "bee", "cat", "dog")
MEAN = STD = 127.5


def weights(seed: int) -> tuple[Array, Array]:
    """The filter [4, 3, 3, 3], outputs and inputs before height and width, and the bias."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(4, 3, 3, 3)).astype(np.float32), generator.normal(size=4).astype(np.float32)


def mlmodel(
    *, photos: bool = True, classes: bool = True, seed: int = 0, optional: float | None = None
) -> bytes:
    """The network in Core ML's format.

    photos: takes photos and scales them, or else an array [3, HEIGHT, WIDTH]. classes: gives probabilities,
    or else all that the convolution gives, [4, HEIGHT - 2, WIDTH - 2]. optional: the default of a second
    input, which is added to the probabilities.
    """
    made = specification((3, HEIGHT, WIDTH), kind="neuralNetworkClassifier" if classes else "neuralNetwork")
    network = made.neuralNetworkClassifier if classes else made.neuralNetwork
    if photos:
        image = made.description.input[0].type.imageType
        image.height, image.width, image.colorSpace = HEIGHT, WIDTH, 20
        scaler = network.preprocessing.add().scaler
        scaler.channelScale, scaler.redBias, scaler.greenBias, scaler.blueBias = 1 / STD, -1, -1, -1
    kernel, bias = weights(seed)
    conv = network.layers.add(name="conv", input=["x"], output=["a"]).convolution
    conv.outputChannels, conv.kernelChannels, conv.hasBias = 4, 3, True
    conv.valid.SetInParent()
    conv.weights.floatValue.append(floats(kernel))
    conv.bias.floatValue.append(floats(bias))
    relu = network.layers.add(name="relu", input=["a"], output=["b" if classes else "y"])
    relu.activation.ReLU.SetInParent()
    if classes:
        pool = network.layers.add(name="pool", input=["b"], output=["c"]).pooling
        pool.type, pool.globalPooling = 1, True
        last = "y" if optional is None else "d"
        network.layers.add(name="softmax", input=["c"], output=[last]).softmax.SetInParent()
        if optional is not None:
            bias = made.description.input.add(name="bias")
            bias.type.isOptional = True
            bias.type.multiArrayType.shape.append(len(LABELS))
            bias.type.multiArrayType.floatDefaultValue = optional
            network.layers.add(name="bias", input=["d", "bias"], output=["y"]).add.SetInParent()
        network.stringClassLabels.vector.extend(LABELS)
        made.description.predictedFeatureName = "label"
        made.description.predictedProbabilitiesName = "y"
        made.description.output[0].type.dictionaryType.SetInParent()
        made.description.output.add(name="label").type.stringType.SetInParent()
    return bytes(made.SerializeToString())


def tflite(*, classes: bool = True, seed: int = 0) -> bytes:
    """The network in TFLite's format, without labels."""
    kernel, bias = weights(seed)
    graph = Graph()
    x = graph.input(float32(1, HEIGHT, WIDTH, 3), "image")
    options = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
    height, width = HEIGHT - 2, WIDTH - 2
    operands = (x, graph.constant(kernel.transpose(0, 2, 3, 1)), graph.constant(bias))
    relu = {**options, "fused_activation_function": "RELU"}
    (y,) = graph.add("CONV_2D", operands, [float32(1, height, width, 4)], relu)
    if classes:
        size = {"filter_height": height, "filter_width": width}
        (y,) = graph.add("AVERAGE_POOL_2D", (y,), [float32(1, 1, 1, 4)], {**options, **size})
        (y,) = graph.add("RESHAPE", (y, graph.constant(np.int32([1, 4]))), [float32(1, 4)])
        (y,) = graph.add("SOFTMAX", (y,), [float32(1, 4)], {"beta": 1.0})
    return graph.build([y])
