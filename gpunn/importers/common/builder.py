"""Builder: adds what rules answer to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpunn.graph.graph import Graph
from gpunn.graph.inference import lookup
from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Result, Step, Steps, Value, on_constants, values_of
from gpunn.importers.common.names import Names
from gpunn.types import Array, OpenShape, TensorType

T = TypeVar("T")
Settle = Callable[[Step, bool], Step]


def _of_no_type(type: TensorType) -> bool:
    return False


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
        settle: Settle | None = None,
    ) -> tuple[tuple[Operand, ...], Mapping[int, Operand]]:
        """Add the ops of an operator; return its outputs, and what it makes of the states among its inputs.

        `titles` are what the outputs shall be called, `states` the same of states, by input; those without a
        title are left out. `open` are the outputs' shapes as declared. `settle` gets each step with operands
        as inputs, and whether the outputs are its results because the answer states none. It returns the step
        to add, and raises if that cannot be.
        """
        end = len(answer.steps)
        outputs = answer.outputs
        if outputs is None:
            outputs = [Result(end - 1, k) for k in range(len(titles))]
        overwritten = {i: answer.states[i] for i in states or {} if i in answer.states}
        pairs = [*zip(outputs, titles, strict=False)]
        pairs += [(result, (states or {})[i]) for i, result in overwritten.items()]
        labels = _by_step([(value, self.names.unique(title)) for value, title in pairs], end)
        shapes = _by_step(zip(outputs, open, strict=False), end)
        results: list[tuple[Operand, ...]] = []
        for number, step in enumerate(answer.steps):
            inputs = tuple([None if value is None else _known(value, results) for value in step.inputs])
            last = answer.outputs is None and number == end - 1
            step = settle(replace(step, inputs=inputs), last) if settle else step
            settled = step.inputs if settle else inputs
            names, declared = self._names(step, labels.get(number, {})), shapes.get(number, {})
            known = [declared.get(k) for k in range(len(names))]
            results.append(self._apply(step, settled, origin, names, known))
        found = results[-1] if answer.outputs is None else (_known(v, results) for v in outputs)
        return tuple(found), {i: _known(result, results) for i, result in overwritten.items()}

    def _names(self, step: Step, own: Mapping[int, str]) -> list[str]:
        """Return the names of a step's results, up to the last one that has a name of its own."""
        if not own:
            return []
        default = f"{lookup(step.op).name}_{len(self.graph.operations)}"
        return [own.get(k) or f"{default}:{k}" for k in range(max(own) + 1)]

    def _apply(
        self,
        step: Step,
        settled: Sequence[Value],
        origin: str,
        names: Sequence[str],
        open: Sequence[OpenShape | None],
    ) -> tuple[Operand, ...]:
        """Return the results of a step on operands."""
        inputs = [value if isinstance(value, Operand) else None for value in settled]
        if self.known_types is not _of_no_type and all(
            o is not None and o.value is not None and self.known_types(o.type) for o in inputs
        ):
            operation = on_constants(replace(step, inputs=tuple(inputs)), origin, names)
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
            hybrid=step.hybrid,
            known=step.known,
        )


def _by_step(pairs: Iterable[tuple[Operand | Result, T]], end: int) -> dict[int, dict[int, T]]:
    """Return what is given for results as one mapping for each step, counted from the start."""
    found: dict[int, dict[int, T]] = {}
    for value, given in pairs:
        if isinstance(value, Result):
            found.setdefault(value.step % end, {})[value.index] = given
    return found


def _known(value: Operand | Result, results: Sequence[tuple[Operand, ...]]) -> Operand:
    """Return the operand of a value, given the results of the steps so far."""
    return results[value.step][value.index] if isinstance(value, Result) else value
