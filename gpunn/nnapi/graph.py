"""From an NNAPI model to gpunn's: whole, or as far as it is known before an execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import gpunn.graph.operation
import gpunn.model
from gpunn.errors import ModelError, NnapiError, ResultCode
from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Step, as_steps
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import RefusedError
from gpunn.importers.nnapi.codes import OperandLifeTime, OperandType, OperationCode
from gpunn.importers.nnapi.node import Argument, DeferredError, Node
from gpunn.importers.nnapi.rules import OPERATIONS, DataCheck
from gpunn.importers.nnapi.signature import QUANT8, Param
from gpunn.nnapi.values import bad
from gpunn.types import Array


@dataclass(slots=True, eq=False)
class GraphOperand:
    """An operand of an NNAPI model: its type, its lifetime, and its value if it is constant."""

    type: OperandType
    lifetime: OperandLifeTime = OperandLifeTime.TEMPORARY_VARIABLE
    value: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GraphOperation:
    """An operation of an NNAPI model on operands by index."""

    type: OperationCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """An NNAPI model as calls described it: inputs and outputs are operands by index.

    The operations are in an order in which they can run.
    """

    name: str
    operands: Sequence[GraphOperand]
    operations: Sequence[GraphOperation]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """What an execution knows of the model's inputs, in their order: types in full, and values.

    The value of an omitted optional input is None.
    """

    types: tuple[OperandType, ...]
    values: tuple[Array | None, ...]


@dataclass(frozen=True, slots=True)
class InputCheck:
    """A DataCheck of an operation, to be made on the values of an input of the model (by position)."""

    check: DataCheck
    node: Node
    position: int

    def error(self, values: Array) -> NnapiError | None:
        """What is wrong with the values, naming the operation."""
        found = self.check.test(values, self.node)
        return NnapiError(self.check.code, f"{self.node.origin}: {found}") if found else None


@dataclass(slots=True)
class Graph:
    """What became of a model: gpunn's model, of which `inputs` are the NNAPI inputs that feed it (positions).

    `attributes`: inputs (positions) whose values are part of the graph. `deferred`: operations that wait for
    an execution. `refused`: why an operation cannot be expressed. `made`: gpunn's operations for each.
    """

    model: gpunn.model.Model
    inputs: tuple[int, ...] = ()
    attributes: frozenset[int] = frozenset()
    checks: list[InputCheck] = field(default_factory=list)
    deferred: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    made: dict[int, list[gpunn.graph.operation.Operation]] = field(default_factory=dict)


def build(model: Description, binding: Binding | None = None) -> Graph:
    """Return the graph of a model whose inputs are bound, or as much of it as is known without.

    Raises BAD_DATA with everything that breaks a rule.
    """
    return _Builder(model, binding).build()


class _Builder:
    """Walks the operations in order; each goes into the graph, waits for an execution, or is refused."""

    def __init__(self, model: Description, binding: Binding | None) -> None:
        self.source = model
        self.binding = binding
        self.graph = Graph(gpunn.model.Model(model.name))
        self.builder = Builder(self.graph.model, Names())
        self.position = {k: position for position, k in enumerate(model.inputs)}
        self.types = [operand.type for operand in model.operands]
        if binding is not None:
            for k, type in zip(model.inputs, binding.types, strict=True):
                self.types[k] = type
        self.computed = {k for operation in model.operations for k in operation.outputs}
        self.tensors: dict[int, Operand] = {}
        self.used: dict[int, None] = {}
        self.attributes: set[int] = set()
        self.wrong: list[str] = []

    def build(self) -> Graph:
        """Add every operation that can be; BAD_DATA with all that break a rule."""
        graph = self.graph
        for number, operation in enumerate(self.source.operations):
            origin = f"operation {number}, {operation.type.name}"
            try:
                self._add(number, operation, origin)
            except DeferredError:
                graph.deferred.append(number)
            except RefusedError as error:
                graph.refused[number] = f"{origin}: {error}"
            except NnapiError as error:
                self.wrong.append(error.message)
            except ModelError as error:
                self.wrong.append(str(error))
        if self.wrong:
            bad("\n".join(self.wrong))
        graph.inputs = tuple(self.used)
        graph.attributes = frozenset(self.attributes)
        if not graph.deferred and not graph.refused:
            graph.model.output(*(self.tensors[k] for k in self.source.outputs))
        return graph

    def _add(self, number: int, operation: GraphOperation, origin: str) -> None:
        rule = OPERATIONS[operation.type]
        inputs = [self.types[k] for k in operation.inputs]
        outputs = [self.types[k] for k in operation.outputs]
        form = rule.signature.match(inputs)
        if isinstance(form, str):
            bad(f"{origin}: {form}")
        wrong = rule.signature.mismatch(form, inputs, outputs)
        if wrong:
            bad(f"{origin}: {wrong}")
        node = self._node(operation, form, outputs, origin)
        rule.scales(node)
        step = rule.steps(node)
        results = self._run(number, step, operation, origin)
        for k, result in zip(operation.outputs, results, strict=True):
            self._declare(k, result, origin)
        names = [param.name for param in form]
        for check in rule.checks:
            self._check(check, node, operation.inputs[names.index(check.param)])

    def _node(
        self, operation: GraphOperation, form: Sequence[Param], outputs: list[OperandType], origin: str
    ) -> Node:
        arguments: dict[str, Argument] = {}
        listed: list[Argument] = []
        for param, k in zip(form, operation.inputs, strict=True):
            if param.is_attribute and k in self.position:
                self.attributes.add(self.position[k])
            self._expect_there(param, k, origin)
            argument = Argument(
                self.types[k],
                partial(self._absent, k) if param.optional else _never,
                partial(self._tensor, k),
                partial(self._value, k, param.name),
            )
            if param.variadic:
                listed.append(argument)
            else:
                arguments[param.name] = argument
        return Node(origin, arguments, outputs, listed)

    def _expect_there(self, param: Param, k: int, origin: str) -> None:
        """BAD_DATA where a mandatory operand has no value and never will."""
        lifetime = self.source.operands[k].lifetime
        if lifetime is OperandLifeTime.TEMPORARY_VARIABLE and k not in self.computed:
            bad(f"{origin}: {param.name} (operand {k}) has no value, nor does an operation compute it")
        omitted = self.binding is not None and k in self.position and self._absent(k)
        if not param.optional and (omitted or lifetime is OperandLifeTime.NO_VALUE):
            bad(f"{origin}: {param.name} (operand {k}) is not optional, but has no value")

    def _absent(self, k: int) -> bool:
        if k not in self.position:
            return self.source.operands[k].lifetime is OperandLifeTime.NO_VALUE
        if self.binding is None:
            raise DeferredError  # an execution may omit it
        return self.binding.values[self.position[k]] is None

    def _tensor(self, k: int) -> Operand:
        if k in self.tensors:
            return self.tensors[k]
        type, value, name = self.types[k], self.source.operands[k].value, f"operand {k}"
        if value is not None:
            self.tensors[k] = self.graph.model.constant(name, value, type.tensor)
        elif k in self.position and type.specified:
            self.tensors[k] = self.graph.model.input(name, type.tensor)
            self.used[self.position[k]] = None
        else:
            raise DeferredError
        return self.tensors[k]

    def _value(self, k: int, name: str) -> Array:
        value = self.source.operands[k].value
        if value is not None:
            return value
        if k not in self.position:
            raise RefusedError(
                f"{name} (operand {k}) is computed by another operation, it must be known before"
            )
        if self.binding is None:
            raise DeferredError
        found = self.binding.values[self.position[k]]
        assert found is not None
        return found

    def _run(self, number: int, step: Step, operation: GraphOperation, origin: str) -> list[Operand]:
        """Add the op; its results, a tensor of rank 0 as one of shape [1], for NNAPI has no rank 0."""
        model = self.graph.model
        before = len(model.operations)
        declared = [self.types[k] for k in operation.outputs]
        if any(type.type is QUANT8 for type in declared):
            step = replace(step, quantization=[type.quantization for type in declared])
        names = [f"operand {k}" for k in operation.outputs]
        outputs, _ = self.builder.add(as_steps(step), origin, names)
        results = list(outputs)
        for position, result in enumerate(results):
            if result.type.rank == 0:
                (results[position],) = model.add(
                    "reshape", [result], {"shape": (1,)}, origin=origin, names=[f"{result.name} [1]"]
                )
        self.graph.made[number] = model.operations[before:]
        return results

    def _declare(self, k: int, result: Operand, origin: str) -> None:
        """The result is operand k. BAD_DATA where the declared type says otherwise."""
        declared, shape = self.types[k], result.type.shape
        if result.type.dtype.numpy != declared.type.numpy:
            bad(f"{origin}: operand {k} is {result.type.dtype.value}, but was declared {declared}")
        fits = len(shape) == len(declared.dimensions)
        if not fits or any(d not in (0, n) for d, n in zip(declared.dimensions, shape, strict=True)):
            bad(f"{origin}: operand {k} has shape {list(shape)}, but was declared {declared}")
        self.tensors[k] = result
        self.types[k] = replace(declared, dimensions=shape)

    def _check(self, check: DataCheck, node: Node, k: int) -> None:
        """Make a check now if operand k is constant, at execution if it is an input; else the op makes it."""
        value = self.source.operands[k].value
        found = check.test(value, node) if value is not None else ""
        if found and check.code is ResultCode.BAD_DATA:
            node.bad(found)
        if found:
            raise RefusedError(found)
        if k in self.position:
            self.graph.checks.append(InputCheck(check, node, self.position[k]))


def _never() -> bool:
    return False
