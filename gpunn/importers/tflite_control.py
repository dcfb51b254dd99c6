"""Operators that call subgraphs: what each stands for, and what the reader offers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gpunn.importers.tflite_file import FileGraph
from gpunn.importers.tflite_node import Node, RefusedError
from gpunn.model import Model
from gpunn.operation import Operand
from gpunn.types import DType, TensorType


class Scope(Protocol):
    """The reader of the subgraph that the operator stands in."""

    model: Model

    def subgraph(self, index: int) -> FileGraph:
        """Another subgraph. Raises FormatError where it leads back here, or too deep."""

    def nested(
        self, index: int, inputs: Sequence[Operand], names: Sequence[str] = (), into: Model | None = None
    ) -> tuple[Operand, ...]:
        """The results of a subgraph on given operands: inlined, or read `into` another model."""

    def name(self, wanted: str) -> str:
        """A name for an operand, made unique."""


Control = Callable[[Node, Sequence[str], Scope], tuple[Operand, ...]]


def call(options: str, field: str) -> Control:
    """A rule for CALL and STABLEHLO_COMPOSITE: the subgraph's operators stand here instead."""

    def rule(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
        return scope.nested(node.options(options).get(field), _arguments(node, 0), names)

    return rule


def branch(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """IF: one of two subgraphs on the inputs after the first; inlined where the condition is constant."""
    options = node.options("IfOptions")
    condition, arguments = node.operand(0), _arguments(node, 1)
    _expect_decision(node, "the condition", condition.type)
    targets = options.get("ThenSubgraphIndex"), options.get("ElseSubgraphIndex")
    if condition.value is not None:
        return scope.nested(targets[0] if condition.value.item() else targets[1], arguments, names)
    constants = frozenset(i for i, a in enumerate(arguments) if a.value is not None)
    then, otherwise = (_body(scope, t, arguments, constants) for t in targets)
    if then.output_types != otherwise.output_types:
        types = " and ".join(_words(b.output_types) for b in (then, otherwise))
        raise RefusedError(f"its branches give {types}, which must be of the same types")
    varying = [a for a in arguments if a.value is None]
    attrs = {"then": then, "otherwise": otherwise}
    named = [scope.name(n) for n in names]
    return scope.model.add("if_else", (condition, *varying), attrs, origin=node.origin, names=named)


def loop(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """WHILE: the inputs go through a subgraph as long as another says so; their types must stay.

    A constant that the body hands on stays one, inside, too: it may be the shape or the axes of something.
    """
    options = node.options("WhileOptions")
    targets = options.get("CondSubgraphIndex"), options.get("BodySubgraphIndex")
    arguments = _arguments(node, 0)
    fixed = _handed_on(scope.subgraph(targets[1]), arguments)
    condition = _body(scope, targets[0], arguments, fixed)
    if len(condition.outputs) != 1:
        node.corrupt(f"expected one output of subgraph {targets[0]}, got {len(condition.outputs)}")
    _expect_decision(node, "what the condition gives", condition.outputs[0].type)
    body = _body(scope, targets[1], arguments, fixed)
    _expect_same_types(node, arguments, body.outputs, fixed)
    body.outputs = [o for i, o in enumerate(body.outputs) if i not in fixed]
    state = [a for i, a in enumerate(arguments) if i not in fixed]
    if not state:
        raise RefusedError("nothing in it changes, so it ends at once or never")
    named = [scope.name(n) for i, n in enumerate(names) if i not in fixed]
    attrs = {"condition": condition, "body": body}
    last = iter(scope.model.add("while_loop", state, attrs, origin=node.origin, names=named))
    return tuple(a if i in fixed else next(last) for i, a in enumerate(arguments))


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


def _body(scope: Scope, index: int, arguments: Sequence[Operand], fixed: frozenset[int]) -> Model:
    """A subgraph as a model of its own, whose inputs are the arguments that are not fixed (constants)."""
    model = Model(f"subgraph {index}")
    inputs = [a if i in fixed else model.input(a.name, a.type) for i, a in enumerate(arguments)]
    model.output(*scope.nested(index, inputs, into=model))
    return model


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
    "IF": branch,
    "STABLEHLO_COMPOSITE": call("StableHLOCompositeOptions", "DecompositionSubgraphIndex"),
    "WHILE": loop,
}
