"""What a rule answers: the steps that stand for an operator, constants, or what the host must compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.graph.operation import Lifetime, Operand
from gpunn.graph.pending import FOR_SHAPES
from gpunn.importers.common.node import Node, RefusedError
from gpunn.ops.call import Call
from gpunn.ops.op import Op, op
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
    what its results get where that does not follow from the inputs.
    """

    op: str | Op
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    quantization: Sequence[Quantization | None] = ()


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
    ) -> Result:
        """Append a step; return its first result."""
        self.steps.append(Step(op, tuple(inputs), attrs or {}, tuple(quantization)))
        return Result(len(self.steps) - 1)

    def answer(self, *outputs: Operand | Result, states: Mapping[int, Result] | None = None) -> Steps:
        """Return a rule's answer of all steps, with these outputs and states."""
        return Steps(tuple(self.steps), outputs, states or {})


@dataclass(frozen=True, slots=True)
class Known:
    """A rule's answer that the results are constants, which follow from the types of the inputs."""

    value: Array
    more: tuple[Array, ...] = ()

    @property
    def values(self) -> tuple[Array, ...]:
        """All of them."""
        return self.value, *self.more


@dataclass(frozen=True, slots=True)
class Computed:
    """A rule's answer that the shapes of its results depend on values: the host computes these of `inputs`.

    What `function` raises as a RefusedError or a FormatError is the fault of the values.
    """

    inputs: tuple[Operand, ...]
    function: Callable[..., tuple[Array, ...]]


Answer = Step | Sequence[Step] | Steps | Known | Computed


def as_steps(answer: Step | Sequence[Step] | Steps) -> Steps:
    """Return an answer of ops in its full form."""
    if isinstance(answer, Steps):
        return answer
    return Steps((answer,) if isinstance(answer, Step) else answer)


def constant(name: str, value: Array) -> Operand:
    """Return a constant that a rule brings, unquantised."""
    return Operand(name, TensorType(DType.of(value.dtype), value.shape), Lifetime.CONSTANT, value)


def when_known(rule: Callable[[N], Known | Computed], node: N) -> Computed:
    """Return what a rule that works on constants would answer if it knew all inputs of its operator."""
    open = tuple(dict.fromkeys(o for o in node.inputs if o is not None and o.value is None))

    def function(*values: Array) -> tuple[Array, ...]:
        known = {o: replace(o, value=v) for o, v in zip(open, values, strict=True)}
        answer = rule(replace(node, inputs=tuple(o and known.get(o, o) for o in node.inputs)))
        assert isinstance(answer, Known)
        return answer.values

    return Computed(open, function)


def computed(name: str, answer: Computed, node: Node) -> Op:
    """Return the op of what the host computes for a node: shapes follow from the values of all inputs."""
    expected = [type for type in node.outputs if type is not None]

    def compute(*values: Array) -> tuple[Array, ...]:
        stored = (np.asarray(v, o.type.dtype.numpy) for v, o in zip(values, answer.inputs, strict=True))
        try:
            return answer.function(*stored)
        except RefusedError as refusal:
            raise UnsupportedError(f"{node.origin}: {refusal}") from None
        except FormatError as error:
            raise ModelError(str(error)) from None

    def infer(call: Call) -> tuple[TensorType, ...]:
        results = compute(*(call.value(k, *expected) for k in range(len(call.inputs))))
        return tuple(TensorType(DType.of(r.dtype), r.shape) for r in results)

    return op(infer, name=name, host_reason=FOR_SHAPES, raw=True, strings=True)(compute)
