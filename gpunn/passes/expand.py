"""Expansion of ops that are written in other ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpunn.graph.exchange import replace_inputs, replace_outputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Unsupported
from gpunn.ops.expansion import Expand, Tensor
from gpunn.types import Array, DType, Quantization, TensorType


def expand(model: Graph) -> Graph:
    """Put the ops that an op is written in, if it is, in its place; they write the same operands.

    What is added may be written in other ops itself. An operation stays that refuses with Unsupported, or
    whose results shall have another quantisation than what is added gives them.
    """
    return _replaced(model, lambda operation: operation.definition.expand)


def rewrite(model: Graph) -> Graph:
    """Put the ops that compute an operation sooner than its own op, if there are any, in its place."""
    return _replaced(model, lambda operation: operation.definition.rewrite or operation.definition.expand)


def _replaced(model: Graph, how: Callable[[Operation], Expand | None]) -> Graph:
    operations = [e for o in model.operations for e in _expanded(o, how)]
    return model if operations == model.operations else model.with_operations(operations)


def _expanded(operation: Operation, how: Callable[[Operation], Expand | None]) -> Sequence[Operation]:
    """Return an operation, or the operations in which it is written, which are not themselves."""
    found = written(operation, how(operation))
    return found if found == [operation] else [e for o in found for e in _expanded(o, how)]


def written(operation: Operation, write: Expand | None) -> list[Operation]:
    """Return the operations that an op adds in the place of an operation; itself if there are none."""
    if write is None:
        return [operation]
    inputs = [o for o in operation.inputs if o is not None]
    place = GraphExpansion.of(inputs, operation.outputs[0].name, operation.origin)
    try:
        results = _results(operation, write, place)
    except Unsupported:
        return [operation]
    pairs = list(zip(results, operation.outputs, strict=True))
    if any(made.type.quantization != wanted.type.quantization for made, wanted in pairs):
        return [operation]
    return place.writing(dict(pairs))


def _results(operation: Operation, write: Expand, place: GraphExpansion) -> tuple[Operand, ...]:
    """Return the results of an expansion: of the operation's shapes, each computed there, and none twice."""
    found = write(operation.call(), place, *operation.inputs)
    results: tuple[Operand, ...] = found if isinstance(found, tuple) else (found,)
    computed = {o for made in place.graph.operations for o in made.outputs}
    assert len({*results} & computed) == len(results) == len(operation.outputs), operation.op
    types = [(made.type, wanted.type) for made, wanted in zip(results, operation.outputs, strict=True)]
    alike = all((made.dtype, made.shape) == (wanted.dtype, wanted.shape) for made, wanted in types)
    assert alike, f"{operation.op}: {types}"
    return results


class GraphExpansion(NamedTuple):
    """A graph to which ops are added in the place of an operation (gpunn.ops.expansion.Expansion).

    What is added has names that begin with `title`, and the operation's origin.
    """

    graph: Graph
    title: str
    origin: str

    @classmethod
    def of(cls, inputs: Iterable[Operand], title: str, origin: str) -> GraphExpansion:
        """Return an empty graph with these inputs, to which ops are added."""
        return cls(Graph(inputs=[*dict.fromkeys(inputs)]).with_operations(()), title, origin)

    def writing(self, exchange: Mapping[Operand, Operand]) -> list[Operation]:
        """Return the operations of the graph, which write others in the place of some operands."""
        return [replace_outputs(replace_inputs(o, exchange), exchange) for o in self.graph.operations]

    def constant(self, value: Array, quantization: Quantization | None = None) -> Operand:
        type = TensorType(DType.of(value.dtype), value.shape, quantization)
        return self.graph.constant(f"{self.title}: constant", value, type)

    def results(self, op: str, *inputs: Tensor | None, **attrs: Any) -> tuple[Operand, ...]:
        return self._add(op, inputs, attrs, ())

    def add(
        self, op: str, *inputs: Tensor | None, quantization: Quantization | None = None, **attrs: Any
    ) -> Operand:
        return self._add(op, inputs, attrs, () if quantization is None else (quantization,))[0]

    def _add(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        attrs: Mapping[str, Any],
        quantization: Sequence[Quantization],
    ) -> tuple[Operand, ...]:
        operands = [i for i in inputs if i is None or isinstance(i, Operand)]
        assert len(operands) == len(inputs)
        name = f"{self.title}: {op} {len(self.graph.operations)}"
        return self.graph.add(
            op, operands, attrs, origin=self.origin, names=[name], quantization=quantization
        )
