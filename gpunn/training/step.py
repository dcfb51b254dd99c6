"""A training step as a graph: forward, loss, gradients, and weights that change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.exchange import with_operands
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.ops.gradient import Symbol
from gpunn.passes.expand import GraphExpansion
from gpunn.training.differentiate import differentiate
from gpunn.training.losses import cross_entropy, cross_entropy_with_logits, mean_squared_error
from gpunn.training.optimizers import Optimizer
from gpunn.types import Array, DType, TensorType

TARGET = "target"
LOSSES = ("mean_squared_error", "cross_entropy", "cross_entropy_with_logits")
_SCALAR = TensorType(DType.FLOAT32, ())


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight to train: a constant of a model, under the name that its variable has.

    `place` says which operation of the model reads it first, and as which operand. `value` is what it begins
    with.
    """

    name: str
    place: tuple[int, int]
    value: Array

    @property
    def before(self) -> str:
        """Return the name of the variable that has the value before the last step."""
        return f"{self.name} before the step"

    def operand_of(self, model: Graph) -> Operand:
        """Return the constant in a model that has the same operations, perhaps for inputs of other shapes."""
        operation, index = self.place
        found = model.operations[operation].inputs[index] if operation < len(model.operations) else None
        if found is None or value_of(model, found) is None or found.type.shape != self.value.shape:
            raise ModelError(
                f"weight {self.name!r} has another place in the model for inputs of these shapes"
            )
        return found


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss by its name, of a result; cross entropy adds up along an axis.

    `place` says which operation of the model computes the result, and the number of the result there.
    """

    kind: str
    place: tuple[int, int]
    axis: int = -1

    @property
    def of_classes(self) -> bool:
        """Tell whether targets may be numbers of classes."""
        return self.kind != "mean_squared_error"

    def add(self, graph: Graph) -> Operand:
        """Add the input "target" and the loss to a graph; return the loss."""
        operation, index = self.place
        predicted = graph.operations[operation].outputs[index]
        target = graph.input(TARGET, predicted.type)
        if self.of_classes:
            add = cross_entropy if self.kind == "cross_entropy" else cross_entropy_with_logits
            return add(graph, predicted, target, self.axis)
        return mean_squared_error(graph, predicted, target)


def weights_of(model: Graph, chosen: Iterable[str | Operand]) -> tuple[Weight, ...]:
    """Return the weights that are chosen: constants or their names.

    A constant may also be computed of others by one operation: weights that a file has as float16. Raises
    ModelError for names that the model does not have, or has several times, and for what is no float32
    constant.
    """
    operands, found = model.operands(), list[Weight]()
    for number, name in enumerate(chosen):
        operand = _chosen(model, operands, name)
        value = value_of(model, operand)
        if value is None or operand.type.dtype is not DType.FLOAT32:
            raise ModelError(f"only float32 constants can be trained, {operand!r} is none")
        readers = [k for k, operation in enumerate(model.operations) if operand in operation.inputs]
        if not readers:
            raise ModelError(f"no operation reads {operand!r}, so it cannot be trained")
        place = readers[0], model.operations[readers[0]].inputs.index(operand)
        if place in [weight.place for weight in found]:
            raise ModelError(f"{operand!r} is named twice among the trainable weights")
        found.append(Weight(f"weight {number}: {operand.name}", place, value))
    if not found:
        raise ModelError("there is nothing to train: no weight is named")
    return tuple(found)


def value_of(model: Graph, operand: Operand) -> Array | None:
    """Return the value of a constant, or of what is computed of constants, as float32 from float16."""
    if operand.value is not None:
        return operand.value
    maker = next((o for o in model.operations if operand in o.outputs), None)
    known = [] if maker is None else [i.value for i in maker.inputs if i is not None]
    if maker is None or len(known) != len(maker.inputs) or any(value is None for value in known):
        return None
    return maker.stored(maker.evaluate(known))[maker.outputs.index(operand)]


def _chosen(model: Graph, operands: Sequence[Operand], name: str | Operand) -> Operand:
    found = [o for o in operands if (o is name if isinstance(name, Operand) else o.name == name)]
    if len(found) != 1:
        count = "no operand" if not found else f"{len(found)} operands"
        given = name.name if isinstance(name, Operand) else name
        raise ModelError(f"model {model.name!r} has {count} {given!r}")
    return found[0]


def with_values(model: Graph, weights: Iterable[Weight], values: Mapping[str, Array]) -> Graph:
    """Return a model with other values of weights, by their names."""
    exchange = {}
    for weight in weights:
        operand = weight.operand_of(model)
        exchange[operand] = model.constant(operand.name, values[weight.name], operand.type)
    return with_operands(model, exchange)


def with_values_of(model: Graph, operands: Sequence[Operand], values: Sequence[Array]) -> Graph:
    """Return a model with other values of constants, or of what is computed of them: see weights_of()."""
    weights = weights_of(model, operands)
    return with_values(model, weights, {w.name: v for w, v in zip(weights, values, strict=True)})


def loss_graph(model: Graph, weights: Sequence[Weight], loss: Loss) -> tuple[Graph, tuple[Operand, ...]]:
    """Return a model with a loss, which is its only output, and its weights, under the names of `weights`."""
    exchange = {}
    for weight in weights:
        operand = weight.operand_of(model)
        exchange[operand] = model.constant(weight.name, weight.value, operand.type)
    graph = with_operands(model, exchange)
    found = loss.add(graph)
    graph.outputs = [found]
    return graph, tuple(exchange.values())


def step_graph(model: Graph, weights: Sequence[Weight], loss: Loss, optimizer: Optimizer) -> Graph:
    """Return the graph of a training step, whose output is the loss before the weights change.

    Its inputs are those of the model, the target, and the scalars of the optimiser. Its variables are the
    weights, their values before the step, and the optimiser's moments. Raises what differentiate() raises.
    """
    forward, constants = loss_graph(model, weights, loss)
    found = differentiate(forward, forward.outputs[0], constants)
    graph = found.graph
    graph.output(found.loss)
    to = GraphExpansion(graph, "update", "optimizer")
    names = [f"scalar {k} of the optimizer" for k in range(optimizer.scalars)]
    scalars = [Symbol(to, graph.input(name, _SCALAR, rounds=True)) for name in names]
    for weight, parameter, gradient in zip(weights, found.parameters, found.gradients, strict=True):
        names = [f"moment {k} of {weight.name}" for k in range(optimizer.moments)]
        moments = [graph.variable(name, parameter.type) for name in names]
        before = graph.variable(weight.before, parameter.type, weight.value)
        symbols, now = [Symbol(to, moment) for moment in moments], Symbol(to, parameter)
        changed, after = optimizer.changed(now, Symbol(to, gradient), symbols, scalars)
        # The copy is an op, because a variable that is itself the next value of another stays on the host.
        copy = now.of("maximum", now)
        for variable, value in zip((parameter, before, *moments), (changed, copy, *after), strict=True):
            assert isinstance(value.tensor, Operand)
            graph.update(variable, value.tensor)
    return graph


def first_not_finite(graph: Graph, inputs: Sequence[Array], weights: Mapping[str, Array]) -> str | None:
    """Compute a graph on the host, with these weights, and say what is first not finite; None if all is."""
    values = {**graph.variables, **dict(zip(graph.inputs, inputs, strict=True))}
    for operand in graph.inputs:
        if not _finite(values[operand]):
            return f"input {operand.name!r}"
    for operation in graph.operations:
        known = [None if i is None else values.get(i, weights.get(i.name, i.value)) for i in operation.inputs]
        for given, value in zip(operation.inputs, known, strict=True):
            if given is not None and given.name in weights and value is not None and not _finite(value):
                reader = f"which {operation.op} ({operation.origin}) reads"
                return f"{given.name!r}, {reader}: the gradient of the step before, or its change, was not"
        with np.errstate(all="ignore"):
            results = operation.evaluate(known)
        for operand, value in zip(operation.outputs, results, strict=True):
            if not _finite(value):
                return f"{operand.name!r}, the result of {operation.op} ({operation.origin})"
            values[operand] = value
    return None


def _finite(value: Array) -> bool:
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
