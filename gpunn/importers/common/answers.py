"""The answers of rules: steps that stand for an operator, constants, or a computation for the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from gpunn.graph.graph import Graph
from gpunn.graph.inference import Inferred
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.importers.common.node import Node
from gpunn.ops.op import Op
from gpunn.types import Array, DType, Quantization, TensorType

N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class Result:
    """A result of one of several steps, both by number.

    A negative step counts back: from the step that reads it, or from the end where it is an output.
    """

    step: int
    index: int = 0

    def beside(self, index: int) -> Result:
        """Return another result of the same step."""
        return Result(self.step, index)


PREVIOUS = Result(-1)
Value = Operand | Result | None


@dataclass(frozen=True, slots=True)
class Step:
    """An op to add, one of gpunn's by name or an Op of the user's.

    Its inputs are operands, results of earlier steps, or None for those that are absent. `quantization` is
    what its results get where that does not follow from the inputs. `hybrid` marks the results, see Operand.
    `known` is its call and the types of its results, if the rule has inferred them.
    """

    op: str | Op
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    quantization: Sequence[Quantization | None] = ()
    hybrid: bool = False
    known: Inferred | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """A rule's answer of any number of ops.

    `outputs` are the operator's. None means all results of the last step, which then get the quantisation
    that the file declares. `states` are the operator's inputs that it overwrites, by position, and with what.
    """

    steps: Sequence[Step]
    outputs: Sequence[Operand | Result] | None = None
    states: Mapping[int, Result] = field(default_factory=dict)


class StepList:
    """Steps in the making, for rules that add one after the other."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(
        self,
        op: str | Op,
        inputs: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        quantization: Sequence[Quantization | None] = (),
        hybrid: bool = False,
        known: Inferred | None = None,
    ) -> Result:
        """Append a step; return its first result."""
        self.steps.append(Step(op, tuple(inputs), attrs or {}, tuple(quantization), hybrid, known))
        return Result(len(self.steps) - 1)

    def answer(self, *outputs: Operand | Result, states: Mapping[int, Result] | None = None) -> Steps:
        """Return a rule's answer of all steps, with these outputs and states."""
        return Steps(tuple(self.steps), outputs, states or {})


class Known(NamedTuple):
    """A rule's answer that the results are constants, which follow from the types of the inputs."""

    value: Array
    more: tuple[Array, ...] = ()

    @property
    def values(self) -> tuple[Array, ...]:
        """Return all constants."""
        return self.value, *self.more


Answer = Step | Sequence[Step] | Steps | Known


def as_steps(answer: Step | Sequence[Step] | Steps) -> Steps:
    """Return an answer of ops in its full form."""
    if isinstance(answer, Steps):
        return answer
    return Steps((answer,) if isinstance(answer, Step) else answer)


def constant(name: str, value: Array) -> Operand:
    """Return a constant that a rule brings, unquantised."""
    return Operand(name, TensorType(DType.of(value.dtype), value.shape), Lifetime.CONSTANT, value)


def on_constants(step: Step, origin: str, names: Sequence[str] = ()) -> Operation:
    """Return the operation of a step on constants, for values_of(). Raises ModelError as Graph.add()."""
    scratch = Graph()
    inputs = [o if isinstance(o, Operand) else None for o in step.inputs]
    scratch.add(step.op, inputs, step.attrs, origin=origin, names=names)
    (operation,) = scratch.operations
    return operation


def values_of(operation: Operation) -> tuple[Array, ...]:
    """Return the results of an operation on constants."""
    return operation.stored(operation.evaluate([None if o is None else o.value for o in operation.inputs]))


def at_once(step: Step, node: Node) -> Step | Known:
    """Return what a step gives if all inputs are constants, as shapes may follow from that; else the step."""
    if not node.known:
        return step
    value, *more = values_of(on_constants(step, node.origin))
    return Known(value, tuple(more))
