"""Graph: operations and operands in an order in which they can run, always fully typed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.ops import OPS
from gpunn.ops.call import Call
from gpunn.ops.control import Body
from gpunn.ops.elementwise.unary import check_activation
from gpunn.ops.op import Op
from gpunn.strings import as_strings
from gpunn.types import Array, DType, OpenShape, Quantization, Shape, TensorType

if TYPE_CHECKING:
    from gpunn.graph.rest import Rest

_G = TypeVar("_G")
MAX_ELEMENTS = 2**31 - 1  # of one tensor: shaders count elements in 32 bits
MAX_EXTENTS = 2**56  # what the extents of an empty tensor that are not 0 may multiply to: numpy counts bytes


@dataclass(slots=True)
class Graph:
    """A network: operations in an order in which they can run.

    Build one with input(), constant(), variable(), add(), update() and output(); every step is checked at
    once, so a Graph is typed throughout or refused with ModelError. `labels` are class names, where the file
    has them. `variables` are state with its initial values, `updates` where the next run's values come from.
    `source` builds the model anew for the shapes of all inputs, in order, where there is a better way to do
    so than to repeat the operations. `rest` is what follows once values are known that shapes depend on; then
    the outputs are only declared, except for those that the operations here compute.
    """

    name: str = "model"
    inputs: list[Operand] = field(default_factory=list)
    outputs: list[Operand] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    labels: tuple[str, ...] = ()
    variables: dict[Operand, Array] = field(default_factory=dict)
    updates: dict[Operand, Operand] = field(default_factory=dict)
    source: Callable[[Sequence[Shape]], Graph] | None = field(default=None, repr=False)
    rest: Rest | None = field(default=None, repr=False)
    _known: set[Operand] = field(default_factory=set, repr=False)

    def input(self, name: str, type: TensorType, *, open: Iterable[int] | None = ()) -> Operand:
        """A new input of the model. The extents along the axes `open` may be others in each run; if that is
        None, so may their number."""
        axes = {operator.index(axis) for axis in open or ()}
        if not axes <= {*range(type.rank)}:
            raise ModelError(f"input {name!r} of rank {type.rank} has no axes {sorted(axes)}")
        shape = OpenShape(tuple(None if k in axes else n for k, n in enumerate(type.shape))) if axes else None
        shape = OpenShape(None) if open is None else shape
        operand = Operand(name, bounded(name, type), Lifetime.INPUT, open=shape)
        self.inputs.append(operand)
        self._known.add(operand)
        self.source = None
        return operand

    def constant(self, name: str, value: Array, type: TensorType | None = None) -> Operand:
        """A constant; the array is referenced, not copied, and must not change afterwards."""
        type = type or TensorType(DType.of(value.dtype), value.shape)
        _expect_type(f"constant {name!r}", value, type)
        if type.dtype is DType.STRING:
            value = as_strings(value, f"constant {name!r}")
        return Operand(name, bounded(name, type), Lifetime.CONSTANT, value)

    def variable(self, name: str, type: TensorType, value: Array | None = None) -> Operand:
        """An operand that keeps its value between runs, from `value` on; without that, from zeros.

        Zeros are zero points where the type is quantised. All that a run reads of it is the value before the
        run; update() says what the next run finds. The array is referenced, not copied.
        """
        if type.dtype is DType.STRING:
            raise ModelError(f"variable {name!r} is {type}: strings are not kept between runs")
        operand = Operand(name, bounded(name, type), Lifetime.VARIABLE)
        self.variables[operand] = zeros(type) if value is None else value
        _expect_type(f"variable {name!r}", self.variables[operand], type)
        self._known.add(operand)
        self.source = None
        return operand

    def update(self, variable: Operand, operand: Operand) -> None:
        """Let a variable take this operand's value after each run.

        ModelError unless it is a variable of the model, without update so far, and the operand, of the same
        type, one that outputs may be.
        """
        if variable not in self.variables:
            raise ModelError(f"{variable!r} is no variable of model {self.name!r}")
        where = f"the update of {variable.name!r}"
        if variable in self.updates:
            raise ModelError(
                f"{where} by {operand.name!r}: {self.updates[variable].name!r} does that already"
            )
        self._expect_known(operand, where)
        if operand.type != variable.type:
            raise ModelError(f"{where} must be {variable.type}, got {operand!r}")
        self.updates[variable] = operand
        self.source = None

    def add(
        self,
        op: str | Op,
        inputs: Sequence[Operand | None],
        attrs: Mapping[str, Any] | None = None,
        *,
        origin: str = "",
        names: Sequence[str] = (),
        quantization: Sequence[Quantization | None] = (),
        open: Sequence[OpenShape | None] = (),
    ) -> tuple[Operand, ...]:
        """Append an operation and return its outputs, typed by the op's own rule.

        `op` is the name of one of gpunn's ops, or an Op of one's own, which must have another name.
        `names` are the outputs' names, `quantization` what the outputs shall have instead of what the rule
        gives them (which is mostly the first input's), `open` their shapes as declared. Raises
        ModelError when the op is unknown, its inputs or attributes break a rule, or an input does not come
        before it.
        """
        definition = lookup(op)
        op = definition.name
        for operand in inputs:
            self._expect_known(operand, f"{op} ({origin})")
        types_in = tuple(None if i is None else i.type for i in inputs)
        constant = tuple(i is not None and i.value is not None for i in inputs)
        call = Call(op, origin, types_in, attrs or {}, constant=constant)
        definition.check_arity(call)
        definition.check_strings(call)
        full = definition.complete(call, attrs or {})
        call = replace(call, attrs=full)
        if definition.fusible:
            check_activation(call)
        inferred = definition.infer(call)
        types = inferred if isinstance(inferred, tuple) else (inferred,)
        if quantization and len(quantization) != len(types):
            call.fail(f"has {len(types)} results, got quantisations for {len(quantization)}")
        if quantization:
            types = tuple(replace(t, quantization=q) for t, q in zip(types, quantization, strict=True))
        labels = [*names, *(f"{op}_{len(self.operations)}:{k}" for k in range(len(names), len(types)))]
        declared = [*open, *[None] * (len(types) - len(open))]
        outputs = tuple(
            Operand(n, bounded(n, t), Lifetime.TEMPORARY, open=d)
            for n, t, d in zip(labels, types, declared, strict=False)
        )
        custom = None if definition is OPS.get(op) else definition
        operation = Operation(op, tuple(inputs), outputs, full, origin, custom)
        facet = operation.facet
        if facet is not None and facet.check is not None:
            facet.check(operation.call())
        self.operations.append(operation)
        self._known.update(outputs)
        self.source = None  # it does not know of this operation
        return outputs

    def output(self, *operands: Operand) -> None:
        """Declare outputs of the model, in order: results, inputs or constants of it."""
        for operand in operands:
            self._expect_known(operand, "an output")
        self.outputs.extend(operands)
        self.source = None

    def _expect_known(self, operand: Operand | None, where: str) -> None:
        if operand is not None and operand.value is None and operand not in self._known:
            raise ModelError(
                f"{where}: {operand!r} is neither an input or variable of model {self.name!r} "
                "nor computed before"
            )

    @property
    def results(self) -> set[Operand]:
        """What a run is for: the outputs and the next values of variables."""
        return {*self.outputs, *self.updates.values()}

    def with_operations(self, operations: Iterable[Operation]) -> Graph:
        """The same model with other operations (for passes)."""
        changed = replace(
            self,
            inputs=list(self.inputs),
            outputs=list(self.outputs),
            operations=list(operations),
            variables=dict(self.variables),
            updates=dict(self.updates),
            source=None,
            _known={*self.inputs, *self.variables},
        )
        changed._known.update(*(o.outputs for o in changed.operations))
        return changed

    def walk(self) -> Iterator[Graph]:
        """This model and then the bodies of its operations, with theirs."""
        yield self
        for operation in self.operations:
            for body in bodies(operation):
                yield from body.walk()

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """The types of the inputs, in order."""
        return tuple(o.type for o in self.inputs)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the outputs, in order."""
        return tuple(o.type for o in self.outputs)

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs, in order, by the ops' references: in the inputs' precision, as of the first run."""
        values = {**self.variables, **dict(zip(self.inputs, inputs, strict=True))}
        for operation in self.operations:
            known = [None if i is None else values.get(i, i.value) for i in operation.inputs]
            values.update(zip(operation.outputs, operation.evaluate(known), strict=True))
        return tuple(np.asarray(values.get(o, o.value)) for o in self.outputs)

    def operands(self) -> list[Operand]:
        """Every operand once: inputs and variables first, then in order of use."""
        seen: dict[Operand, None] = dict.fromkeys((*self.inputs, *self.variables))
        for operation in self.operations:
            seen.update(dict.fromkeys(i for i in operation.inputs if i is not None))
            seen.update(dict.fromkeys(operation.outputs))
        seen.update(dict.fromkeys((*self.outputs, *self.updates.values())))
        return list(seen)


def lookup(op: str | Op) -> Op:
    """The op of a name; an Op itself, unless it takes the name of another one. Raises ModelError."""
    if isinstance(op, Op):
        if OPS.get(op.name, op) is not op:
            raise ModelError(f"{op.name!r} is an op of gpunn, a custom one must have another name")
        return op
    if op not in OPS:
        raise ModelError(f"there is no op {op!r}")
    return OPS[op]


def bounded(name: str, type: TensorType) -> TensorType:
    """The type; ModelError where no tensor may be as large."""
    if any(d < 0 for d in type.shape):
        raise ModelError(f"tensor {name!r} has a negative dimension: {list(type.shape)}")
    if type.size > MAX_ELEMENTS or any(d > MAX_ELEMENTS for d in type.shape):
        raise ModelError(f"tensor {name!r} has {type.size} elements, at most {MAX_ELEMENTS} can be addressed")
    if math.prod(d or 1 for d in type.shape) > MAX_EXTENTS:
        raise ModelError(f"tensor {name!r} is empty, but around that too large: {list(type.shape)}")
    return type


def _expect_type(what: str, value: Array, type: TensorType) -> None:
    if value.dtype != type.dtype.numpy or value.shape != type.shape:
        raise ModelError(f"{what} should be {type}, got {value.dtype}{list(value.shape)}")


def zeros(type: TensorType) -> Array:
    """What stands for zeros in a tensor, in the memory of one element, or one for each zero point."""
    q = type.quantization
    zeros = np.array((0,) if q is None else q.zero_point, type.dtype.numpy)
    along = [-1 if q is not None and axis == q.axis else 1 for axis in range(type.rank)]
    return np.broadcast_to(zeros.reshape(along), type.shape)


def consumers(model: Graph) -> dict[Operand, list[Operation]]:
    """For each operand the operations that read it, once for each time they do."""
    found: dict[Operand, list[Operation]] = {}
    for operation in model.operations:
        for operand in operation.inputs:
            if operand is not None:
                found.setdefault(operand, []).append(operation)
    return found


def bodies(operation: Operation) -> tuple[Graph, ...]:
    """The graphs among an operation's attributes (gpunn.ops.control), in the attributes' order."""
    return tuple(v for v in operation.attrs.values() if isinstance(v, Graph))


def with_bodies(operation: Operation, change: Callable[[Graph], Body]) -> Operation:
    """The operation with something else in place of each graph among its attributes."""
    return with_graphs(operation, Graph, change)


def with_graphs(operation: Operation, kind: type[_G], change: Callable[[_G], Body]) -> Operation:
    """The operation with something else in place of each graph of one kind among its attributes."""
    if not any(isinstance(v, kind) for v in operation.attrs.values()):
        return operation
    attrs = {k: change(v) if isinstance(v, kind) else v for k, v in operation.attrs.items()}
    return replace(operation, attrs=attrs)
