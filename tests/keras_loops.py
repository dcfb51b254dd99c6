"""Recurrent layers as the converter of TensorFlow writes those of Keras: a WHILE over the steps of the input,
or the operators of all steps one after the other.

Main hands a loop two counters of rounds, the list of results, the states, and the input by steps. The body
takes a row of the input (GATHER), computes a cell, and puts the new state into the list: either by cutting
the list in two (SLICE, SLICE, CONCATENATION), or by DYNAMIC_UPDATE_SLICE where the converter was told so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.test_subgraphs import build
from tests.tflite_builder import ABSENT, Graph

COUNT = TensorType(DType.INT32, ())
BOOL = TensorType(DType.BOOL, ())


@dataclass(frozen=True)
class Layer:
    """A recurrent layer of `units` over `steps` rows of `features`.

    `every`: it gives the states of all steps. `updates`: rows are written by DYNAMIC_UPDATE_SLICE.
    `unrolled`: there is no loop.
    """

    cell: str
    steps: int
    features: int = 6
    units: int = 8
    every: bool = True
    updates: bool = False
    unrolled: bool = False
    seed: int = 0

    @property
    def rows(self) -> int:
        """Return how many rows the list has."""
        return self.steps if self.every else 1

    def weights(self, *shape: int) -> Array:
        """Return random weights; equal shapes give equal ones."""
        found = np.random.default_rng([self.seed, *shape]).standard_normal(shape) / math.sqrt(shape[-1])
        return found.astype(np.float32)


def layer_file(layer: Layer) -> bytes:
    """Return a file that computes a layer for x [1, steps, features]: the list as [1, rows, units]."""
    if layer.unrolled:
        return _unrolled_file(layer)
    state, rows = float32(1, layer.units), float32(layer.rows, 1, layer.units)
    given = float32(layer.steps, 1, layer.features)
    states = [state, state] if layer.cell == "lstm" else [state]
    types = [COUNT, COUNT, rows, *states, given]
    main = Graph()
    x = main.input(float32(1, layer.steps, layer.features), "x")
    order = main.constant(np.array([1, 0, 2], np.int32))
    (by_step,) = main.add("TRANSPOSE", [x, order], [given])
    zero = main.constant(np.array(0, np.int32))
    begin = [zero, zero, main.constant(np.zeros(rows.shape, np.float32))]
    begin += [main.constant(np.zeros(state.shape, np.float32)) for _ in states]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    last = main.add("WHILE", [*begin, by_step], types, options)
    (y,) = main.add("TRANSPOSE", [last[2], order], [float32(1, layer.rows, layer.units)])
    return build((main, [y]), _condition(types, layer.steps), _body(layer, types))


def _unrolled_file(layer: Layer) -> bytes:
    """Return the file of a layer without a loop."""
    graph, state = Graph(), float32(1, layer.units)
    x = graph.input(float32(1, layer.steps, layer.features), "x")
    rows = [float32(1, layer.features)] * layer.steps
    cell = _Cell(graph, layer)
    states = [graph.constant(np.zeros(state.shape, np.float32))] * (2 if layer.cell == "lstm" else 1)
    made = []
    for row in graph.add("UNPACK", [x], rows, {"num": layer.steps, "axis": 1}):
        states = _CELLS[layer.cell](cell, row, states)
        made.append(states[0])
    listed = made if layer.every else made[-1:]
    options = {"values_count": layer.rows, "axis": 1}
    return build((graph, list(graph.add("PACK", listed, [float32(1, layer.rows, layer.units)], options))))


def _condition(types: Sequence[TensorType], steps: int) -> tuple[Graph, list[int]]:
    graph = Graph()
    rounds, step, *_ = [graph.input(t) for t in types]
    limit = graph.constant(np.array(steps, np.int32))
    terms = [graph.add("LESS", [k, limit], [BOOL])[0] for k in (rounds, step)]
    return graph, list(graph.add("LOGICAL_AND", terms, [BOOL]))


def _body(layer: Layer, types: Sequence[TensorType]) -> tuple[Graph, list[int]]:
    graph = Graph()
    rounds, step, rows, *states, given = [graph.input(t) for t in types]
    one = graph.constant(np.array(1, np.int32))
    following = [graph.add("ADD", [k, one], [COUNT])[0] for k in (rounds, step)]
    (x,) = graph.add("GATHER", [given, step], [float32(1, layer.features)])
    made = _CELLS[layer.cell](_Cell(graph, layer), x, states)
    (row,) = graph.add(
        "RESHAPE",
        [made[0], graph.constant(np.array([1, 1, layer.units], np.int32))],
        [float32(1, 1, layer.units)],
    )
    if not layer.every:
        return graph, [*following, row, *made, given]
    put = _updated if layer.updates else _joined
    return graph, [*following, put(graph, rows, step, following[1], row, types[2]), *made, given]


def _vector(graph: Graph, number: int, rest: Sequence[int]) -> int:
    """Return [number, *rest]."""
    (alone,) = graph.add(
        "RESHAPE", [number, graph.constant(np.array([1], np.int32))], [TensorType(DType.INT32, (1,))]
    )
    type = TensorType(DType.INT32, (1 + len(rest),))
    return graph.add("CONCATENATION", [alone, graph.constant(np.array(rest, np.int32))], [type])[0]


def _joined(graph: Graph, rows: int, step: int, following: int, row: int, type: TensorType) -> int:
    open = (-1, *type.shape[1:])
    first = graph.constant(np.zeros(3, np.int32))
    rest = graph.constant(np.full(3, -1, np.int32))
    sizes, begins = _vector(graph, step, [-1, -1]), _vector(graph, following, [0, 0])
    part = type.with_shape((1, *type.shape[1:]))
    (before,) = graph.add("SLICE", [rows, first, sizes], [part], signatures=[open])
    (behind,) = graph.add("SLICE", [rows, begins, rest], [part], signatures=[open])
    return graph.add("CONCATENATION", [before, row, behind], [type], {"axis": 0})[0]


def _updated(graph: Graph, rows: int, step: int, following: int, row: int, type: TensorType) -> int:
    return graph.add("DYNAMIC_UPDATE_SLICE", [rows, row, _vector(graph, step, [0, 0])], [type])[0]


class _Cell:
    """The operators of a cell."""

    def __init__(self, graph: Graph, layer: Layer) -> None:
        self.graph, self.layer, self.state = graph, layer, float32(1, layer.units)

    def product(self, x: int, inputs: int, gates: int, bias: bool = False) -> int:
        rows = gates * self.layer.units
        weights = self.graph.constant(self.layer.weights(rows, inputs))
        added = self.graph.constant(self.layer.weights(rows)) if bias else ABSENT
        return self.graph.add("FULLY_CONNECTED", [x, weights, added], [float32(1, rows)])[0]

    def gates(self, x: int, count: int) -> list[int]:
        axis = self.graph.constant(np.array(1, np.int32))
        return list(self.graph.add("SPLIT", [axis, x], [self.state] * count, {"num_splits": count}))

    def __call__(self, operator: str, *inputs: int, count: int = 1) -> int:
        type = float32(1, count * self.layer.units)
        return self.graph.add(operator, list(inputs), [type])[0]


def _rnn(cell: _Cell, x: int, states: Sequence[int]) -> list[int]:
    layer = cell.layer
    products = cell.product(x, layer.features, 1, bias=True), cell.product(states[0], layer.units, 1)
    return [cell("TANH", cell("ADD", *products))]


def _lstm(cell: _Cell, x: int, states: Sequence[int]) -> list[int]:
    hidden, memory = states
    layer = cell.layer
    products = cell.product(x, layer.features, 4, bias=True), cell.product(hidden, layer.units, 4)
    i, f, g, o = cell.gates(cell("ADD", *products, count=4), 4)
    kept = cell("MUL", cell("LOGISTIC", f), memory)
    after = cell("ADD", kept, cell("MUL", cell("LOGISTIC", i), cell("TANH", g)))
    return [cell("MUL", cell("LOGISTIC", o), cell("TANH", after)), after]


def _gru(cell: _Cell, x: int, states: Sequence[int]) -> list[int]:
    layer, (hidden,) = cell.layer, states
    a, b, c = cell.gates(cell.product(x, layer.features, 3, bias=True), 3)
    d, e, f = cell.gates(cell.product(hidden, layer.units, 3), 3)
    update, reset = cell("LOGISTIC", cell("ADD", a, d)), cell("LOGISTIC", cell("ADD", b, e))
    candidate = cell("TANH", cell("ADD", c, cell("MUL", reset, f)))
    one = cell.graph.constant(np.float32(1))
    rest = cell("MUL", cell("SUB", one, update), candidate)
    return [cell("ADD", cell("MUL", update, hidden), rest)]


_Compute = Callable[[_Cell, int, Sequence[int]], list[int]]
_CELLS: dict[str, _Compute] = {"rnn": _rnn, "lstm": _lstm, "gru": _gru}
CELLS = tuple(_CELLS)
