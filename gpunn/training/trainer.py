"""Trainer: changes the weights of a model so that a loss becomes less."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpunn.arguments import expect_function, expect_integer, expect_list, expect_model
from gpunn.closing import Closing
from gpunn.compilation.base import Compilation
from gpunn.errors import DeviceError, DivergenceError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.reshape import as_input, as_numbers, by_name
from gpunn.graph.trained import place_in
from gpunn.model import Model
from gpunn.training.optimizers import SGD, Adam, Optimizer, check_rate
from gpunn.training.step import (
    LOSSES,
    Loss,
    first_not_finite,
    loss_graph,
    step_graph,
    weights_of,
    with_values,
)
from gpunn.types import Array, DType, Shape
from gpunn.wording import counted

Batch = tuple[Any, Any]  # inputs and the target
Rate = float | Callable[[int], float] | None

UNSCORED = "the calibration and the threshold of scores are left out: they were measured for other weights"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of Trainer.fit() after a mini-batch: numbers of epoch and batch, from 0, and the loss."""

    epoch: int
    batch: int
    loss: float


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A training step for inputs of some shapes: compiled, and the graph up to its loss."""

    compiled: Compilation
    forward: Graph


class Trainer(Closing):
    """Trains weights of a model on a device, on which weights and moments stay from step to step.

    A step is one submission for a mini-batch and reads back its loss. Steps for other shapes of inputs, such
    as a last, smaller mini-batch, are compiled when they come first, and take over the weights. Two trainings
    with the same batches on one device give the same bits. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        model: Model,
        *,
        loss: str,
        optimizer: Optimizer,
        trainable: Sequence[str | Operand],
        output: str | Operand | None = None,
        axis: int = -1,
        backend: str = "auto",
        device: str | int | None = None,
    ) -> None:
        """Prepare to train a model.

        loss: "mean_squared_error"; "cross_entropy" of probabilities along `axis`, which of a softmax's
        results is computed from the softmax's operand; or "cross_entropy_with_logits", that of the output's
        softmax. All are means over the mini-batch. `output` is what the loss is of: the name of an output, or
        any result; None: the only output. trainable: float32 constants of the model, or their names; also
        what one operation widens from float16. backend, device: as for Model.compile().

        Raises ModelError for other names and kinds of arguments. Steps raise UnsupportedError if operations
        between a weight and the loss have no gradient (docs/training.md).
        """
        expect_model(model, Model)
        if not isinstance(loss, str) or loss not in LOSSES:
            raise ModelError(f"a loss is one of {', '.join(LOSSES)}, got {loss!r}")
        if not isinstance(optimizer, (SGD, Adam)):
            raise ModelError(f"an optimizer is a gpunn.SGD or gpunn.Adam, got {optimizer!r}")
        expect_list("trainable", trainable, "weights")
        self._model = model
        self._optimizer = optimizer
        self._loss = Loss(loss, _place(model, output), expect_integer("axis", axis))
        self._weights = weights_of(model, trainable)
        self._backend, self._device = backend, device
        self._prepared: dict[tuple[Shape, ...], _Prepared] = {}
        self._last: tuple[Shape, ...] | None = None
        self._steps = 0
        self._closed = False

    def step(self, inputs: Any, target: Any, *, learning_rate: float | None = None) -> float:
        """Change the weights by one mini-batch; return the loss before the change.

        inputs: an array, a sequence of arrays in the order of the model's inputs, or a mapping by name,
        which may leave optional inputs out: they have their default then, in the model's shape. target: of
        the shape of the output, float32; for cross entropy also integers, the numbers of classes, of the
        output's shape without the axis. learning_rate: for this step, instead of the optimiser's.

        Raises ModelError for arrays of other shapes or dtypes, for an empty mini-batch and for a learning
        rate out of range; DivergenceError if the loss is not finite; DeviceError after close().
        """
        self._expect_open()
        rate = self._optimizer.learning_rate if learning_rate is None else learning_rate
        check_rate(rate)
        arrays = self._arrays(inputs)
        shapes = tuple(array.shape for array in arrays)
        prepared = self._prepare(shapes)
        count = len(self._model.inputs)
        operands = prepared.compiled.model.inputs
        given = [as_input(o, a) for o, a in zip(operands[:count], arrays, strict=True)]
        given.append(self._target(operands[count], target))
        if shapes != self._last and self._last is not None:
            prepared.compiled.reset_state(self._taken_over(prepared.compiled.model))
        scalars = self._optimizer.values(self._steps + 1, rate)
        found = float(np.reshape(prepared.compiled(*given, *map(np.float32, scalars)), ()))
        self._last, self._steps = shapes, self._steps + 1
        if not math.isfinite(found):
            self._diverged(prepared, given, found)
        return found

    def fit(
        self,
        batches: Iterable[Batch],
        *,
        epochs: int = 1,
        learning_rate: Rate = None,
        on_progress: Callable[[Progress], bool | None] | None = None,
    ) -> tuple[Progress, ...]:
        """Train on all mini-batches, pairs of inputs and target, in each epoch; return all losses.

        learning_rate: for all epochs, or a function of the epoch's number, from 0; None: the optimiser's.
        on_progress: called after each mini-batch; if it returns False, the training stops there.

        Raises what step() raises, and ModelError for other arguments, and if an epoch has no mini-batch, as
        the second one of a generator has none.
        """
        epochs = expect_integer("epochs", epochs, 1)
        expect_list("batches", batches, "pairs of inputs and target")
        expect_function("on_progress", on_progress)
        told: list[Progress] = []
        for epoch in range(epochs):
            rate = learning_rate(epoch) if callable(learning_rate) else learning_rate
            before = len(told)
            for number, batch in enumerate(batches):
                inputs, target = _pair(batch)
                told.append(Progress(epoch, number, self.step(inputs, target, learning_rate=rate)))
                if on_progress is not None and on_progress(told[-1]) is False:
                    return tuple(told)
            if len(told) == before:
                again = " (batches must be such that they can be gone through again)" if epoch else ""
                raise ModelError(f"epoch {epoch} has no mini-batch{again}")
        return tuple(told)

    def weights(self) -> tuple[Array, ...]:
        """Return the weights as they are now, read back from the device, in the order of `trainable`."""
        state = self._state()
        return tuple(state[weight.name] for weight in self._weights)

    def model(self) -> Model:
        """Return the model with the weights as they are now, for inputs of the shapes that it had.

        Of a model that was loaded, save() writes the same file with these weights. If they have changed, the
        model and that file have no `scoring` of classes, as it was measured for other weights; `warnings`
        say so.
        """
        state = self._state()
        made = Model.of(with_values(self._model, self._weights, state))
        changed = any(not np.array_equal(w.value, state[w.name], equal_nan=True) for w in self._weights)
        if made.scoring is not None and changed:
            made.scoring, made.warnings = None, (*made.warnings, UNSCORED)
        if self._model.template is not None and self._model.template.contents is not None:
            made.trained_from = self._model
        return made

    def close(self) -> None:
        """Free what is on the device; step(), model() and weights() raise DeviceError afterwards."""
        self._closed = True
        for prepared in self._prepared.values():
            prepared.compiled.close()

    def _state(self) -> Mapping[str, Array]:
        self._expect_open()
        if self._last is None:
            return {weight.name: weight.value.copy() for weight in self._weights}
        return self._prepared[self._last].compiled.variables()

    def _taken_over(self, model: Graph) -> Mapping[str, Array]:
        """Return the weights and moments; of the model's own state what has the same shape in a step."""
        shapes = {variable.name: variable.type.shape for variable in model.variables}
        return {name: value for name, value in self._state().items() if value.shape == shapes.get(name)}

    def _expect_open(self) -> None:
        if self._closed:
            raise DeviceError("this trainer has been closed")

    def _arrays(self, inputs: Any) -> list[Array]:
        """Return the model's inputs in order, as arrays of any shape."""
        names = [i.name for i in self._model.inputs]
        if isinstance(inputs, Mapping):
            given = zip(self._model.inputs, by_name(self._model, inputs), strict=True)
            inputs = [as_input(i, None) if value is None else value for i, value in given]
        elif isinstance(inputs, np.ndarray) or (len(names) == 1 and not isinstance(inputs, tuple)):
            inputs = [inputs]
        arrays = [as_numbers(name, value) for name, value in zip(names, inputs, strict=False)]
        if len(inputs) != len(names):
            raise ModelError(f"the model takes {counted(len(names), 'input')}, got {len(inputs)}")
        for name, array in zip(names, arrays, strict=True):
            if not array.size:
                raise ModelError(f"the mini-batch is empty: input {name!r} has shape {list(array.shape)}")
        return arrays

    def _target(self, operand: Operand, target: Any) -> Array:
        """Return the target in the form of the output; classes become rows with a one."""
        values = as_numbers(operand.name, target)
        shape, axis = operand.type.shape, self._loss.axis
        if self._loss.of_classes and values.dtype.kind in "iu":
            axis %= len(shape)
            if values.shape == (*shape[:axis], *shape[axis + 1 :]):
                return _one_hot(values, shape[axis], axis)
        return as_input(operand, target)

    def _prepare(self, shapes: tuple[Shape, ...]) -> _Prepared:
        """Return the step for inputs of these shapes."""
        if shapes not in self._prepared:
            model, names = self._model, [i.name for i in self._model.inputs]
            given = ", ".join(str([*shape]) for shape in shapes)
            if shapes != tuple(i.type.shape for i in model.inputs):
                try:
                    model = model.reshaped(dict(zip(names, shapes, strict=True)))
                except ModelError as error:
                    raise ModelError(f"the model does not take inputs of shapes {given}: {error}") from error
            weights, loss = self._weights, self._loss
            if [o.op for o in model.operations] != [o.op for o in self._model.operations]:
                try:
                    weights = tuple(replace(w, place=place_in(model, w.place, self._model)) for w in weights)
                    loss = replace(loss, place=place_in(model, loss.place, self._model))
                except ModelError as error:
                    what = f"inputs of shapes {given} need other operations: train a reshaped() model"
                    raise ModelError(what) from error
            forward, _ = loss_graph(model, weights, loss)
            graph = Model.of(step_graph(model, weights, loss, self._optimizer))
            self._prepared[shapes] = _Prepared(graph.compile(self._backend, device=self._device), forward)
        return self._prepared[shapes]

    def _diverged(self, prepared: _Prepared, inputs: Sequence[Array], loss: float) -> None:
        """Raise DivergenceError, which says what in this step was first not finite on the host."""
        state = prepared.compiled.variables()
        before = {weight.name: state[weight.before] for weight in self._weights}
        first = first_not_finite(prepared.forward, inputs, before)
        seen = f": first not finite is {first}" if first else "; the host computes finite values"
        raise DivergenceError(f"the loss is {loss} in step {self._steps}{seen}", self._steps, first)


def _place(model: Graph, output: str | Operand | None) -> tuple[int, int]:
    """Return which operation computes an output, and as which result. Raises ModelError if there is none."""
    found = [o for o in model.outputs if output is None or o.name == output]
    if isinstance(output, Operand):
        found = [output]
    if len(found) != 1:
        names = [o.name for o in model.outputs]
        raise ModelError(f"the model's outputs are {names}: which one is the loss of? Got {output!r}")
    for number, operation in enumerate(model.operations):
        if found[0] in operation.outputs:
            return number, operation.outputs.index(found[0])
    raise ModelError(f"no operation of model {model.name!r} computes {found[0]!r}")


def _pair(batch: Any) -> Batch:
    try:
        inputs, target = batch
    except (TypeError, ValueError):
        raise ModelError("a mini-batch is a pair of inputs and target") from None
    return inputs, target


def _one_hot(classes: Array, count: int, axis: int) -> Array:
    """Return rows along an axis with a one at the class. Raises ModelError for classes out of range."""
    if classes.size and not 0 <= int(classes.min()) <= int(classes.max()) < count:
        raise ModelError(
            f"classes must be from 0 to {count - 1}, got {int(classes.min())} to {int(classes.max())}"
        )
    rows: Array = np.expand_dims(classes, axis) == np.arange(count).reshape(-1, *(1,) * (classes.ndim - axis))
    return np.asarray(rows, DType.FLOAT32.numpy)
