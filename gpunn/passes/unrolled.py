"""The steps of a recurrent layer that a converter has written one after the other: what passes need for them.

LiteRT Torch writes the layers of PyTorch so. The sums of x of all steps are those of one product; each step
takes its part of these, and adds what the recurrent weights make of the state before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.kernels.strides import dense, rows_walked
from gpunn.ops.movement.strided_slice import selection, strided_slice
from gpunn.passes.expand import GraphExpansion
from gpunn.passes.forms import LOGISTIC, TANH, Writers, readers_of, writers_of, written_by
from gpunn.passes.prune import prune_unread
from gpunn.passes.rejoin import Pieces, count_pieces, pieces_of
from gpunn.passes.rewrite import with_others
from gpunn.types import DType


class Step(NamedTuple):
    """A step: its sums of x, what is added to these, the states before, if any, and behind.

    product: of the state before; None without one. constant: what is added in its place, if anything, gate
    by gate or all together. The first state is what others read. last: what computes it.
    """

    x: Operand
    product: Operation | None
    constant: tuple[Operand, ...]
    before: tuple[Operand, ...]
    states: tuple[Operand, ...]
    last: Operation


class Layer(NamedTuple):
    """The sums of x of all steps, from the last one on if it is reversed; weights, and the first states."""

    x: Operand
    reverse: bool
    filter: Operand
    bias: Operand | None
    before: tuple[Operand, ...]

    @property
    def batch(self) -> int:
        """Return the number of sequences."""
        return self.x.type.shape[1]

    @property
    def units(self) -> int:
        """Return the number of units of a state."""
        return self.filter.type.shape[1]


class Recurrence(NamedTuple):
    """Operations that take the place of steps, and the results of these that they compute."""

    operations: list[Operation]
    results: Sequence[Operand]


def fuse_steps(model: Graph, kind: type[Finder]) -> Graph:
    """Put recurrences in the place of the steps of a kind of layer."""
    if not all(any(o.definition is gate for o in model.operations) for gate in (LOGISTIC, TANH)):
        return model
    finder = kind(writers_of(model), pieces_of(model), readers_of(model))
    instead: dict[Operation, list[Operation]] = {}
    for steps in _chains(filter(None, map(finder.step, model.operations))):
        layer = finder.layer(steps)
        made = None if layer is None else finder.recurrence(steps, layer)
        if made is not None:
            instead.update((finder.writers[result], []) for result in made.results)
            instead[steps[0].last] = made.operations
    return prune_unread(with_others(model, instead)) if instead else model


def _chains(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield steps, two or more, each of which begins with the states behind the one before."""
    by_state = {step.states[0]: step for step in steps}
    behind: dict[Operand, Step] = {}
    for step in by_state.values():
        previous = by_state.get(step.before[0]) if step.before else None
        if previous is not None and step.before == previous.states:
            behind.setdefault(previous.states[0], step)
    later = {step.states[0] for step in behind.values()}
    for state, step in by_state.items():
        chain = [step]
        while state not in later and (following := behind.get(chain[-1].states[0])) is not None:
            chain.append(following)
        if len(chain) > 1:
            yield chain


@dataclass(frozen=True, slots=True)
class Finder(ABC):
    """Finds the steps of a kind of layer in a model.

    It knows which operation computes an operand, of what that is a piece, and how often it is read.
    """

    writers: Writers
    pieces: Pieces
    readers: Mapping[Operand | None, int]

    @abstractmethod
    def step(self, last: Operation) -> Step | None:
        """Return the step whose state an operation computes."""

    @abstractmethod
    def recurrence(self, steps: Sequence[Step], layer: Layer) -> Recurrence | None:
        """Return what computes the states of all steps; None if others read what it does not compute."""

    def piece(self, operand: Operand | None, count: int) -> tuple[Operand, int] | None:
        """Return of what an operand is one of so many equal pieces along the last axis, and which."""
        whole, rows = (None, None) if operand is None else self.pieces.get(operand, (None, None))
        if whole is None or operand is None or not operand.type.size:
            return None
        shape, units = operand.type.shape, operand.type.shape[-1]
        if whole.type.shape != (*shape[:-1], count * units):
            return None
        steps = dense(whole.type.shape)
        found = (k for k in range(count) if rows_walked(shape, steps, k * units) == rows)
        number = next(found, None)
        return None if number is None else (whole, number)

    def layer(self, steps: Sequence[Step]) -> Layer | None:
        """Return the layer that has these steps, and no others; None without one, or constant weights."""
        first, second = steps[:2]
        x, reverse = self._whole([step.x for step in steps])
        assert second.product is not None
        _, filter, *rest = second.product.inputs
        bias = rest[0] if rest else None
        if x is None or filter is None or any(w is not None and w.value is None for w in (filter, bias)):
            return None
        products = [step.product for step in steps[0 if first.before else 1 :]]
        same = all(p is not None and _multiplies(p, filter, bias) for p in products)
        if not same or not (first.before or _is_bias(first.constant, bias)):
            return None
        return Layer(x, reverse, filter, bias, first.before)

    def _whole(self, parts: Sequence[Operand]) -> tuple[Operand | None, bool]:
        """Return what consists of these parts along its first axis, and whether the last one comes first."""
        x, _ = self.pieces.get(parts[0], (None, None))
        known = x is not None and x.type.rank == 3 and x.type.dtype is DType.FLOAT32
        if x is None or not known or x.type.shape[0] != len(parts):
            return None, False
        for order in (parts, parts[::-1]):
            if count_pieces(tuple(order), x, 0, self.pieces) == len(parts):
                turned = self._turned(x)
                return turned or x, (order is not parts) ^ (turned is not None)
        return None, False

    def _turned(self, x: Operand) -> Operand | None:
        """Return what x is with its first axis the other way round."""
        taken = written_by(self.writers, x, strided_slice)
        if taken is None or taken.attrs["shrink_axes"]:
            return None
        first, *others = selection(taken.call())
        whole = [range(n) for n in x.type.shape]
        return taken.inputs[0] if [first[::-1], *others] == whole and first.step < 0 else None


def _multiplies(product: Operation, filter: Operand, bias: Operand | None) -> bool:
    """Tell whether a step's product has these weights."""
    _, own, *rest = product.inputs
    return own is filter and (rest[0] if rest else None) is bias and not product.outputs[0].hybrid


def _is_bias(constants: Sequence[Operand], bias: Operand | None) -> bool:
    """Tell whether constants have the bias in each row, as products with zeros."""
    values = [constant.value for constant in constants]
    known = [value for value in values if value is not None]
    if bias is None or bias.value is None or len(known) != len(values) or not known:
        return not values and (bias is None or bias.value is None or not bias.value.any())
    found = np.concatenate(known, -1) if all(value.ndim for value in known) else np.zeros(0)
    return found.shape[-1:] == bias.value.shape and bool((found == bias.value).all())


def begun(steps: Sequence[Step], layer: Layer) -> GraphExpansion:
    """Return a graph for what takes the place of steps, to which ops are added."""
    last = steps[0].last
    return GraphExpansion.of([layer.x, *layer.before], last.outputs[0].name, last.origin)


def first_states(to: GraphExpansion, layer: Layer, count: int) -> list[Operand]:
    """Add the first states, with a row for each sequence: zeros, if there are none."""
    shape = layer.batch, layer.units
    if layer.before:
        return [to.add("reshape", state, shape=shape) for state in layer.before]
    return [to.constant(np.zeros(shape, np.float32))] * count


def states_of(to: GraphExpansion, y: Operand, steps: Sequence[Step], layer: Layer) -> dict[Operand, Operand]:
    """Add what takes the states of all steps out of the result; return which they are."""
    found = {}
    for number, step in enumerate(steps[::-1] if layer.reverse else steps):
        begin, end = (number, 0, 0), (number + 1, layer.batch, layer.units)
        state, of_step = step.states[0], to.add("strided_slice", y, begin=begin, end=end, strides=(1, 1, 1))
        if of_step.type != state.type:
            of_step = to.add("reshape", of_step, shape=state.type.shape)
        found[of_step] = state
    return found
