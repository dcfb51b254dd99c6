"""The layers of a side: one operation at a time, run on given inputs and on the side's own inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpunn.comparison.inputs import Sample
from gpunn.comparison.sides import WEBGPU, CompiledSide, SideInfo
from gpunn.compilation.base import Compilation
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.passes.rewrite import single
from gpunn.types import Array

Values = Mapping[Operand, Array]


@dataclass(frozen=True, slots=True)
class Run:
    """The place where a side runs an operation, why it is not the GPU, and the shaders' files if it is."""

    place: str
    reason: str
    shaders: tuple[str, ...] = ()


class LayerSource(Protocol):
    """A side's results, operation by operation in the model's order, for each of several samples.

    Values are keyed by the model's own operands, even if the side has other operands in their places.
    """

    info: SideInfo

    def variant(self, operation: Operation) -> Operation:
        """Return the operation in the side's form; its operands stand for those of `operation` in the same
        places.
        """

    def begin(self, operation: Operation) -> Run:
        """Prepare an operation; return where it runs."""

    def isolated(self, sample: int, given: Values) -> tuple[Values, tuple[Array, ...]] | None:
        """Return the inputs and the results for them: the given inputs, or others if the side cannot set its
        inputs.
        """

    def accumulated(self, sample: int) -> tuple[Array, ...] | None:
        """Return the results for the inputs that the side itself computed."""

    def end(self, dead: Iterable[Operand]) -> None:
        """Finish the operation; nothing reads the operands in `dead` any more."""


def _file(body: str) -> str:
    """Return the file of a kernel's body: in shaders/, unless the body is a path itself."""
    return body if body.endswith(".wgsl") else f"shaders/{body}.wgsl"


class CompiledLayers:
    """Layers on a backend of gpunn: each is compiled alone, in its form in the optimised model.

    Pipelines are shared with the whole model. At any time there are only the constants and intermediates of
    one layer, and the tensors that later layers read. `variants`: the side's operations in place of the
    model's.
    """

    def __init__(
        self,
        side: CompiledSide,
        model: Graph,
        samples: Sequence[Sample],
        variants: Mapping[Operation, Operation],
    ) -> None:
        self._variants = variants
        self.info = side.info
        self.on_gpu = side.backend == WEBGPU
        self._side = side
        self._outputs = model.outputs
        self._samples = samples
        self._values = [
            {**dict(zip(model.inputs, s.arrays, strict=True)), **model.variables} for s in samples
        ]
        self._compiled: Compilation | None = None
        self._sources: tuple[Operand, ...] = ()
        self._operation: Operation | None = None

    def variant(self, operation: Operation) -> Operation:
        return self._variants.get(operation, operation)

    def begin(self, operation: Operation) -> Run:
        variant = self.variant(operation)
        model, sources = single(variant)
        places = {v: o for o, v in zip(operation.inputs, variant.inputs, strict=True) if o is not None}
        self._sources = tuple(places[source] for source in sources)
        self._operation = operation
        self._compiled = self._side.compile(model)
        placement = self._compiled.placement[0]  # those of bodies follow
        bodies = dict.fromkeys(row.kernel.body for row in self._compiled.plan_rows())
        return Run(placement.backend, placement.reason, tuple(map(_file, bodies)))

    def isolated(self, sample: int, given: Values) -> tuple[Values, tuple[Array, ...]]:
        return given, self._run(given)

    def accumulated(self, sample: int) -> tuple[Array, ...]:
        assert self._operation is not None
        results = self._run(self._values[sample])
        self._values[sample].update(zip(self._operation.outputs, results, strict=True))
        return results

    def as_whole(self) -> bool:
        """Tell, after the last operation, whether the whole model gives the same bits as its single layers.

        Outputs with other shapes than those of the layers are not compared.
        """
        for sample, values in zip(self._samples, self._values, strict=True):
            pairs = zip(self._outputs, self._side.run(sample), strict=True)
            for operand, y in pairs:
                same = operand.value is not None or values[operand].tobytes() == y.tobytes()
                if not same and y.shape == operand.type.shape:
                    return False
        return True

    def _run(self, values: Values) -> tuple[Array, ...]:
        assert self._compiled is not None
        result = self._compiled(*(values[o] for o in self._sources))
        return result if isinstance(result, tuple) else (result,)

    def end(self, dead: Iterable[Operand]) -> None:
        assert self._compiled is not None
        self._compiled.close()
        for operand in dead:
            for values in self._values:
                values.pop(operand, None)
