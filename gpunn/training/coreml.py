"""update(): trains an updatable Core ML network as its file says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.coreml import recognise
from gpunn.importers.coreml.updates import UpdatableWeight, Update, update_of, with_weights
from gpunn.model import Model, load
from gpunn.training.optimizers import SGD, Adam, Optimizer
from gpunn.training.trainer import Progress, Trainer
from gpunn.types import Array, Shape

# How a filter of a file, [outputs, inputs, height, width], may lie in a model.
_ORDERS = {4: ((0, 2, 3, 1), (1, 2, 3, 0))}


def update(
    model: Model,
    examples: Mapping[str, Any],
    *,
    epochs: int | None = None,
    learning_rate: float | None = None,
    mini_batch_size: int | None = None,
    shuffle: bool | None = None,
    seed: int | None = None,
    on_progress: Callable[[Progress], bool | None] | None = None,
    backend: str = "auto",
    device: str | int | None = None,
) -> Model:
    """Train an updatable network of an .mlmodel file as the file says, and return the updated model.

    examples: arrays by the names of the model's inputs and of the target, whose rows are the examples. For
    cross entropy the target is the number of the class, or its name if the file says that the target is the
    predicted class. Mini-batches are rows in order; with `shuffle` in another order in each epoch, which
    follows from the seed. The last mini-batch of an epoch may be smaller. Other arguments are those of the
    file if they are None, or must be among those that the file allows.
    on_progress: called after each mini-batch; if it returns False, the training stops there.

    Raises UnsupportedError if the model is not of an updatable network, FormatError if the file contradicts
    itself, ModelError for examples that do not fit and for values that the file does not allow,
    DivergenceError if the loss is not finite. Source: NeuralNetwork.proto, NetworkUpdateParameters.
    """
    data, options = _contents(model)
    stated = update_of(data, model.name)
    size = _whole(stated, "miniBatchSize", mini_batch_size)
    count = _whole(stated, "epochs", epochs)
    rows = _rows(model, stated, examples)
    total = len(rows[stated.target])
    seeded = int(stated.parameters["seed"].chosen(seed))
    order = _Order(total, size, np.random.default_rng(abs(seeded)) if _mixed(stated, shuffle) else None)
    shapes = {i.name: _batched(model, i, min(size, total)) for i in model.inputs}
    whole = model.reshaped(shapes)
    result = _result(whole, stated)
    trainer = Trainer(
        whole,
        loss=stated.loss,
        optimizer=_optimizer(stated, learning_rate),
        trainable=[_constant(whole, weight)[0] for weight in stated.weights],
        output=result,
        axis=-3 if result.type.rank >= 3 else -1,
        backend=backend,
        device=device,
    )
    with trainer:
        trainer.fit(_Batches(model, stated, rows, order, result), epochs=count, on_progress=on_progress)
        found = trainer.weights()
    changed = []
    for weight, value in zip(stated.weights, found, strict=True):
        perm = _constant(whole, weight)[1]
        changed.append((weight, value.transpose(np.argsort(perm)) if perm else value))
    made = load(with_weights(data, changed), **options)
    made.name = model.name
    return made


def _contents(model: Model) -> tuple[bytes, Mapping[str, Any]]:
    contents = model.template.contents if model.template is not None else None
    if contents is None:
        raise UnsupportedError(f"model {model.name!r} is of no file: gpunn.Trainer trains any model")
    data, options = contents()
    if not recognise(data):
        raise UnsupportedError(
            f"{model.name}: only .mlmodel files say how to train: gpunn.Trainer trains any"
        )
    return data, options


def _whole(stated: Update, name: str, value: int | None) -> int:
    found = int(stated.parameters[name].chosen(value))
    if found < 1:
        raise ModelError(f"{name} must be 1 or more, got {found}")
    return found


def _mixed(stated: Update, shuffle: bool | None) -> bool:
    return stated.shuffle if shuffle is None else shuffle


def _optimizer(stated: Update, learning_rate: float | None) -> Optimizer:
    numbers = {name: p.default for name, p in stated.parameters.items()}
    rate = stated.parameters["learningRate"].chosen(learning_rate)
    if stated.optimizer == "sgdOptimizer":
        return SGD(rate, numbers["momentum"])
    return Adam(rate, numbers["beta1"], numbers["beta2"], numbers["eps"])


def _rows(model: Model, stated: Update, examples: Mapping[str, Any]) -> dict[str, Array]:
    """Return the examples as arrays of one length, and names of classes as their numbers."""
    names = {*(i.name for i in model.inputs), stated.target}
    if {*examples} != names:
        raise ModelError(f"examples are of {sorted(names)}, got {sorted(examples)}")
    rows = {name: np.asarray(values) for name, values in examples.items()}
    lengths = {name: len(values) if values.ndim else 0 for name, values in rows.items()}
    if len({*lengths.values()}) != 1 or not min(lengths.values()):
        raise ModelError(f"each input and the target need one row for each example, got {lengths} rows")
    if stated.classes:
        numbers = {label: k for k, label in enumerate(stated.classes)}
        unknown = [v for v in rows[stated.target].tolist() if v not in numbers]
        if unknown:
            raise ModelError(f"{unknown[0]!r} is no class of the model")
        rows[stated.target] = np.array([numbers[v] for v in rows[stated.target].tolist()], np.int64)
    return rows


def _batched(model: Model, operand: Operand, count: int) -> Shape:
    """Return the shape of an input for a mini-batch: rows of the declared shape."""
    shape = operand.type.shape
    if len(shape) == 1 and _legacy(model, operand):
        return 1, count, *shape
    return (count, *(shape[1:] if shape[0] == 1 and len(shape) > 1 else shape))


def _legacy(model: Model, operand: Operand) -> bool:
    """Tell whether the network sees the five axes sequence, batch, channel, height, width."""
    reader = next((o for o in model.operations if operand in o.inputs), None)
    return reader is not None and reader.outputs[0].type.rank == 5


def _result(model: Graph, stated: Update) -> Operand:
    """Return the result that the loss is of."""
    found = [o for o in model.operations if o.origin.endswith(f": {stated.result}")]
    return found[-1].outputs[0]


def _constant(model: Graph, weight: UpdatableWeight) -> tuple[Operand, Shape]:
    """Return the constant of a model that has a weight of the file, and in which order of axes."""
    for operation in model.operations:
        if not operation.origin.endswith(f": {weight.place}"):
            continue
        for operand in operation.inputs:
            for perm in ((), *_ORDERS.get(weight.value.ndim, ())):
                stored = weight.value.transpose(perm) if perm else weight.value
                if (
                    operand is not None
                    and operand.value is not None
                    and np.array_equal(operand.value, stored)
                ):
                    return operand, perm
    raise UnsupportedError(f"{weight.place}: its {weight.field} are computed with in another form")


@dataclass(frozen=True, slots=True)
class _Order:
    """Numbers of the examples of each mini-batch, in an order that a generator may mix for each epoch."""

    total: int
    size: int
    mixing: np.random.Generator | None

    def batches(self) -> Iterator[Array]:
        rows = np.arange(self.total) if self.mixing is None else self.mixing.permutation(self.total)
        for k in range(math.ceil(self.total / self.size)):
            yield rows[k * self.size : (k + 1) * self.size]


@dataclass(frozen=True, slots=True)
class _Batches:
    """The mini-batches of an epoch, anew with each iteration."""

    model: Model
    stated: Update
    rows: Mapping[str, Array]
    order: _Order
    result: Operand

    def __iter__(self) -> Iterator[tuple[dict[str, Array], Array]]:
        for chosen in self.order.batches():
            inputs = {i.name: self._input(i, chosen) for i in self.model.inputs}
            yield inputs, self._target(chosen)

    def _input(self, operand: Operand, chosen: Array) -> Array:
        shape = _batched(self.model, operand, len(chosen))
        return _reshaped(operand.name, self.rows[operand.name][chosen], shape)

    def _target(self, chosen: Array) -> Array:
        name, shape = self.stated.target, self.result.type.shape
        rows = self.rows[name][chosen]
        batch = 1 if len(shape) == 5 else 0
        whole = (*shape[:batch], len(chosen), *shape[batch + 1 :])
        if self.stated.loss == "mean_squared_error":
            return _reshaped(name, rows.astype(np.float32), whole)
        if not np.array_equal(rows, np.floor(rows)):
            raise ModelError(f"target {name!r} must be numbers of classes")
        axis = len(whole) - (3 if len(whole) >= 3 else 1)
        return _reshaped(name, rows.astype(np.int64), (*whole[:axis], *whole[axis + 1 :]))


def _reshaped(name: str, rows: Array, shape: Shape) -> Array:
    if rows.size != math.prod(shape):
        raise ModelError(
            f"{name!r} must have {math.prod(shape) // len(rows)} values for an example, got shape "
            f"{[*rows.shape[1:]]}"
        )
    return rows.reshape(shape)
