"""An .mlmodel classifier for other classes: a new last layer, shapes that follow from it, new labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.importers.common.rewriting import NewLayer
from gpunn.importers.coreml.file import PIPELINES
from gpunn.importers.coreml.messages import Message, model_class
from gpunn.importers.coreml.rewriting import layer_number
from gpunn.types import Array

_KINDS = ("convolution", "innerProduct")  # that may be the last layer
_SHAPED = {"reshape": "targetShape", "reshapeStatic": "targetShape"}  # layers with a shape of their own
_FREE = (  # layers that take any number of classes
    *("softmax", "softmaxND", "flatten", "flattenTo2D", "squeeze", "expandDims", "activation"),
    *("pooling", "globalPooling", "reduce", "transpose", "permute", "unary"),
)
_STRING_KEYS = b"\x12\x00"  # DictionaryFeatureType.stringKeyType, whose message the reader does not need


def with_classes(
    data: bytes,
    name: str,
    options: Mapping[str, Any],
    graph: Graph,
    layer: NewLayer | None,
    labels: Sequence[str],
) -> bytes:
    """Return an .mlmodel classifier with a new last layer and these labels, if its kind has labels.

    Raises UnsupportedError for pipelines, if the layer is no convolution or inner product, and if layers
    after it are made for a number of classes.
    """
    message = model_class().FromString(data)
    kind = message.WhichOneof("Type")
    if kind in PIPELINES:
        _fail(name, "the model is a pipeline")
    network = getattr(message, kind)
    if layer is not None:
        _exchange(name, message, network, graph, layer)
    if kind == "neuralNetworkClassifier":
        network.ClearField("int64ClassLabels")
        network.stringClassLabels.ClearField("vector")
        network.stringClassLabels.vector.extend(labels)
        for feature in message.description.output:
            if feature.name == message.description.predictedFeatureName:
                feature.type.stringType.SetInParent()
            elif feature.type.WhichOneof("Type") == "dictionaryType":
                feature.type.dictionaryType.Clear()
                feature.type.dictionaryType.MergeFromString(_STRING_KEYS)
    return bytes(message.SerializeToString(deterministic=True))


def _exchange(name: str, message: Message, network: Message, graph: Graph, layer: NewLayer) -> None:
    """Give a network the new layer."""
    operation = graph.operations[layer.number]
    number = layer_number(operation.origin)
    if number is None:
        _fail(name, f"no layer of the file is {operation.origin}")
    last = network.layers[number]
    kind = last.WhichOneof("layer")
    params = getattr(last, kind)
    if kind not in _KINDS or len(last.input) != 1 or (kind == "convolution" and params.isDeconvolution):
        _fail(name, f"it is of the type {kind}, not {' or '.join(_KINDS)}")
    params.outputChannels = layer.count
    _put(params.weights, _in_order(kind, layer.filter))
    if params.hasBias:
        _put(params.bias, layer.bias)
    for following in network.layers[number + 1 :]:
        after = following.WhichOneof("layer")
        shape: Any = getattr(getattr(following, after), _SHAPED.get(after, ""), ())
        if not shape and after not in _FREE:
            _fail(name, f"after it comes a layer of the type {after}, which may be made for its classes")
        for axis, extent in enumerate(shape):
            shape[axis] = layer.count if extent == layer.old else extent
    for feature in message.description.output:
        if feature.type.WhichOneof("Type") == "multiArrayType":
            extents = feature.type.multiArrayType.shape
            for axis, extent in enumerate(extents):
                extents[axis] = layer.count if extent == layer.old else extent


def _in_order(kind: str, filter: Array) -> Array:
    """Return a filter in the order of the file: channels before height and width."""
    return filter.transpose(0, 3, 1, 2) if kind == "convolution" else filter


def _put(message: Message, values: Array) -> None:
    """Store values as float32, whatever was there."""
    updatable = message.isUpdatable
    message.Clear()
    message.floatValue.append(np.ascontiguousarray(values, "<f4").tobytes())
    if updatable:
        message.isUpdatable = True


def _fail(name: str, what: str) -> NoReturn:
    raise UnsupportedError(f"{name}: the last layer cannot be exchanged: {what}")
