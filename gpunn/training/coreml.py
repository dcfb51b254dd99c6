"""update(): trains an updatable Core ML network as its file says."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from gpunn.arguments import expect_flag, expect_function, expect_integer, expect_model
from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.reshape import as_numbers
from gpunn.importers import contents_of
from gpunn.importers.coreml import recognise
from gpunn.importers.coreml.layer import INSIDE
from gpunn.importers.coreml.updates import UpdatableWeight, Update, update_of
from gpunn.model import Model, load
from gpunn.training.optimizers import SGD, Adam, Optimizer
from gpunn.training.trainer import Progress, Trainer
from gpunn.types import Array, Shape

# How a filter of a file, [outputs, inputs, height, width], may lie in a model.
_ORDERS = {4: ((0, 2, 3, 1), (1, 2, 3, 0))}


def update(
    model: Model,
    batches: Mapping[str, Any] | Iterable[Any],
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

    batches: arrays by the names of the model's inputs and of the target, whose rows are the examples.
    Optional inputs may be left out. For cross entropy the target is the number of the class, or its name if
    the file says that the target is the predicted class. Mini-batches are rows in order; with `shuffle` in
    another order in each epoch, which follows from the seed. The last mini-batch of an epoch may be smaller.
    Or `batches` are the mini-batches of an epoch in their order, each such arrays by name, or a pair of
    inputs and target. Other arguments are those of the file if they are None, or must be among those that the
    file allows.
    on_progress: called after each mini-batch; if it returns False, the training stops there.

    Raises UnsupportedError if the model is not of an updatable network, FormatError if the file contradicts
    itself, ModelError for examples that do not fit and for values that the file does not allow,
    DivergenceError if the loss is not finite. Source: NeuralNetwork.proto, NetworkUpdateParameters.
    """
    expect_model(model, Model)
    expect_function("on_progress", on_progress)
    data = _contents(model)
    stated = update_of(data, model.name)
    count = _whole(stated, "epochs", epochs)
    size = _whole(stated, "miniBatchSize", mini_batch_size)
    source: Iterable[Mapping[str, Array]]
    if isinstance(batches, Mapping):
        rows = _rows(model, stated, batches)
        size = min(size, len(rows[stated.target]))
        seeded = expect_integer("seed", stated.parameters["seed"].chosen(seed))
        mixing = np.random.default_rng(abs(seeded)) if _mixed(stated, shuffle) else None
        source = _Slices(rows, size, mixing)
    else:
        if not mini_batch_size is shuffle is seed is None:
            raise ModelError("mini-batches are given: leave out mini_batch_size, shuffle and seed")
        source = _Given.of(model, stated, batches)
        size = source.size
    whole = model.reshaped({i.name: _batched(model, i, size) for i in model.inputs})
    result = _result(whole, stated)
    trainer = Trainer(
        whole,
        loss=stated.loss,
        optimizer=_optimizer(stated, learning_rate),
        trainable=[_constant(whole, weight) for weight in stated.weights],
        output=result,
        axis=-3 if result.type.rank >= 3 else -1,
        backend=backend,
        device=device,
    )
    with trainer:
        trainer.fit(_Batches(model, stated, source, result), epochs=count, on_progress=on_progress)
        data, options = contents_of(trainer.model())
    made = load(data, **options)
    made.name = model.name
    return made


def _contents(model: Model) -> bytes:
    """Return the file of a model, which must say how to train."""
    try:
        data, _ = contents_of(model)
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; gpunn.Trainer trains any model") from None
    if not recognise(data):
        raise UnsupportedError(
            f"{model.name}: only .mlmodel files say how to train: gpunn.Trainer trains any"
        )
    return data


def _whole(stated: Update, name: str, value: int | None) -> int:
    return expect_integer(name, stated.parameters[name].chosen(value), 1)


def _mixed(stated: Update, shuffle: bool | None) -> bool:
    return stated.shuffle if shuffle is None else expect_flag("shuffle", shuffle)


def _optimizer(stated: Update, learning_rate: float | None) -> Optimizer:
    numbers = {name: p.default for name, p in stated.parameters.items()}
    rate = stated.parameters["learningRate"].chosen(learning_rate)
    if stated.optimizer == "sgdOptimizer":
        return SGD(rate, numbers["momentum"])
    return Adam(rate, numbers["beta1"], numbers["beta2"], numbers["eps"])


def _rows(model: Model, stated: Update, examples: Mapping[str, Any]) -> dict[str, Array]:
    """Return the examples as arrays of one length, and names of classes as their numbers.

    Optional inputs that are left out get their default.
    """
    names = {*(i.name for i in model.inputs), stated.target}
    left = [i for i in model.inputs if i.default is not None and i.name not in examples]
    if {*examples, *(i.name for i in left)} != names:
        raise ModelError(f"examples are of {sorted(names)}, got {sorted(map(str, examples))}")
    rows = {name: as_numbers(name, values) for name, values in examples.items()}
    lengths = {name: len(values) if values.ndim else 0 for name, values in rows.items()}
    if len({*lengths.values()}) != 1 or not min(lengths.values()):
        raise ModelError(f"each input and the target need one row for each example, got {lengths} rows")
    count = len(rows[stated.target])
    for operand in left:
        size = math.prod(_batched(model, operand, count)) // count
        assert operand.default is not None
        rows[operand.name] = np.full((count, size), operand.default, operand.type.dtype.numpy)
    if stated.classes:
        rows[stated.target] = _numbered(stated, rows[stated.target])
    for name, values in rows.items():
        if values.dtype.kind not in "biuf":
            raise ModelError(f"{name!r} must be numbers, got {values.dtype}")
    return rows


def _numbered(stated: Update, labels: Array) -> Array:
    """Return the numbers of classes, one for each row of labels."""
    if labels.size != len(labels):
        raise ModelError(f"{stated.target!r} must have one class for an example, got {[*labels.shape[1:]]}")
    numbers = {label: k for k, label in enumerate(stated.classes)}
    given = labels.reshape(-1).tolist()
    unknown = [v for v in given if not isinstance(v, Hashable) or v not in numbers]
    if unknown:
        raise ModelError(f"{unknown[0]!r} is no class of the model")
    return np.array([numbers[v] for v in given], np.int64)


def _batched(model: Model, operand: Operand, count: int) -> Shape:
    """Return the shape of an input for a mini-batch: rows of the declared shape."""
    shape = operand.type.shape
    if len(shape) == 5 and shape[1] == 1:  # sequence, batch, channel, height, width
        return shape[0], count, *shape[2:]
    if _legacy(model, operand) and len(shape) in (1, 3):  # channels, or channels, height and width
        return (1, count, *shape) if len(shape) == 1 else (count, *shape)
    return (count, *(shape[1:] if shape[0] == 1 and len(shape) > 1 else shape))


def _legacy(model: Model, operand: Operand) -> bool:
    """Tell whether the network sees the five axes sequence, batch, channel, height, width."""
    reader = next((o for o in model.operations if operand in o.inputs), None)
    return reader is not None and reader.outputs[0].type.rank == 5


def _result(model: Graph, stated: Update) -> Operand:
    """Return the result that the loss is of, which may be one of several of its layer."""
    found = [o.outputs[0] for o in model.operations if o.origin.endswith(f": {stated.result}")]
    names = stated.output, INSIDE.format(stated.output)
    return next((result for result in found if result.name in names), found[-1])


def _constant(model: Graph, weight: UpdatableWeight) -> Operand:
    """Return the constant of a model that has a weight of the file."""
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
                    return operand
    raise UnsupportedError(f"{weight.place}: its {weight.field} are computed with in another form")


@dataclass(frozen=True, slots=True)
class _Slices:
    """Examples cut into mini-batches, in an order that a generator may mix for each epoch."""

    rows: Mapping[str, Array]
    size: int
    mixing: np.random.Generator | None

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        total = len(next(iter(self.rows.values())))
        order = np.arange(total) if self.mixing is None else self.mixing.permutation(total)
        for start in range(0, total, self.size):
            yield {name: rows[order[start : start + self.size]] for name, rows in self.rows.items()}


@dataclass(frozen=True, slots=True)
class _Given:
    """Mini-batches as they were given; `size` is that of the first one."""

    model: Model
    stated: Update
    batches: Iterable[Any]
    size: int

    @classmethod
    def of(cls, model: Model, stated: Update, batches: Iterable[Any]) -> _Given:
        if not isinstance(batches, Iterable):
            raise ModelError(f"mini-batches must be a mapping by name or an iterable, got {batches!r}")
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            raise ModelError("epoch 0 has no mini-batch")
        again = chain([first], iterator) if iterator is batches else batches  # a generator goes on
        return cls(
            model, stated, again, len(_rows(model, stated, cls._named(model, stated, first))[stated.target])
        )

    @staticmethod
    def _named(model: Model, stated: Update, batch: Any) -> Mapping[str, Any]:
        """Return a mini-batch by names."""
        if isinstance(batch, Mapping):
            return batch
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise ModelError("a mini-batch is a mapping by name, or a pair of inputs and target")
        inputs, target = batch
        if not isinstance(inputs, Mapping):
            several = isinstance(inputs, (tuple, list)) and len(model.inputs) > 1
            values = inputs if several else [inputs]
            inputs = dict(zip((i.name for i in model.inputs), values, strict=False))
        return {**inputs, stated.target: target}

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        for batch in self.batches:
            rows = _rows(self.model, self.stated, self._named(self.model, self.stated, batch))
            if len(rows[self.stated.target]) >= self.size:  # the last one may be smaller
                _whole(self.stated, "miniBatchSize", len(rows[self.stated.target]))
            yield rows


@dataclass(frozen=True, slots=True)
class _Batches:
    """The mini-batches of an epoch in the shapes of the network, anew with each iteration."""

    model: Model
    stated: Update
    source: Iterable[Mapping[str, Array]]
    result: Operand

    def __iter__(self) -> Iterator[tuple[dict[str, Array], Array]]:
        for rows in self.source:
            inputs = {i.name: self._input(i, rows[i.name]) for i in self.model.inputs}
            yield inputs, self._target(rows[self.stated.target])

    def _input(self, operand: Operand, rows: Array) -> Array:
        return _reshaped(operand.name, rows, _batched(self.model, operand, len(rows)))

    def _target(self, rows: Array) -> Array:
        name, shape = self.stated.target, self.result.type.shape
        batch = 1 if len(shape) == 5 else 0
        whole = (*shape[:batch], len(rows), *shape[batch + 1 :])
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
