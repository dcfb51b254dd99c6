"""Several rounds of a loop whose end only a run tells, as a loop of a known number of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.ops.control import while_loop
from gpunn.ops.elementwise.select import select
from gpunn.types import DType, TensorType

DECISION = TensorType(DType.BOOL, ())


def several_rounds(condition: Graph, body: Graph, rounds: int, origin: str) -> Graph:
    """Return a graph of up to that many rounds: from the state to whether there are more, and the state.

    It computes all the rounds. Those that are too much leave the state as it is: a select chooses between
    what the body gives and what was there.
    """
    made = Graph(body.name)
    state = [made.input(i.name, i.type) for i in body.inputs]
    begin = made.constant("more", np.array(True), DECISION)
    attrs = {"condition": None, "body": _round(condition, body), "rounds": rounds}
    more, *after = made.add(while_loop, [begin, *state], attrs, origin=origin)
    made, decision = _asked(made, condition, more, after)
    made.output(decision, *after)
    return made


def _round(condition: Graph, body: Graph) -> Graph:
    """Return a round as a graph from (whether there are more rounds, the state) to the same after it."""
    made = Graph(body.name)
    more = made.input("more", DECISION)
    state = [made.input(i.name, i.type) for i in body.inputs]
    made, going = _asked(made, condition, more, state)
    operations, results = _inlined(body, state)
    made = made.with_operations((*made.operations, *operations))
    pairs = zip(body.inputs, body.outputs, state, results, strict=True)
    made.output(
        going, *(old if i is o else made.add(select, [going, new, old])[0] for i, o, old, new in pairs)
    )
    return made


def _asked(made: Graph, condition: Graph, more: Operand, state: Sequence[Operand]) -> tuple[Graph, Operand]:
    """Return a graph with the condition of the state added, and whether it and `more` hold."""
    operations, (decision,) = _inlined(condition, state)
    made = made.with_operations((*made.operations, *operations))
    (scalar,) = made.add("reshape", [decision], {"shape": ()})
    return made, made.add("logical_and", [more, scalar])[0]


def _inlined(graph: Graph, inputs: Sequence[Operand]) -> tuple[list[Operation], list[Operand]]:
    """Return copies of a graph's operations on other inputs, and the outputs."""
    exchange = dict(zip(graph.inputs, inputs, strict=True))
    found: list[Operation] = []
    for operation in graph.operations:
        outputs = tuple(replace(o) for o in operation.outputs)
        found.append(replace(replace_inputs(operation, exchange), outputs=outputs))
        exchange.update(zip(operation.outputs, outputs, strict=True))
    return found, [exchange.get(o, o) for o in graph.outputs]
