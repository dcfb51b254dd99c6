"""Builder: adds what rules answer to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.graph.graph import Graph
from gpunn.graph.inference import lookup
from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Result, Step, Steps, on_constants, values_of
from gpunn.importers.common.names import Names
from gpunn.ops.op import Op
from gpunn.types import Array, OpenShape, TensorType

Check = Callable[[str | Op, Sequence[Operand | None]], None]


def _of_no_type(type: TensorType) -> bool:
    return False


def _accept(op: str | Op, inputs: Sequence[Operand | None]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Builder:
    """A graph that grows by what rules answer.

    Ops whose inputs and results are all constants of `known_types` are computed at once, as types and rules
    need what arithmetic on shapes gives.
    """

    graph: Graph
    names: Names
    known_types: Callable[[TensorType], bool] = _of_no_type

    def constants(self, values: Sequence[Array], titles: Sequence[str]) -> tuple[Operand, ...]:
        """Return constants named by titles, as far as there are titles."""
        named = zip([*titles, *[""] * len(values)], values, strict=False)
        return tuple(self.graph.constant(self.names.unique(title), value) for title, value in named)

    def add(
        self,
        answer: Steps,
        origin: str,
        titles: Sequence[str] = (),
        *,
        states: Mapping[int, str] | None = None,
        open: Sequence[OpenShape | None] = (),
        check: Check = _accept,
    ) -> tuple[tuple[Operand, ...], Mapping[int, Operand]]:
        """Add the ops of an operator; return its outputs, and what it makes of the states among its inputs.

        `titles` are what the outputs shall be called, `states` the same of states, by input; those without a
        title are left out. `open` are the outputs' shapes as declared. `check` sees each op with its inputs
        and raises where it cannot be.
        """
        end = len(answer.steps)
        outputs = (
            [Result(end - 1, k) for k in range(len(titles))] if answer.outputs is None else answer.outputs
        )
        overwritten = {i: answer.states[i] for i in states or {} if i in answer.states}
        wanted = [*zip(outputs, titles, strict=False)]
        wanted += [(result, (states or {})[i]) for i, result in overwritten.items()]
        labels = {_from_start(v, end): self.names.unique(t) for v, t in wanted if isinstance(v, Result)}
        pairs = zip(outputs, open, strict=False)
        shapes = {_from_start(v, end): shape for v, shape in pairs if isinstance(v, Result)}
        results: list[tuple[Operand, ...]] = []
        for number, step in enumerate(answer.steps):
            inputs = tuple(None if value is None else _known(value, results) for value in step.inputs)
            check(step.op, inputs)
            own = [v.index for v in labels if v.step == number]
            places = [Result(number, k) for k in range(max(own, default=-1) + 1)]
            default = f"{lookup(step.op).name}_{len(self.graph.operations)}"
            names = [labels.get(place, f"{default}:{place.index}") for place in places]
            results.append(self._apply(step, inputs, origin, names, [shapes.get(p) for p in places]))
        found = results[-1] if answer.outputs is None else (_known(v, results) for v in answer.outputs)
        return tuple(found), {i: _known(result, results) for i, result in overwritten.items()}

    def _apply(
        self,
        step: Step,
        inputs: tuple[Operand | None, ...],
        origin: str,
        names: Sequence[str],
        open: Sequence[OpenShape | None],
    ) -> tuple[Operand, ...]:
        """Return the results of a step on operands."""
        if all(o is not None and o.value is not None and self.known_types(o.type) for o in inputs):
            operation = on_constants(replace(step, inputs=inputs), origin, names)
            if all(self.known_types(o.type) for o in operation.outputs):
                pairs = zip(operation.outputs, values_of(operation), strict=True)
                return tuple(self.graph.constant(o.name, value) for o, value in pairs)
        return self.graph.add(
            step.op,
            inputs,
            step.attrs,
            origin=origin,
            names=names,
            quantization=step.quantization,
            open=open,
        )


def _from_start(result: Result, end: int) -> Result:
    """Return a result that counts its step from the start, not back from the end."""
    return Result(result.step % end, result.index)


def _known(value: Operand | Result, results: Sequence[tuple[Operand, ...]]) -> Operand:
    """Return the operand of a value, given the results of the steps so far."""
    return results[value.step][value.index] if isinstance(value, Result) else value
