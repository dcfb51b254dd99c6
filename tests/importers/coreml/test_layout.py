"""Networks with channels first run without transposes, and with the dispatches of their TFLite twins."""

from __future__ import annotations

import pytest

import gpunn
from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.kernel import Kernel
from gpunn.passes import optimise
from tests.resources import shared

# What is done with the bytes of a photo: TFLite's float models take reals. The first layer has the scale.
PREPARED = ["dequantize", "add"]
# SqueezeNet.mlmodel is version 1.1 of the network, with the same kinds of layers; its average of the whole
# image is a mean.
SYNONYMS = {"average_pool2d": "pool", "mean": "pool"}


def dispatches(path: str) -> list[str]:
    """The op of each dispatch."""
    found = []
    for operation in optimise(gpunn.load(shared(path))).operations:
        if operation.definition.alias:
            continue
        kernels = lower(operation, BASELINE)
        assert not isinstance(kernels, str), kernels
        assert all(isinstance(kernel, Kernel) for kernel in kernels)
        found += [SYNONYMS.get(operation.op, operation.op)] * len(kernels)
    return found


@pytest.mark.parametrize("name", ["MobileNet", "SqueezeNet", "SqueezeNetFP16", "MNIST", "mnistCNN"])
def test_no_transpose_is_left(name: str) -> None:
    model = gpunn.load(shared(f"models/coreml/{name}.mlmodel"))
    assert sum(operation.op == "transpose" for operation in model.operations) >= 8
    assert not [operation.op for operation in optimise(model).operations if operation.op == "transpose"]


@pytest.mark.parametrize(
    ("model", "twin"),
    [
        ("MobileNet.mlmodel", "mobilenet_v1_1.0_224.tflite"),
        ("SqueezeNet.mlmodel", "squeezenet.tflite"),
        ("SqueezeNetFP16.mlmodel", "squeezenet.tflite"),
    ],
)
def test_there_are_as_many_dispatches_as_in_the_twin(model: str, twin: str) -> None:
    ours, theirs = dispatches(f"models/coreml/{model}"), dispatches(f"models/tflite/{twin}")
    assert ours[:2] == PREPARED
    assert sorted(ours[2:]) == sorted(theirs)
