"""Models whose shapes depend on values: what they come to once these are known."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from gpunn.errors import UnsupportedError
from gpunn.model import Model
from gpunn.operation import Operand, Operation
from gpunn.ops.op import as_tuple
from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class Rest:
    """What follows a model's operations where it cannot be planned without their results.

    `operation`, whose inputs are operands of the model, is the host's: its results are values that the rest
    is built for (`by_value`), or further inputs of the rest, built for their shapes. `inputs` are operands of
    the model that are inputs of the rest, in order, before those. `build` makes the rest, which computes the
    outputs, or may have a rest itself; it raises ModelError where the results do not fit.
    """

    operation: Operation
    reason: str
    inputs: tuple[Operand, ...]
    by_value: bool
    build: Callable[[Sequence[Array]], Model]

    @property
    def where(self) -> str:
        """At which operation the rest begins, and why."""
        return f"{self.operation.origin}: {self.reason}"

    def split(self, outputs: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Of what front() gives: the inputs of the rest, and what the rest is built for."""
        count = len(self.inputs)
        results = as_tuple(self.operation.definition.reference(*outputs[count:]))
        inputs = tuple(outputs[:count])
        return (inputs if self.by_value else (*inputs, *results)), results

    def begun(self, rest: Model) -> Operation:
        """The host's operation once the model that it led to has been built: with results, if it has any."""
        return replace(self.operation, outputs=tuple(rest.inputs[len(self.inputs) :]))

    def key(self, results: Sequence[Array]) -> tuple[Hashable, ...]:
        """What decides on the rest."""
        return tuple((r.shape, r.tobytes() if self.by_value else b"") for r in results)


def expect_whole(model: Model, what: str) -> Model:
    """The model, unless it has a rest: then UnsupportedError saying what cannot be done."""
    if model.rest is not None:
        raise UnsupportedError(f"{what} a model with shapes that depend on values: {model.rest.where}")
    return model


def front(model: Model) -> Model:
    """The operations that can be planned at once; where there is a rest the outputs are what it needs."""
    if model.rest is None:
        return model
    needed = [o for o in model.rest.operation.inputs if o is not None]
    return replace(model, outputs=[*model.rest.inputs, *needed], rest=None, source=None)
