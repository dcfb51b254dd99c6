"""Operators that call subgraphs, and what state means in a branch or a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.parts import OpenBody
from gpunn.graph.tensors import zeros
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.context import Key
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.resources import RESOURCES, UNCERTAIN
from gpunn.importers.tflite.scope import Control, Scope
from gpunn.importers.tflite.subgraph import FileGraph
from gpunn.importers.tflite.target import States, Target
from gpunn.types import DType, TensorType

STATE_IN_OPEN = "shapes follow from what it runs (beside variables)"
_BOOL = TensorType(DType.BOOL, ())


def call(options: str, field: str) -> Control:
    """Return a rule for CALL and STABLEHLO_COMPOSITE: the subgraph's operators stand here instead."""

    def rule(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
        return scope.nested(node.options(options).get(field), _arguments(node, 0), names)

    return rule


def branch(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate IF: one of two subgraphs on the inputs after the first; inlined for a constant condition.

    Their variable tensors begin again each time. Resources that either subgraph assigns are results of both.
    """
    options = node.options("IfOptions")
    condition, arguments = node.operand(0), _arguments(node, 1)
    _expect_decision(node, "the condition", condition.type, scope.target.model.waits(condition))
    indices = options.get("ThenSubgraphIndex"), options.get("ElseSubgraphIndex")
    around = scope.target.entered(scope.context)
    if condition.value is not None:
        return scope.nested(indices[0] if condition.value.item() else indices[1], arguments, names, around)
    constants = frozenset(i for i, a in enumerate(arguments) if a.value is not None)
    bodies = [around.body(f"subgraph {i}") for i in indices]
    templates = [scope.body(i, arguments, constants, b) for i, b in zip(indices, bodies, strict=True)]
    inputs = [condition, *(a for a in arguments if a.value is None)]
    types = [b.model.output_types for b in bodies]
    waits = _waits(around, inputs, bodies)
    open = waits or (_same_but_for_shapes(*types) and (_pending(bodies) or types[0] != types[1]))
    if open and not waits:
        _expect_stateless(bodies)
    return _choice(node, names, around, inputs, bodies, _Open(() if waits else templates) if open else None)


def _choice(
    node: Node,
    names: Sequence[str],
    around: Target,
    inputs: Sequence[Operand],
    bodies: Sequence[Target],
    open: _Open | None = None,
) -> tuple[Operand, ...]:
    """Return what the body that the first input chooses gives; resources `around` it are noted."""
    if open is None and _pending(bodies):
        raise RefusedError(STATE_IN_OPEN)
    written = list(dict.fromkeys(k for b in bodies for k in b.resources.written))
    for body in bodies:
        body.model.output(*map(body.resources.get, written))
    read = _begin_alike(bodies, _resources)
    then, otherwise = (b.model for b in bodies)
    types = then.output_types, otherwise.output_types
    if types[0] != types[1] and not (open and _same_but_for_shapes(*types)):
        given = " and ".join(map(_words, types))
        raise RefusedError(f"its branches give {given}, which must be of the same types")
    if not then.outputs:  # whichever runs, nobody will know
        return ()
    attrs = _attributes({"then": then, "otherwise": otherwise}, open)
    named = [around.names.unique(n) for n in (*names, *map(str, written))]
    taken = *inputs, *map(around.resources.get, read)
    results = around.model.add("if_else", taken, attrs, origin=node.origin, names=named)
    count = len(results) - len(written)
    around.resources.written.update(zip(written, results[count:], strict=True))
    return results[:count]


def once(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate CALL_ONCE: the imports and assignments of a subgraph before the first run.

    Constants become the initial values of variables. If the subgraph computes something, it becomes a branch
    of the first run.
    """
    index = node.options("CallOnceOptions").get("InitSubgraphIndex")
    if not scope.target.certain:
        raise RefusedError(UNCERTAIN)
    if index in scope.context.done_once:
        return ()
    scope.context.done_once.add(index)
    target = scope.target.once(scope.context)
    if scope.nested(index, (), target=target):
        node.corrupt(f"subgraph {index} should have no outputs")
    if target.model.pending:
        raise RefusedError("shapes follow from values in what it runs")
    outside, written = scope.target.resources, target.resources.written
    for variable, operand in written.items():
        if variable in outside.begun or variable in outside.written:
            raise RefusedError(f"variable {str(variable)!r} is used before")
        value = zeros(operand.type) if operand.value is None else operand.value
        scope.context.initial_values[variable] = value
    if any(o.value is None for o in written.values()) and not scope.context.unsupported:
        around = scope.target.entered(scope.context)
        first = around.model.variable(around.names.unique("first run"), _BOOL, np.array(True))
        around.model.update(first, around.model.constant("not the first", np.array(False)))
        bodies = [around.body(f"subgraph {index}"), around.body("later runs")]
        scope.body(index, (), frozenset(), bodies[0])
        _choice(node, (), around, [first], bodies)
    return ()


def loop(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate WHILE: a subgraph runs as long as another says so; shapes may change, types must stay.

    A constant that the body passes on stays a constant, inside, too: it may be a shape or axes. Variable
    tensors begin again with the loop and keep their values from round to round, as resources do.
    """
    options = node.options("WhileOptions")
    indices = options.get("CondSubgraphIndex"), options.get("BodySubgraphIndex")
    arguments = _arguments(node, 0)
    handed_on = _handed_on(scope.subgraph(indices[1]), arguments)
    handles = {i for i, a in enumerate(arguments) if a in scope.context.resources} - handed_on
    fixed = handed_on | handles
    around = scope.target.entered(scope.context)
    condition, body = bodies = [around.body(f"subgraph {i}", loop=True) for i in indices]
    templates = [
        scope.body(indices[0], arguments, fixed, condition),
        scope.body(indices[1], arguments, fixed, body, without=handed_on),
    ]
    if len(condition.model.outputs) != 1:
        node.corrupt(f"expected one output of subgraph {indices[0]}, got {len(condition.model.outputs)}")
    decision = condition.model.outputs[0]
    _expect_decision(node, "what the condition gives", decision.type, condition.model.waits(decision))
    _expect_same_types(node, arguments, body.model, handed_on, handles)
    state = [a for i, a in enumerate(arguments) if i not in fixed]
    waits = _waits(around, state, bodies)
    open = waits or _pending(bodies) or body.model.output_types != tuple(o.type for o in state)
    if open and not waits:
        _expect_stateless(bodies)
    named = [n for i, n in enumerate(names) if i not in fixed]
    writes = any(kind(condition).written for kind in (_tensors, _resources))
    if writes and open:
        raise RefusedError("its condition changes variables, and its shapes follow from what runs")
    for kind in _tensors, _resources:
        carried = _go_round(condition, body, kind, writes)
        state += map(kind(around).get, carried)
        named += (kind(body).start(k).name for k in carried)
    _expect_change(state)
    named = [around.names.unique(n) for n in named]
    graphs = {"condition": condition.model, "body": body.model}
    if writes:
        state, graphs = _turned(around, state, condition.model, body.model, node.origin)
        named.insert(0, around.names.unique("goes on"))
    attrs = _attributes(graphs, _Open(() if waits else templates) if open else None)
    last = around.model.add("while_loop", state, attrs, origin=node.origin, names=named)[writes:]
    after = zip(carried, last[len(last) - len(carried) :], strict=True)  # those of resources
    changed = {*condition.resources.written, *body.resources.written}
    around.resources.written.update((k, o) for k, o in after if k in changed)
    results = iter(last)
    return tuple(a if i in fixed else next(results) for i, a in enumerate(arguments))


def _tensors(target: Target) -> States:
    return target.tensors


def _resources(target: Target) -> States:
    return target.resources


def _begin_alike(bodies: Sequence[Target], kind: Callable[[Target], States]) -> list[Key]:
    """Let bodies take the same state as their last inputs, in the same order; its keys."""
    keys = list(dict.fromkeys(k for b in bodies for k in kind(b).begun))
    for body in bodies:
        taken = dict.fromkeys(map(kind(body).start, keys))
        body.model.inputs = [*(i for i in body.model.inputs if i not in taken), *taken]
    return keys


def _go_round(condition: Target, body: Target, kind: Callable[[Target], States], writes: bool) -> list[Key]:
    """Let a loop's body take state of a kind as its last inputs and give it as its last outputs; its keys.

    The condition gives it, too, if it writes state.
    """
    states = kind(body)
    for key in (*states.written, *kind(condition).written):
        states.start(key)
    keys = _begin_alike((condition, body), kind)
    body.model.output(*map(states.get, keys))
    if writes:
        condition.model.output(*map(kind(condition).get, keys))
    return keys


def _turned(
    around: Target, state: Sequence[Operand], condition: Graph, body: Graph, origin: str
) -> tuple[list[Operand], dict[str, Graph]]:
    """Return the state and the graphs of a loop whose condition writes state.

    The condition is asked before the loop and at the end of each round, as a body that runs once. Its
    decision is a part of the state, and that is what the new condition looks at.
    """
    given, (decision, *written) = list(condition.inputs), condition.outputs
    kept = given[: len(given) - len(written)]
    before = condition.input("goes on", decision.type)
    condition.inputs[:] = [before, *given]
    condition.outputs[:] = []
    condition.output(decision, *kept, *written)
    asked = {"condition": None, "body": condition, "rounds": 1}
    begin = around.model.constant(around.names.unique("not asked"), np.ones(before.type.shape, bool))
    first = around.model.add("while_loop", [begin, *state], asked, origin=origin)
    goes_on, round = Graph(condition.name), Graph(body.name)
    for graph in (goes_on, round):
        for operand in condition.inputs:
            graph.input(operand.name, operand.type)
    goes_on.output(goes_on.inputs[0])
    once = {"condition": None, "body": body, "rounds": 1}
    after = round.add("while_loop", round.inputs[1:], once, origin=origin)
    round.output(*round.add("while_loop", [round.inputs[0], *after], asked, origin=origin))
    return list(first), {"condition": goes_on, "body": round}


class _Open(NamedTuple):
    """A request to complete bodies for the shapes of each call, from templates if there are any."""

    templates: Sequence[Graph] = ()


def _attributes(bodies: Mapping[str, Graph], open: _Open | None) -> Mapping[str, Graph | OpenBody]:
    """Return the attributes of an operation with bodies."""
    if open is None:
        return bodies
    for body, template in zip(bodies.values(), open.templates, strict=False):
        body.template = template
    return {name: OpenBody(body) for name, body in bodies.items()}


def _pending(bodies: Iterable[Target]) -> bool:
    return any(b.model.pending for b in bodies)


def _waits(around: Target, inputs: Iterable[Operand], bodies: Iterable[Target]) -> bool:
    """Tell whether types of what bodies take are unknown."""
    return any(map(around.model.waits, inputs)) or any(
        b.model.waits(i) for b in bodies for i in b.model.inputs
    )


def _expect_change(state: Sequence[Operand]) -> None:
    if not state:
        raise RefusedError("nothing in it changes, so it ends at once or never")


def _expect_stateless(bodies: Iterable[Target]) -> None:
    """Raise RefusedError where bodies that are built anew for each shape have state."""
    if any(states.begun or states.written for b in bodies for states in (b.tensors, b.resources)):
        raise RefusedError(STATE_IN_OPEN)


def _handed_on(body: FileGraph, arguments: Sequence[Operand]) -> frozenset[int]:
    """Return the numbers of constant arguments that a loop's body does not change."""
    written = {tensor for operator in body.operators for tensor in operator.outputs}
    pairs = enumerate(zip(arguments, body.inputs, body.outputs, strict=False))
    return frozenset(i for i, (a, x, y) in pairs if a.value is not None and x == y not in written)


def _expect_same_types(
    node: Node, before: Sequence[Operand], body: Graph, handed_on: Set[int], handles: Set[int]
) -> None:
    """Raise FormatError or RefusedError unless a loop's body gives what it takes; then drop `handles`."""
    numbers = [i for i in range(len(before)) if i not in handed_on]
    if len(body.outputs) != len(numbers):
        node.corrupt(f"its body gives {len(body.outputs) + len(handed_on)} tensors, expected {len(before)}")
    after = dict(zip(numbers, body.outputs, strict=True))
    if any(after.pop(i) is not before[i] for i in handles):
        raise RefusedError("its body makes another resource of one")
    body.outputs = [*after.values()]
    types = tuple(before[i].type for i in after)
    if not _same_but_for_shapes(types, body.output_types):
        made = f"{_words(body.output_types)} of {_words(types)}"
        raise RefusedError(f"it makes {made}, a loop must leave dtypes and quantisations as they are")


def _same_but_for_shapes(types: Sequence[TensorType], others: Sequence[TensorType]) -> bool:
    """Tell whether types differ in nothing else."""
    pairs = zip(types, others, strict=False)
    return len(types) == len(others) and all(a.with_shape(b.shape) == b for a, b in pairs)


def _arguments(node: Node, start: int) -> tuple[Operand, ...]:
    """Return the inputs from `start` on, all of which must be there."""
    return tuple(node.operand(i) for i in range(start, len(node.inputs)))


def _expect_decision(node: Node, what: str, type: TensorType, waits: bool) -> None:
    if type.dtype is not DType.BOOL or (type.size != 1 and not waits):
        node.corrupt(f"{what} should be one BOOL, got {type}")


def _words(types: Sequence[TensorType]) -> str:
    """Return types for a message."""
    return f"({', '.join(map(str, types))})"


CONTROL: Mapping[str, Control] = {
    "CALL": call("CallOptions", "Subgraph"),
    "CALL_ONCE": once,
    "IF": branch,
    "STABLEHLO_COMPOSITE": call("StableHLOCompositeOptions", "DecompositionSubgraphIndex"),
    "WHILE": loop,
    **RESOURCES,
}
