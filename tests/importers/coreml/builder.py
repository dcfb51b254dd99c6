"""Small .mlmodel files for tests, made of the reader's own messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gpunn
from gpunn.importers.coreml.messages import model_class

Message = Any


def model(shape: Sequence[int] = (2, 4, 4), *, exact: bool = False, kind: str = "neuralNetwork") -> Message:
    """A specification with the input "x" and the output "y", without layers."""
    made = model_class()(specificationVersion=4)
    given = made.description.input.add(name="x")
    given.type.multiArrayType.shape.extend(shape)
    given.type.multiArrayType.dataType = 65568
    made.description.output.add(name="y").type.multiArrayType.dataType = 65568
    getattr(made, kind).arrayInputShapeMapping = int(exact)
    return made


def image_model(color_space: int, height: int = 3, width: int = 2) -> Message:
    """A specification whose input "x" is an image, and that copies it to "y"."""
    made = model()
    image = made.description.input[0].type.imageType
    image.height, image.width, image.colorSpace = height, width, color_space
    layer(made, "activation").linear.alpha = 1
    return made


def layer(
    made: Message, kind: str, inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",)
) -> Message:
    """Add a layer to a model, or to a network in a layer of it; return its parameters."""
    network = getattr(made, "neuralNetwork", made)
    added = network.layers.add(name=f"the {kind}", input=inputs, output=outputs)
    getattr(added, kind).SetInParent()
    return getattr(added, kind)


def linear(made: Message, x: str, y: str, alpha: float = 1, beta: float = 0) -> None:
    """Add y = alpha * x + beta."""
    params = layer(made, "activation", [x], [y]).linear
    params.alpha, params.beta = alpha, beta


def assign(made: Message, x: str, y: str, alpha: float = 1, beta: float = 0) -> None:
    """Add layers that give the tensor y, which may be there already, the value alpha * x + beta."""
    linear(made, x, f"{y} next", alpha, beta)
    layer(made, "copy", [f"{y} next"], [y])


def constant(made: Message, name: str, values: Sequence[float]) -> None:
    """Add a constant of rank 1."""
    params = layer(made, "loadConstantND", [], [name])
    params.shape.append(len(values))
    params.data.floatValue.append(floats(values))


def below(made: Message, x: str, y: str, limit: float) -> None:
    """Add y = x < limit."""
    layer(made, "lessThan", [x], [y]).alpha = limit


def inner_product(outputs: int = 3, inputs: int = 4) -> Message:
    """A specification with one inner product, whose weights are not set."""
    made = model((inputs,), exact=True)
    params = layer(made, "innerProduct")
    params.inputChannels, params.outputChannels = inputs, outputs
    return made


def weights_of(made: Message) -> Message:
    """The weights of inner_product()."""
    return made.neuralNetwork.layers[0].innerProduct.weights


def floats(values: Any) -> bytes:
    """Bytes of packed floats."""
    return np.asarray(values, "<f4").tobytes()


def single(kind: str, *shapes: Sequence[int], outputs: int = 1) -> tuple[Message, Message]:
    """A specification of one layer, and the layer's parameters.

    Its inputs x0, x1, ... have these shapes, which the layer gets as they are; its outputs are y0, y1, ...
    """
    made = model(shapes[0], exact=True)
    names = [f"x{k}" for k in range(len(shapes))], [f"y{k}" for k in range(outputs)]
    del made.description.input[:], made.description.output[:]
    for name, shape in zip(names[0], shapes, strict=True):
        made.description.input.add(name=name).type.multiArrayType.shape.extend(shape)
    for name in names[1]:
        made.description.output.add(name=name).type.multiArrayType.dataType = 65568
    return made, layer(made, kind, *names)


def run(made: Message, backend: str, *inputs: Any) -> list[np.ndarray]:
    """What a specification gives for inputs in order."""
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        found = compiled(*(np.asarray(x, np.float32) for x in inputs))
    return list(found) if isinstance(found, tuple) else [found]
