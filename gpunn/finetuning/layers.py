"""The layers of a classifier: the last one, what comes before it, and what of it can be trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.errors import UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.importers import with_classes
from gpunn.importers.common.rewriting import NewLayer
from gpunn.model import Model, load
from gpunn.ops.filter import BIAS, FILTER
from gpunn.training.step import value_of
from gpunn.types import DType
from gpunn.vision import score_output


@dataclass(frozen=True, slots=True, eq=False)
class LastLayer:
    """The last layer of a classifier: the number of its operation in the graph, and its filter."""

    number: int
    operation: Operation
    filter: Operand
    axis: int


def last_layer(model: Graph) -> LastLayer:
    """Return the last layer of a classifier, whose channels are the classes.

    Raises UnsupportedError if the model has no such layer, or if its weights are no float32 or float16.
    """
    classes = score_output(model).classes
    for number in reversed(range(len(model.operations))):
        operation = model.operations[number]
        facet = operation.definition.filter
        if facet is None or facet.output_axis is None:
            continue
        filter = operation.inputs[FILTER]
        if filter is None or not _is_weight(model, filter):
            kind = "computed" if filter is None or filter.value is None else filter.type.dtype.value
            kind = "quantised" if filter is not None and filter.hybrid else kind
            raise UnsupportedError(
                f"{model.name}: the weights of its last layer, {operation.op} ({operation.origin}), are "
                f"{kind}: only float32 and float16 weights are trained"
            )
        if filter.type.shape[facet.output_axis] != classes:
            break
        return LastLayer(number, operation, filter, facet.output_axis)
    raise UnsupportedError(f"{model.name}: no convolution or product gives its {classes} classes")


def weights_of_all(model: Graph) -> tuple[Operand, ...]:
    """Return the filters and biases of all convolutions and products that can be trained."""
    found = [w for operation in model.operations for w in weights_in(model, operation)]
    return tuple(dict.fromkeys(found))


def weights_in(model: Graph, operation: Operation) -> Iterator[Operand]:
    """Yield the filter and the bias of a convolution or product, if it is one, and if they can be trained."""
    facet = operation.definition.filter
    if facet is None:
        return
    for index in (FILTER, BIAS) if facet.output_axis is not None else (FILTER,):
        operand = operation.inputs[index] if index < len(operation.inputs) else None
        if operand is not None and _is_weight(model, operand):
            yield operand


def _is_weight(model: Graph, operand: Operand) -> bool:
    return operand.type.dtype is DType.FLOAT32 and not operand.hybrid and value_of(model, operand) is not None


def for_classes(model: Model, labels: Sequence[str], random: np.random.Generator) -> Model:
    """Return a classifier for these classes, read from a changed file of the model.

    If the model has other classes, its last layer gets random weights. Raises UnsupportedError for a model
    whose file cannot have other classes.
    """
    new = None
    if tuple(labels) != tuple(model.labels):
        last = last_layer(model)
        new = NewLayer.random(last.number, last.filter.type.shape, last.axis, len(labels), random)
    data, options = with_classes(model, new, labels)
    made = load(data, **options)
    made.name, made.pixel_scale = model.name, model.pixel_scale
    if score_output(made).classes != len(labels):
        raise UnsupportedError(
            f"{model.name}: with a last layer for {len(labels)} classes it gives {score_output(made).classes}"
        )
    if not made.labels:
        made.labels = tuple(labels)
    return made


def front_and_head(model: Model, number: int) -> tuple[Model, Model, tuple[Operand, ...]] | None:
    """Return what computes the input of the last layer, the rest, and the weights of the layer in the rest.

    `number` is the layer's. The input of the rest is what the front gives. None if the rest also reads
    something else of the front.
    """
    features = model.operations[number].inputs[0]
    assert features is not None
    front = Model.of(model.with_operations(model.operations[:number]))
    front.outputs, front.updates = [features], {}
    head = Model(model.name)
    exchange = {features: head.input("features", features.type)}
    for operation in model.operations[number:]:
        for operand in operation.inputs:
            if operand is None or operand in exchange:
                continue
            value = value_of(model, operand)
            if value is None:
                return None
            exchange[operand] = head.constant(operand.name, value, operand.type)
        results = head.add(
            operation.custom or operation.op,
            [i and exchange[i] for i in operation.inputs],
            operation.attrs,
            origin=operation.origin,
            names=[o.name for o in operation.outputs],
        )
        exchange |= dict(zip(operation.outputs, results, strict=True))
    head.output(*(exchange[o] for o in model.outputs))
    return front, head, tuple(exchange[w] for w in weights_in(model, model.operations[number]))
