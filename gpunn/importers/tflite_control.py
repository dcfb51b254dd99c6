"""Operators that call subgraphs, and what state means in a branch or a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gpunn.importers.tflite_file import FileGraph
from gpunn.importers.tflite_node import Node, RefusedError
from gpunn.importers.tflite_resources import RESOURCES, UNCERTAIN
from gpunn.importers.tflite_scope import Control, Scope
from gpunn.importers.tflite_target import States, Target
from gpunn.importers.tflite_work import Key
from gpunn.model import zeros
from gpunn.operation import Operand
from gpunn.types import DType, TensorType

_BOOL = TensorType(DType.BOOL, ())


def call(options: str, field: str) -> Control:
    """A rule for CALL and STABLEHLO_COMPOSITE: the subgraph's operators stand here instead."""

    def rule(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
        return scope.nested(node.options(options).get(field), _arguments(node, 0), names)

    return rule


def branch(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """IF: one of two subgraphs on the inputs after the first; inlined where the condition is constant.

    Their variable tensors begin anew each time; of resources, what either assigns comes out of both.
    """
    options = node.options("IfOptions")
    condition, arguments = node.operand(0), _arguments(node, 1)
    _expect_decision(node, "the condition", condition.type)
    indices = options.get("ThenSubgraphIndex"), options.get("ElseSubgraphIndex")
    around = scope.target.entered(scope.work)
    if condition.value is not None:
        return scope.nested(indices[0] if condition.value.item() else indices[1], arguments, names, around)
    constants = frozenset(i for i, a in enumerate(arguments) if a.value is not None)
    bodies = [_body(scope, i, arguments, constants, around.body(f"subgraph {i}")) for i in indices]
    inputs = [condition, *(a for a in arguments if a.value is None)]
    return _choice(node, names, around, inputs, bodies)


def _choice(
    node: Node, names: Sequence[str], around: Target, inputs: Sequence[Operand], bodies: Sequence[Target]
) -> tuple[Operand, ...]:
    """The results of the body that the first input chooses, without what resources then hold `around` it."""
    written = list(dict.fromkeys(k for b in bodies for k in b.resources.written))
    for body in bodies:
        body.model.output(*map(body.resources.get, written))
    read = _begin_alike(bodies, _resources)
    then, otherwise = (b.model for b in bodies)
    if then.output_types != otherwise.output_types:
        types = " and ".join(_words(b.output_types) for b in (then, otherwise))
        raise RefusedError(f"its branches give {types}, which must be of the same types")
    if not then.outputs:  # whichever runs, nobody will know
        return ()
    attrs = {"then": then, "otherwise": otherwise}
    named = [around.names.unique(n) for n in (*names, *map(str, written))]
    taken = *inputs, *map(around.resources.get, read)
    results = around.model.add("if_else", taken, attrs, origin=node.origin, names=named)
    count = len(results) - len(written)
    around.resources.written.update(zip(written, results[count:], strict=True))
    return results[:count]


def once(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """CALL_ONCE: what a subgraph imports and assigns before the first run.

    Constants are what variables begin with. Where it computes something, it is a branch of the first run.
    """
    index = node.options("CallOnceOptions").get("InitSubgraphIndex")
    if not scope.target.certain:
        raise RefusedError(UNCERTAIN)
    if index in scope.work.done_once:
        return ()
    scope.work.done_once.add(index)
    target = scope.target.once(scope.work)
    if scope.nested(index, (), target=target):
        node.corrupt(f"subgraph {index} should have no outputs")
    outside, written = scope.target.resources, target.resources.written
    for variable, operand in written.items():
        if variable in outside.begun or variable in outside.written:
            raise RefusedError(f"variable {str(variable)!r} is used before")
        value = zeros(operand.type) if operand.value is None else operand.value
        scope.work.initial_values[variable] = value
    if any(o.value is None for o in written.values()) and not scope.work.unsupported:
        around = scope.target.entered(scope.work)
        first = around.model.variable(around.names.unique("first run"), _BOOL, np.array(True))
        around.model.update(first, around.model.constant("not the first", np.array(False)))
        body = _body(scope, index, (), frozenset(), around.body(f"subgraph {index}"))
        _choice(node, (), around, [first], [body, around.body("later runs")])
    return ()


def loop(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """WHILE: the inputs go through a subgraph as long as another says so; their types must stay.

    A constant that the body hands on stays one, inside, too: it may be the shape or the axes of something.
    Variable tensors begin anew when the loop does and go round with it, as resources do.
    """
    options = node.options("WhileOptions")
    indices = options.get("CondSubgraphIndex"), options.get("BodySubgraphIndex")
    arguments = _arguments(node, 0)
    fixed = _handed_on(scope.subgraph(indices[1]), arguments)
    fixed |= {i for i, a in enumerate(arguments) if a in scope.work.resources}
    around = scope.target.entered(scope.work)
    condition, body = bodies = [
        _body(scope, i, arguments, fixed, around.body(f"subgraph {i}", loop=True)) for i in indices
    ]
    if len(condition.model.outputs) != 1:
        node.corrupt(f"expected one output of subgraph {indices[0]}, got {len(condition.model.outputs)}")
    _expect_decision(node, "what the condition gives", condition.model.outputs[0].type)
    _expect_same_types(node, arguments, body.model.outputs, fixed)
    body.model.outputs = [o for i, o in enumerate(body.model.outputs) if i not in fixed]
    state = [a for i, a in enumerate(arguments) if i not in fixed]
    named = [n for i, n in enumerate(names) if i not in fixed]
    for kind in _tensors, _resources:
        outside, inside = kind(around), kind(body)
        if kind(condition).written:
            raise RefusedError("its condition changes variables")
        for key in inside.written:
            inside.start(key)
        carried = _begin_alike(bodies, kind)
        state += map(outside.get, carried)
        body.model.output(*map(inside.get, carried))
        named += (inside.start(k).name for k in carried)
    if not state:
        raise RefusedError("nothing in it changes, so it ends at once or never")
    attrs = {"condition": condition.model, "body": body.model}
    named = [around.names.unique(n) for n in named]
    last = around.model.add("while_loop", state, attrs, origin=node.origin, names=named)
    after = zip(carried, last[len(last) - len(carried) :], strict=True)  # those of resources
    around.resources.written.update((k, o) for k, o in after if k in body.resources.written)
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


def _handed_on(body: FileGraph, arguments: Sequence[Operand]) -> frozenset[int]:
    """The numbers of constant arguments that a loop's body says it does not change."""
    same = (i for i, (x, y) in enumerate(zip(body.inputs, body.outputs, strict=False)) if x == y)
    return frozenset(i for i in same if i < len(arguments) and arguments[i].value is not None)


def _expect_same_types(
    node: Node, before: Sequence[Operand], after: Sequence[Operand], fixed: frozenset[int]
) -> None:
    """FormatError or RefusedError unless a loop's body gives what it takes."""
    if len(after) != len(before):
        node.corrupt(f"its body gives {len(after)} tensors, expected {len(before)}")
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if index in fixed and old is not new:
            raise RefusedError("its body writes to one of its own inputs")
        if old.type != new.type:
            raise RefusedError(f"it makes {new.type} of {old.type}, a loop must leave types as they are")


def _body(
    scope: Scope, index: int, arguments: Sequence[Operand], fixed: frozenset[int], target: Target
) -> Target:
    """A subgraph read into a model of its own, whose inputs are the arguments that are not `fixed`."""
    model = target.model
    inputs = [a if i in fixed else model.input(a.name, a.type) for i, a in enumerate(arguments)]
    model.output(*scope.nested(index, inputs, target=target))
    return target


def _arguments(node: Node, start: int) -> tuple[Operand, ...]:
    """The inputs from `start` on, all of which must be there."""
    return tuple(node.operand(i) for i in range(start, len(node.inputs)))


def _expect_decision(node: Node, what: str, type: TensorType) -> None:
    if type.dtype is not DType.BOOL or type.size != 1:
        node.corrupt(f"{what} should be one BOOL, got {type}")


def _words(types: Sequence[TensorType]) -> str:
    """Types for a message."""
    return f"({', '.join(map(str, types))})"


CONTROL: Mapping[str, Control] = {
    "CALL": call("CallOptions", "Subgraph"),
    "CALL_ONCE": once,
    "IF": branch,
    "STABLEHLO_COMPOSITE": call("StableHLOCompositeOptions", "DecompositionSubgraphIndex"),
    "WHILE": loop,
    **RESOURCES,
}
