"""Control flow: if_else, while_loop. The host decides; the graphs run on the GPU as far as they can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from gpunn.errors import ModelError
from gpunn.ops.call import Call, ResultsNeededError
from gpunn.ops.check import expect_int
from gpunn.ops.op import op
from gpunn.types import Array, DType, TensorType


@runtime_checkable
class Body(Protocol):
    """A graph as an attribute: its types, and a way to run it."""

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """Return the types of its inputs, in order."""

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Return the types of its outputs, in order."""

    @property
    def fixed(self) -> bool:
        """Tell whether its inputs always have their stated types; else infer() is asked."""

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...] | None:
        """Return the types of its outputs for inputs of these types; None if only a run tells."""

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Compute the outputs, in order."""


@runtime_checkable
class Repeating(Protocol):
    """A body that has a way of its own to run several times."""

    def repeat(self, state: Sequence[Array], rounds: int) -> tuple[Array, ...]:
        """Compute the outputs that many times, each time from the outputs before; return the last ones."""


@runtime_checkable
class Advancing(Protocol):
    """A body that has a way of its own to run as often as the condition of its loop asks for."""

    def finish(self, state: Sequence[Array]) -> tuple[Array, ...]:
        """Return the state after the last round."""


def _types(call: Call) -> tuple[TensorType, ...]:
    """Return the types of the inputs, all of which must be there."""
    if None in call.inputs:
        call.fail(f"input {call.inputs.index(None)} must not be absent")
    return tuple(call.input(i) for i in range(len(call.inputs)))


def _expect_decision(call: Call, what: str, types: Sequence[TensorType]) -> None:
    if len(types) != 1 or types[0].dtype is not DType.BOOL or types[0].size != 1:
        call.fail(f"{what} must be one bool, got {_words(types)}")


def _expect_same(call: Call, what: str, types: Sequence[TensorType], expected: Sequence[TensorType]) -> None:
    if tuple(types) != tuple(expected):
        call.fail(f"{what} {_words(types)}, expected {_words(expected)}")


def _words(types: Sequence[TensorType]) -> str:
    """Format types for a message."""
    return f"({', '.join(map(str, types))})"


def _infer_if_else(call: Call) -> tuple[TensorType, ...]:
    decision, *arguments = _types(call)
    then, otherwise = call["then"], call["otherwise"]
    _expect_decision(call, "the condition", [decision])
    if not (then.fixed and otherwise.fixed):
        found: tuple[TensorType, ...] | None = then.infer(arguments)
        if found is None or found != otherwise.infer(arguments):
            raise ResultsNeededError(then.output_types)
        return found
    for name, body in (("then", then), ("otherwise", otherwise)):
        _expect_same(call, f"the branch {name!r} takes", body.input_types, arguments)
    _expect_same(call, "the branch 'otherwise' gives", otherwise.output_types, then.output_types)
    if not then.output_types:
        call.fail("has no results")
    return tuple(then.output_types)


@op(
    _infer_if_else,
    host_reason="the host decides which branch runs",
    raw=True,
    strings=True,
    precise=True,
    unbounded=True,
)
def if_else(*inputs: Array, then: Body, otherwise: Body) -> tuple[Array, ...]:
    """Run one of two graphs on the inputs after the first, a single bool: `then` if it is true.

    Both graphs give results of the same types (TFLite schema, IF).
    """
    condition, *arguments = inputs
    return (then if np.asarray(condition).item() else otherwise).evaluate(arguments)


def _infer_while_loop(call: Call) -> tuple[TensorType, ...]:
    state = _types(call)
    condition, body = call["condition"], call["body"]
    if condition is None:
        _expect_same(call, "the graph 'body' gives", body.output_types, state)
        return state
    if not (condition.fixed and body.fixed):
        decision = condition.infer(state)
        if decision is None or decision[0].size != 1 or body.infer(state) != state:
            raise ResultsNeededError(state)
        return state
    _expect_decision(call, "what 'condition' gives", condition.output_types)
    for name, graph in (("condition", condition), ("body", body)):
        _expect_same(call, f"the graph {name!r} takes", graph.input_types, state)
    _expect_same(call, "the graph 'body' gives", body.output_types, state)
    return state


@op(
    _infer_while_loop,
    host_reason="the host decides how often the body runs",
    raw=True,
    strings=True,
    precise=True,
    unbounded=True,
)
def while_loop(
    *state: Array, condition: Body | None, body: Body, rounds: int | None = None
) -> tuple[Array, ...]:
    """Apply `body` to the state as long as `condition` of it is true (TFLite schema, WHILE).

    The condition is asked first, so the body may not run at all. The number of rounds is mostly unknown
    beforehand: a loop may never end. KeyboardInterrupt ends it, and so do a timeout, Event.cancel() and
    closing the compilation. Where it is known (gpunn.passes.loops), `rounds` is that number, and there is no
    condition to ask.
    """
    if isinstance(body, Advancing):
        return body.finish(state)
    if condition is None and isinstance(body, Repeating):
        return body.repeat(state, rounds or 0)
    for _ in range(rounds or 0):
        state = body.evaluate(state)
    while condition is not None and _holds(condition.evaluate(state)[0]):
        state = body.evaluate(state)
    return tuple(state)


def _infer_some_rounds(call: Call) -> tuple[TensorType, ...]:
    state = _infer_while_loop(call)
    if expect_int(call, "most", call["most"]) < 1:
        call.fail(f"most must be 1 or more, got {call['most']}")
    return TensorType(DType.BOOL, ()), *state


@op(
    _infer_some_rounds,
    host_reason="the host decides how often the body runs",
    raw=True,
    strings=True,
    precise=True,
    unbounded=True,
)
def some_rounds(*state: Array, condition: Body, body: Body, most: int) -> tuple[Array, ...]:
    """Do what while_loop does, but apply `body` at most `most` times.

    Returns whether the condition holds after that, one bool, and then the state: the host asks once for
    several rounds of a loop. Raises ModelError as while_loop does, and for `most` below 1. TFLite schema,
    WhileOptions.
    """
    for _ in range(most):
        if not _holds(condition.evaluate(state)[0]):
            return np.array(False), *state
        state = body.evaluate(state)
    return np.array(_holds(condition.evaluate(state)[0])), *state


def _holds(decision: Array) -> bool:
    """Return the decision of a condition; raise ModelError unless it is one bool: only a run may tell."""
    if decision.size != 1:
        raise ModelError(f"while_loop: the condition must give one bool, got shape {list(decision.shape)}")
    return bool(decision.item())


OPS = (if_else, while_loop, some_rounds)
