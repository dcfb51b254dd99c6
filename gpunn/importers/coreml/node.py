"""Node: a layer of an .mlmodel file as its rule sees it, with its parameters and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpunn.custom import CustomOperator
from gpunn.errors import FormatError
from gpunn.graph.inference import Inferred, call_of, inferred, lookup
from gpunn.graph.operation import Lifetime, Operand
from gpunn.importers.common import node as common
from gpunn.importers.common.answers import PREVIOUS, Result, Step, StepList, Steps, constant
from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml import weights
from gpunn.importers.coreml.chunks import Chunks
from gpunn.importers.coreml.messages import Message
from gpunn.ops.call import ResultsNeededError, ValueNeededError
from gpunn.ops.op import Op
from gpunn.types import Array, Shape, TensorType

Value = Operand | Result


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node(common.Node):
    """A layer of a file, and the steps that its rule has added so far.

    `params` are its parameters. `legacy`: all tensors of the network have the five axes [sequence, batch,
    channel, height, width]. `count` is the number of its outputs. `custom` says what custom layers stand for,
    by their class, `chunks` has large values of the file.
    """

    params: Message = None
    legacy: bool = False
    count: int = 1
    custom: Mapping[str, CustomOperator] = field(default_factory=dict)
    chunks: Chunks = field(default_factory=dict)
    steps: StepList = field(default_factory=StepList)
    types: dict[Result, TensorType] = field(default_factory=dict)

    def add(self, op: str | Op, /, *inputs: Value | None, **attrs: Any) -> Result:
        """Add an op, and return its first result."""
        stand_ins = [self._stand_in(value) for value in inputs]
        definition = lookup(op)
        known: Inferred | None = None
        asked: list[Operand] = []

        def value_of(operand: Operand) -> Array | None:
            asked.append(operand)
            return self.value_of(operand)

        try:
            call = call_of(definition, stand_ins, attrs, self.origin, value_of)
            types = inferred(definition, call)
            if not asked:  # a graph may know more values
                known = Inferred(call, types)
        except (ValueNeededError, ResultsNeededError) as needed:
            types = needed.results  # the graph keeps the op as pending, and what follows as well
            if not types:
                raise RefusedError("the shape of its result depends on values") from None
        result = self.steps.add(op, inputs, attrs, known=known)
        for k, type in enumerate(types):
            self.types[result.beside(k)] = type
        return result

    def add_steps(self, steps: Sequence[Step]) -> Result:
        """Add ops that a rule of several formats states, one after the other; return the last result."""
        found = PREVIOUS
        for step in steps:
            inputs = (found if value == PREVIOUS else value for value in step.inputs)
            found = self.add(step.op, *inputs, **step.attrs)
        return found

    def answer(self, results: Value | Sequence[Value]) -> Steps:
        """Return all steps as a rule's answer, with these results."""
        found = (results,) if isinstance(results, (Operand, Result)) else tuple(results)
        return self.steps.answer(*found)

    def type(self, value: Value) -> TensorType:
        """Return the type of an input or a result."""
        return self.types[value] if isinstance(value, Result) else value.type

    def shape(self, value: Value) -> Shape:
        """Return the shape of an input or a result."""
        return self.type(value).shape

    def only(self) -> Operand:
        """Return the one input. Raises FormatError for another number of inputs."""
        if len(self.inputs) != 1:
            self.corrupt(f"expected 1 input, got {len(self.inputs)}")
        return self.operand(0)

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis, counted from the start. Raises FormatError if it is out of range."""
        if not -rank <= axis < rank:
            self.corrupt(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def ints_of(self, values: Sequence[int], what: str, count: int, default: int | None = None) -> Shape:
        """Return a repeated parameter with `count` entries; absent, all are `default`."""
        if not len(values) and default is not None:
            return (default,) * count
        if len(values) != count:
            self.corrupt(f"{what} has {len(values)} entries, expected {count}")
        return tuple(int(v) for v in values)

    def numbers(self, index: int, what: str) -> Shape:
        """Return the integers that input `index` holds. Raises ComputedError if they are unknown."""
        values = self.constant(index, what, "float32").reshape(-1)
        if values.size > common.MAX_INTS or not np.isfinite(values).all():
            self.corrupt(f"the {what} are no list of integers")
        return tuple(int(v) for v in values)

    def number(self, index: int, what: str) -> int:
        """Return the one integer that input `index` holds. Raises FormatError for more or none."""
        return self.ints_of(self.numbers(index, what), f"input {index}, the {what},", 1)[0]

    def scalar(self, value: float) -> Operand:
        """Return a float32 constant of rank 0; a number beyond its range becomes infinite."""
        return self.floats(value)

    def floats(self, value: Any) -> Operand:
        """Return a float32 constant; numbers beyond its range become infinite."""
        with np.errstate(over="ignore"):
            return constant("constant", np.asarray(value, np.float32))

    def integers(self, value: Any) -> Operand:
        """Return an int32 constant."""
        return constant("constant", np.asarray(value, np.int32))

    def weights(self, message: Message, *shape: int, what: str = "weights") -> Array:
        """Return weights as float32 of a shape. Raises FormatError if there are more or fewer."""
        try:
            with np.errstate(all="ignore"):  # scales may be anything
                return weights.weights(
                    message, math.prod(shape), shape[0] if shape else 1, self.chunks
                ).reshape(shape)
        except FormatError as error:
            self.corrupt(f"{what}: {error}")
        except ValueError:  # no elements, but extents beyond what an array may have
            self.corrupt(f"{what}: shape {list(shape)} is too large")

    def _stand_in(self, value: Value | None) -> Operand | None:
        """Return an operand of the type of a value, for ops that infer types."""
        if not isinstance(value, Result):
            return value
        return Operand("", self.types[value], Lifetime.TEMPORARY)
