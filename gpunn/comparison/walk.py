"""The walk through the optimised model, layer by layer: exact values, and the results of every side for them.

Only tensors that later layers read are kept, so memory does not grow with the depth of a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpunn.comparison.check import Checked
from gpunn.comparison.exact import narrow, renamed, start
from gpunn.comparison.inputs import Sample
from gpunn.comparison.metrics import Health, health
from gpunn.comparison.noise import Chains, has_bodies
from gpunn.comparison.result import Layer, LayerSide
from gpunn.comparison.sides import Arithmetic, reals
from gpunn.comparison.source import LayerSource
from gpunn.comparison.tolerance import bounds
from gpunn.graph.exact import evaluate
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.tolerance import stored
from gpunn.planning.liveness import last_uses
from gpunn.progress import Progress


@dataclass(frozen=True, slots=True)
class Walked:
    """layers: one for each result. drift: the tolerance of every output of the model, by arithmetic."""

    layers: tuple[Layer, ...]
    drift: Mapping[Arithmetic, Mapping[Operand, float]]


class Walk:
    """One walk through an optimised model with some samples."""

    def __init__(
        self,
        model: Graph,
        samples: Sequence[Sample],
        arithmetics: Sequence[Arithmetic],
        sides: Sequence[LayerSource],
        variants: Mapping[Arithmetic, Mapping[Operation, Operation]],
    ) -> None:
        """Take `variants`, the operations of an arithmetic in place of the model's."""
        self._model = model
        self._sides = sides
        self._exact = [start(model, s.arrays) for s in samples]
        unknown = (Arithmetic.EXACT, Arithmetic.OTHER)
        kinds = [a for a in dict.fromkeys(arithmetics) if a not in unknown]
        self._chains = [Chains(a, self._exact, variants.get(a, {})) for a in kinds]

    def run(self, progress: Progress) -> Walked:
        """Go through all operations."""
        dead = last_uses(self._model)
        layers: list[Layer] = []
        outputs = set(self._model.outputs)
        drift: dict[Arithmetic, dict[Operand, float]] = {c.arithmetic: {} for c in self._chains}
        count = len(self._model.operations)
        what = "layers" if self._sides else "rounding"
        for index, operation in enumerate(self._model.operations):
            progress(what, index, count)
            tolerances = self._step(operation)
            for arithmetic, found in tolerances.items():
                pairs = zip(operation.outputs, found, strict=True)
                drift[arithmetic].update({o: t for o, t in pairs if o in outputs})
            unread = dead.get(operation, ())
            if self._sides:
                layers += self._layers(index, operation, tolerances, unread)
            self._free(unread)
        progress(what, count, count)
        return Walked(tuple(layers), drift)

    def _step(self, operation: Operation) -> dict[Arithmetic, list[float]]:
        """Add the exact results to the exact values; return tolerances from the noise."""
        tolerances = {c.arithmetic: [0.0] * len(operation.outputs) for c in self._chains}
        for number, exact in enumerate(self._exact):
            results = evaluate(operation, exact)
            for chains in self._chains:
                found = chains.step(number, operation, exact, results)
                tolerances[chains.arithmetic] = list(map(max, tolerances[chains.arithmetic], found))
            exact.update(zip(operation.outputs, results, strict=True))
        return tolerances

    def _free(self, operands: Sequence[Operand]) -> None:
        for values in self._exact:
            for operand in operands:
                values.pop(operand, None)
        for chains in self._chains:
            chains.free(operands)

    def _layers(
        self,
        index: int,
        operation: Operation,
        tolerances: Mapping[Arithmetic, list[float]],
        unread: Sequence[Operand],
    ) -> list[Layer]:
        """Make a Layer for each result."""
        by_side = []
        for side in self._sides:
            by_side.append(self._side(side, operation, tolerances.get(side.info.arithmetic)))
            side.end(unread)
        layers = []
        for number, operand in enumerate(operation.outputs):
            exact = Health()
            for values in self._exact:
                exact += health(reals(values[operand], operand.type))
            layers.append(
                Layer(
                    index=index,
                    output=number,
                    name=operand.name,
                    op=operation.op,
                    activation=operation.activation,
                    origin=operation.origin,
                    dtype=operand.type.dtype.value,
                    shape=operand.type.shape,
                    quantised=stored(operand.type),
                    values=exact,
                    sides=tuple(found[number] for found in by_side),
                )
            )
        return layers

    def _side(
        self, side: LayerSource, operation: Operation, tolerances: Sequence[float] | None
    ) -> list[LayerSide]:
        """Run an operation on one side; return a LayerSide for each result."""
        variant = side.variant(operation)
        run = side.begin(operation)
        alone = [Checked() for _ in operation.outputs]
        drifted = [Checked() for _ in operation.outputs]
        pairs = list(zip(operation.inputs, variant.inputs, strict=True))
        sources = {o: v for o, v in pairs if o is not None and v is not None and o.value is None}
        for number, exact in enumerate(self._exact):
            isolated = side.isolated(number, {o: narrow(exact[o], v) for o, v in sources.items()})
            if isolated is not None:
                given, results = renamed(operation, variant, isolated[0]), isolated[1]
                expected = evaluate(variant, given)
                limits = bounds(variant, given, expected, side.info.arithmetic)
                for k, operand in enumerate(variant.outputs):
                    inside = tolerances if has_bodies(operation) else None  # of the rounding in bodies
                    limit = limits[k].limit if inside is None else inside[k]
                    alone[k].add(operand, expected[k], results[k], limit)
            own = side.accumulated(number)
            if own is not None and tolerances is not None:
                for k, operand in enumerate(operation.outputs):
                    drifted[k].add(operand, exact[operand], own[k], tolerances[k])
        return [
            LayerSide(side.info.name, run.place, run.reason, run.shaders, a.check(), b.check())
            for a, b in zip(alone, drifted, strict=True)
        ]
