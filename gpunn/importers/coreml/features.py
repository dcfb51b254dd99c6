"""Inputs and outputs of a model in an .mlmodel file, as the file describes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpunn.graph.classes import Classes
from gpunn.importers.common.names import shown
from gpunn.importers.common.node import RefusedError
from gpunn.importers.common.refusals import Refusals
from gpunn.importers.coreml.file import Model, Part, Pipeline
from gpunn.importers.coreml.messages import Message
from gpunn.types import DType, Quantization, Shape, TensorType

CHANNELS = {10: 1, 20: 3, 30: 3, 40: 1}  # ImageFeatureType.ColorSpace: grey, RGB, BGR, grey in float16
BGR, GREY_FLOAT16 = 30, 40
BYTES = Quantization((1.0,), (0,))  # of images: the numbers 0 to 255 themselves
NUMBERS = ("doubleType", "int64Type")
LABELS = ("stringType", "int64Type")  # of the best class of a classifier
MAX_RANK = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Feature:
    """An input of a model.

    An image has a `color_space`, and is [1, height, width, channels]: bytes, grey or RGB, also where the
    network computes with BGR, or grey in float16. Every other input is float32: a network computes with
    nothing else. `open` are the axes whose extents callers choose. `default` is what an optional input is
    full of where it is not given.
    """

    name: str
    type: TensorType
    open: tuple[int, ...] = ()
    color_space: int = 0
    default: float | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OutputFeature:
    """An output of a model, and the `tensor` of the network, or of the pipeline, that it shows.

    `shape` is the declared one, () if there is none. An image has a `color_space`. `scores`: it has the
    probabilities of the classes.
    """

    name: str
    tensor: str
    shape: Shape = ()
    color_space: int = 0
    scores: bool = False


def inputs_of(model: Model, refusals: Refusals) -> list[Feature]:
    """Return the inputs, those that must be given first; note among the refusals those that cannot be read.

    Raises FormatError for inputs that mean nothing.
    """
    found, names = [], Counter(message.name for message in model.description.input)
    for message in model.description.input:
        if names[message.name] > 1:
            model.fail(f"input {shown(message.name)} is there twice")
        try:
            found.append(_input(model, message))
        except RefusedError as refusal:
            refusals.add(model.within(str(refusal)))
    return sorted(found, key=lambda feature: feature.default is not None)


def _input(part: Part, message: Message) -> Feature:
    kind = message.type.WhichOneof("Type")
    if kind == "imageType":
        return _image(part, message.name, message.type.imageType)
    if kind == "multiArrayType":
        return _array(part, message.name, message.type)
    if kind in NUMBERS:
        return Feature(message.name, TensorType(DType.FLOAT32, (1,)), default=_default(message.type))
    raise RefusedError(f"input {shown(message.name)} is of the type {kind}")


def _image(part: Part, name: str, image: Message) -> Feature:
    space = _color_space(f"input {shown(name)}", image)
    shape = (1, image.height, image.width, CHANNELS[space])
    _check(part, name, shape)
    axes: set[int] = set()
    if image.WhichOneof("SizeFlexibility") == "enumeratedSizes":
        sizes = image.enumeratedSizes.sizes
        axes = {1 for s in sizes if s.height != shape[1]} | {2 for s in sizes if s.width != shape[2]}
    elif image.WhichOneof("SizeFlexibility") == "imageSizeRange":
        ranges = {1: image.imageSizeRange.heightRange, 2: image.imageSizeRange.widthRange}
        axes = {axis for axis, r in ranges.items() if r.lowerBound != r.upperBound}
    return Feature(name, pixels_type(space, shape), tuple(sorted(axes)), space)


def pixels_type(color_space: int, shape: Shape) -> TensorType:
    """Return the type of an image's pixels."""
    if color_space == GREY_FLOAT16:
        return TensorType(DType.FLOAT16, shape)
    return TensorType(DType.UINT8, shape, BYTES)


def _color_space(what: str, image: Message) -> int:
    space: int = image.colorSpace
    if space not in CHANNELS:
        raise RefusedError(f"{what} is an image of color space {space}")
    return space


def _array(part: Part, name: str, type: Message) -> Feature:
    array = type.multiArrayType
    flexible = array.WhichOneof("ShapeFlexibility")
    shapes = [tuple(array.shape)]
    if flexible == "enumeratedShapes":
        shapes = [s for s in (*shapes, *(tuple(s.shape) for s in array.enumeratedShapes.shapes)) if s]
    ranges = array.shapeRange.sizeRanges if flexible == "shapeRange" else ()
    shape = shapes[0] if shapes and shapes[0] else tuple(max(1, r.lowerBound) for r in ranges)
    if not shape:
        part.fail(f"input {shown(name)} has no shape")
    _check(part, name, shape)
    axes = {k for s in shapes if len(s) == len(shape) for k in range(len(s)) if s[k] != shape[k]}
    if len(ranges) == len(shape):
        axes |= {k for k, r in enumerate(ranges) if r.lowerBound != r.upperBound}
    return Feature(name, TensorType(DType.FLOAT32, shape), tuple(sorted(axes)), default=_default(type))


def _default(type: Message) -> float | None:
    """Return what an optional input is filled with if a caller does not give it, None for another input."""
    if not type.isOptional:
        return None
    field = type.multiArrayType.WhichOneof("defaultOptionalValue")
    return float(getattr(type.multiArrayType, field)) if field else 0.0


def _check(part: Part, name: str, shape: Shape) -> None:
    if len(shape) > MAX_RANK or min(shape) < 1 or math.prod(shape) >= 2**31:
        part.fail(f"input {shown(name)} has the shape {list(shape[:MAX_RANK])}, which no tensor can have")


def outputs_of(model: Model, refusals: Refusals) -> list[OutputFeature]:
    """Return the outputs; note among the refusals those that cannot be read.

    A classifier gives the probabilities of its classes. The name of the best class is no tensor.
    """
    found: dict[str, OutputFeature] = {}
    scores = scores_of(model)
    for message in model.description.output:
        if message.name in found:
            model.fail(f"output {shown(message.name)} is there twice")
        try:
            found.update((feature.name, feature) for feature in _outputs(message, scores))
        except RefusedError as refusal:
            refusals.add(model.within(str(refusal)))
    if scores is not None and not any(f.tensor == scores.tensor for f in found.values()):
        found[scores.name] = scores
    if not found and not refusals:
        model.fail("has no outputs")
    return list(found.values())


def _outputs(message: Message, scores: OutputFeature | None) -> Iterator[OutputFeature]:
    """Yield what an output stands for: nothing for the name of the best class. `scores`: see scores_of()."""
    kind, name = message.type.WhichOneof("Type"), message.name
    if scores is not None and kind in LABELS:
        return
    if kind == "dictionaryType" and scores is not None:
        yield OutputFeature(name, scores.tensor, scores=True)
    elif kind == "imageType":
        space = _color_space(f"output {shown(name)}", message.type.imageType)
        yield OutputFeature(name, name, color_space=space)
    elif kind in (None, "multiArrayType", *NUMBERS):
        same = scores is not None and scores.tensor == name
        yield OutputFeature(name, name, tuple(message.type.multiArrayType.shape), scores=same)
    else:
        raise RefusedError(f"output {shown(name)} is of the type {kind}")


def scores_of(model: Model) -> OutputFeature | None:
    """Return where a classifier gives the probabilities of its classes; None if the model is no classifier.

    In a pipeline, the last classifier is meant.
    """
    if isinstance(model, Pipeline):
        inner = next((s for s in map(scores_of, reversed(model.models)) if s is not None), None)
        if inner is None:
            return None
        tensor = default = inner.name
    elif model.labels is None:
        return None
    else:
        tensor = model.probabilities
        default = model.description.predictedProbabilitiesName or tensor
    named = (m.name for m in model.description.output if m.type.WhichOneof("Type") == "dictionaryType")
    return OutputFeature(next(named, default), tensor, scores=True)


def classes_of(model: Model) -> Classes | None:
    """Return the classes of a classifier, in a pipeline of the last one.

    None if there is none, or if the probabilities are no array among the outputs.
    """
    wanted = scores_of(model)
    if wanted is None:
        return None
    names = [feature.name for feature in outputs_of(model, Refusals(model.file)) if feature.scores]
    if not names:
        return None
    network = model
    while isinstance(network, Pipeline):
        network = next(m for m in reversed(network.models) if scores_of(m) is not None)
    stated = (part.description.predictedFeatureName for part in (model, network))
    best = next(filter(None, stated), "classLabel")
    return Classes(network.labels or (), wanted.name if wanted.name in names else names[0], best)
