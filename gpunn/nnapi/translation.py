"""Translation: the graph of an NNAPI model, whole or as far as it is known before an execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gpunn.errors import ModelError, NnapiError, ResultCode
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.graph.pending import PendingOperation
from gpunn.importers.common.answers import Step, as_steps
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.nnapi.checks import DataCheck
from gpunn.importers.nnapi.codes import OperandLifeTime, OperandType
from gpunn.importers.nnapi.node import Node
from gpunn.importers.nnapi.signature import Param, Signature
from gpunn.importers.nnapi.table import OPERATIONS
from gpunn.nnapi.description import Binding, Description, GraphOperation
from gpunn.nnapi.values import bad
from gpunn.types import Array, OpenShape, TensorType

Inputs = Sequence[Operand | None]  # of an operation, in its order; None for constants and what is left out


@dataclass(frozen=True, slots=True)
class InputCheck:
    """A DataCheck of an operation, to be made on the values of an input of the model (by position)."""

    check: DataCheck
    node: Node
    position: int

    def error(self, values: Array) -> NnapiError | None:
        """Say what is wrong with the values, with the name of the operation."""
        found = self.check.test(values, self.node)
        return NnapiError(self.check.code, f"{self.node.origin}: {found}") if found else None


@dataclass(slots=True)
class Translation:
    """The graph of a model; `inputs` are the NNAPI inputs (positions) that feed it, in order.

    `attributes`: inputs (positions) whose values are part of the graph. `deferred`: operations that wait for
    an execution, which are pending in the graph. `refused`: why an operation cannot be expressed. `made`: the
    graph's operations for each.
    """

    graph: Graph
    inputs: tuple[int, ...] = ()
    attributes: frozenset[int] = frozenset()
    checks: list[InputCheck] = field(default_factory=list)
    deferred: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    made: dict[int, list[Operation]] = field(default_factory=dict)


def translate(model: Description, binding: Binding | None = None) -> Translation:
    """Return the graph of a model whose inputs are bound; without, what waits for that is pending in it.

    Raises BAD_DATA with everything that breaks a rule.
    """
    return _Translator(model, binding).translate()


class _Translator:
    """Adds the operations of a model to a graph, each once the types of its inputs are known.

    At first all are pending in a graph of which no input is known; gpunn.graph.complete adds those that can
    be.
    """

    def __init__(self, model: Description, binding: Binding | None) -> None:
        self.source = model
        self.binding = binding
        self.position = {k: position for position, k in enumerate(model.inputs)}
        self.types = [operand.type for operand in model.operands]
        if binding is not None:
            for k, type in zip(model.inputs, binding.types, strict=True):
                self.types[k] = type
        self.computed = {k for operation in model.operations for k in operation.outputs}
        self.read = [(param, k) for operation in model.operations for param, k in self._params(operation)]
        self.entries: dict[str, tuple[int, PendingOperation[Graph]]] = {}
        self.names = Names()
        self.wrong: dict[int, str] = {}
        attributes = (self.position[k] for param, k in self.read if param.is_attribute and k in self.position)
        self.found = Translation(Graph(model.name), attributes=frozenset(attributes))

    def translate(self) -> Translation:
        """Add every operation that can be; BAD_DATA with all that break a rule."""
        template, inputs = self._template()
        types = [self.types[k].tensor if self._certain(k) else None for k in inputs]
        attributes = (k for k in inputs if self.position[k] in self.found.attributes)
        values = {inputs[k]: value for k in attributes if (value := self._bound(k)) is not None}
        graph = complete(template, types, values)
        graph.values.clear()  # they have become attributes
        for entry in graph.pending:
            self._check_ahead(graph, entry)
        if self.wrong:
            bad("\n".join(self.wrong[number] for number in sorted(self.wrong)))
        everything = (*(o.inputs for o in graph.operations), *(entry.inputs for entry in graph.pending))
        read = {operand for operands in everything for operand in operands}
        feeding = {k: operand for k, operand in zip(inputs, graph.inputs, strict=True) if operand in read}
        graph.inputs = [*feeding.values()]
        self.found.graph, self.found.inputs = graph, tuple(self.position[k] for k in feeding)
        return self.found

    def _template(self) -> tuple[Graph, dict[int, Operand]]:
        """Return the graph with everything pending, and its inputs by operand of the model."""
        graph = Graph(self.source.name)
        inputs = {
            k: graph.unknown_input(f"operand {k}", _any_shape(self.types[k]))
            for k in self.source.inputs
            if not self._omitted(k)
        }
        operands = dict(inputs)
        for number, operation in enumerate(self.source.operations):
            origin = f"operation {number}, {operation.type.name}"
            outputs = tuple(self._result(k) for k in operation.outputs)
            entry: PendingOperation[Graph] = PendingOperation(
                operation.type.name,
                origin,
                tuple(operands.get(k) for k in operation.inputs),
                outputs,
                partial(self._add, origin),
            )
            self.entries[origin] = number, entry
            operands.update(zip(operation.outputs, graph.pend(entry), strict=True))
        graph.output(*(operands[k] for k in self.source.outputs))
        return graph, inputs

    def _result(self, k: int) -> Operand:
        """Return a placeholder for a result that is not known yet."""
        type = _any_shape(self.types[k])
        return Operand(f"operand {k}", type, Lifetime.TEMPORARY, open=OpenShape(None))

    def _params(self, operation: GraphOperation) -> list[tuple[Param, int]]:
        """Return the parameters of an operation with their operands; none if these do not fit."""
        form = self._signature(operation).match([self.types[k] for k in operation.inputs])
        return [] if isinstance(form, str) else list(zip(form, operation.inputs, strict=True))

    def _signature(self, operation: GraphOperation) -> Signature:
        """Return the signature of an operation at the model's feature level."""
        return OPERATIONS[operation.type].signature(self.source.level)

    def _bound(self, k: int) -> Array | None:
        """Return the value of an input of the model, if it is known."""
        return None if self.binding is None else self.binding.values[self.position[k]]

    def _omitted(self, k: int) -> bool:
        """Tell whether an input of the model is left out."""
        return self.binding is not None and self._bound(k) is None

    def _certain(self, k: int) -> bool:
        """Tell whether the type of an input of the model is known, and that it is there."""
        if self.binding is not None:
            return True
        return self.types[k].specified and not any(p.optional for p, operand in self.read if operand == k)

    def _add(self, origin: str, graph: Graph, inputs: Inputs) -> tuple[Operand, ...]:
        """Add an operation whose inputs are known; its outputs. It stays pending where it cannot be."""
        number, entry = self.entries[origin]
        asks: tuple[Operand, ...] = ()
        try:
            return self._added(number, origin, graph, inputs)
        except ComputedError as error:
            asks = (error.operand,)
        except (RefusedError, NnapiError, ModelError) as error:
            self._note(number, origin, error)
        return graph.pend(replace(entry, inputs=tuple(inputs), asks=asks))

    def _check_ahead(self, graph: Graph, entry: PendingOperation[Graph]) -> None:
        """Check what is known of an operation that waits."""
        number, _ = self.entries[entry.origin]
        if number in self.found.refused or number in self.wrong:
            return
        try:
            node = self._node(number, entry.origin, graph, entry.inputs)
            OPERATIONS[self.source.operations[number].type].answer(node)
        except ComputedError:
            pass
        except (RefusedError, NnapiError, ModelError) as error:
            self._note(number, entry.origin, error)
            return
        self.found.deferred.append(number)

    def _note(self, number: int, origin: str, error: Exception) -> None:
        """Note why an operation is refused, or what is wrong with it."""
        if isinstance(error, RefusedError):
            self.found.refused[number] = f"{origin}: {error}"
        else:
            self.wrong[number] = error.message if isinstance(error, NnapiError) else str(error)

    def _added(self, number: int, origin: str, graph: Graph, inputs: Inputs) -> tuple[Operand, ...]:
        operation = self.source.operations[number]
        node = self._node(number, origin, graph, inputs)
        step = OPERATIONS[operation.type].answer(node)
        before = len(graph.operations)
        results = self._run(graph, step, operation, origin)
        for k, result in zip(operation.outputs, results, strict=True):
            self._declare(k, result, origin)
        self.found.made[number] = graph.operations[before:]
        for check in OPERATIONS[operation.type].checks:
            self._check(check, node, operation.inputs[node.parameters[check.param]], number)
        return tuple(results)

    def _node(self, number: int, origin: str, graph: Graph, inputs: Inputs) -> Node:
        """Return an operation in the form for its rule; BAD_DATA if it does not fit its signature."""
        operation = self.source.operations[number]
        rule, signature = OPERATIONS[operation.type], self._signature(operation)
        outputs = [self.types[k] for k in operation.outputs]
        form = signature.match([self.types[k] for k in operation.inputs])
        if isinstance(form, str):
            bad(f"{origin}: {form}")
        wrong = signature.mismatch(form, [self.types[k] for k in operation.inputs], outputs)
        if wrong:
            bad(f"{origin}: {wrong}")
        for param, k in zip(form, operation.inputs, strict=True):
            self._expect_there(param, k, origin)
        operands = [self._operand(k, o, graph) for k, o in zip(operation.inputs, inputs, strict=True)]
        node = Node(
            origin,
            tuple(operands),
            value_of=graph.value_of,
            parameters={param.name: at for at, param in enumerate(form) if not param.variadic},
            types=[self.types[k] for k in operation.inputs],
            results=outputs,
            variadic=sum(param.variadic for param in form),
            computed={o for k, o in zip(operation.inputs, inputs, strict=True) if o and k in self.computed},
            waiting={o for o in inputs if o is not None and graph.waits(o)},
            level=self.source.level,
        )
        rule.scales(node)
        return node

    def _operand(self, k: int, operand: Operand | None, graph: Graph) -> Operand | None:
        """Return operand k as an operation has it, which is `operand` of the graph unless it is constant."""
        value = self.source.operands[k].value
        if value is None:
            return operand
        return graph.constant(f"operand {k}", value, self.types[k].tensor)

    def _expect_there(self, param: Param, k: int, origin: str) -> None:
        """Raise BAD_DATA if a mandatory operand has no value and never will."""
        lifetime = self.source.operands[k].lifetime
        if lifetime is OperandLifeTime.TEMPORARY_VARIABLE and k not in self.computed:
            bad(f"{origin}: {param.name} (operand {k}) has no value, nor does an operation compute it")
        omitted = k in self.position and self._omitted(k)
        if not param.optional and (omitted or lifetime is OperandLifeTime.NO_VALUE):
            bad(f"{origin}: {param.name} (operand {k}) is not optional, but has no value")

    def _run(
        self, graph: Graph, answer: Step | Sequence[Step], operation: GraphOperation, origin: str
    ) -> list[Operand]:
        """Add the ops; their results, a tensor of rank 0 as one of shape [1], for NNAPI has no rank 0."""
        declared = [self.types[k] for k in operation.outputs]
        *steps, last = as_steps(answer).steps
        if any(type.type.form.quantised for type in declared):
            last = replace(last, quantization=[type.quantization for type in declared])
        names = [f"operand {k}" for k in operation.outputs]
        outputs, _ = Builder(graph, self.names).add(as_steps([*steps, last]), origin, names)
        results = list(outputs)
        for position, result in enumerate(results):
            if result.type.rank == 0:
                (results[position],) = graph.add(
                    "reshape", [result], {"shape": (1,)}, origin=origin, names=[f"{result.name} [1]"]
                )
        return results

    def _declare(self, k: int, result: Operand, origin: str) -> None:
        """Declare a result as operand k; BAD_DATA if the declared type says otherwise."""
        declared, shape = self.types[k], result.type.shape
        if result.type.dtype.numpy != declared.type.numpy:
            bad(f"{origin}: operand {k} is {result.type.dtype.value}, but was declared {declared}")
        fits = not declared.ranked or len(shape) == len(declared.dimensions)
        pairs = zip(declared.dimensions, shape, strict=True) if fits and declared.ranked else ()
        if not fits or any(d not in (0, n) for d, n in pairs):
            bad(f"{origin}: operand {k} has shape {list(shape)}, but was declared {declared}")
        self.types[k] = replace(declared, dimensions=shape)

    def _check(self, check: DataCheck, node: Node, k: int, number: int) -> None:
        """Make a check now if operand k is constant, at execution if it is an input; else the op makes it."""
        value = self.source.operands[k].value
        found = check.test(value, node) if value is not None else ""
        if found and check.code is ResultCode.BAD_DATA:
            node.corrupt(found)
        if found:
            self._note(number, node.origin, RefusedError(found))
        if k in self.position:
            self.found.checks.append(InputCheck(check, node, self.position[k]))


def _any_shape(type: OperandType) -> TensorType:
    """Return the type of a tensor, with 1 for dimensions that are not specified."""
    if type.specified:
        return type.tensor
    return replace(type, dimensions=tuple(d or 1 for d in type.dimensions)).tensor
