"""Graph: operations and operands in an order in which they can run, typed as far as types are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpunn.errors import ModelError
from gpunn.graph.classes import Classes
from gpunn.graph.exact import widen
from gpunn.graph.given import expect_input, expect_lists, expect_operand, expect_tensor
from gpunn.graph.inference import Declared, Inferred, call_of, expected, inferred, lookup
from gpunn.graph.known_values import short_results
from gpunn.graph.operation import Lifetime, Operand, Operation, custom_of
from gpunn.graph.pending import PendingOperation, waiting
from gpunn.graph.pixels import PixelScale
from gpunn.graph.scores import Scoring
from gpunn.graph.tensors import as_constant, expect_type, zeros
from gpunn.limits import UNLIMITED, Limits
from gpunn.ops.call import Call, ResultsNeededError, ValueNeededError
from gpunn.ops.elementwise.unary import check_activation
from gpunn.ops.op import Op
from gpunn.strings import as_strings
from gpunn.types import Array, DType, OpenShape, Quantization, TensorType, bounded
from gpunn.wording import counted


@dataclass(slots=True)
class Graph:
    """A network: operations in an order in which they can run.

    Each step of building one is checked, and raises ModelError if it breaks a rule; so all `operations` are
    typed. A file may state names of classes (`labels`; `classes`: of which output), the `pixel_scale` of
    photos, the `scoring` of classes. `warnings` say where it contradicts itself. `updates` give the next
    values of `variables`. `pending` operations wait for what only a run knows. `values` are known values of
    operands. `template` is the graph with all pending; its `contents` gives its file, bytes and options.
    `trained_from` is the graph of a file that differs from this one in the values of constants only. `limits`
    hold for whoever compiles and runs it.
    """

    name: str = "model"
    inputs: list[Operand] = field(default_factory=list)
    outputs: list[Operand] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    labels: tuple[str, ...] = ()
    classes: Classes | None = None
    pixel_scale: PixelScale | None = None
    scoring: Scoring | None = None
    warnings: tuple[str, ...] = ()
    variables: dict[Operand, Array] = field(default_factory=dict)
    updates: dict[Operand, Operand] = field(default_factory=dict)
    pending: list[PendingOperation[Graph]] = field(default_factory=list, repr=False)
    values: dict[Operand, Array] = field(default_factory=dict, repr=False)
    template: Graph | None = field(default=None, repr=False)
    contents: Callable[[], tuple[bytes, Mapping[str, Any]]] | None = field(default=None, repr=False)
    trained_from: Graph | None = field(default=None, repr=False)
    limits: Limits = UNLIMITED
    _known: set[Operand] = field(default_factory=set, repr=False)
    _unknown: set[Operand] = field(default_factory=set, repr=False)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(o.declared for o in side) for side in (self.inputs, self.outputs))
        count = counted(len(self.operations), "operation")
        if self.pending:
            count = f"{len(self.operations)} and {len(self.pending)} pending operations"
        return (
            f"<{type(self).__name__} {self.name!r}: {inputs or 'no input'} -> {outputs or 'no output'}, "
            f"{count}>"
        )

    def input(
        self,
        name: str,
        type: TensorType,
        *,
        open: Iterable[int] | None = (),
        default: float | None = None,
        rounds: bool = False,
    ) -> Operand:
        """Add an input to the model, and return it.

        The extents along the axes `open` may be others in each run; if that is None, so may their number.
        `default` and `rounds` are as in Operand. Raises ModelError for axes that the type does not have.
        """
        axes = expect_input(name, type, open, default)
        shape = OpenShape(tuple(None if k in axes else n for k, n in enumerate(type.shape))) if axes else None
        shape = OpenShape(None) if open is None else shape
        type = bounded(name, type)
        operand = Operand(name, type, Lifetime.INPUT, open=shape, default=default, rounds=rounds)
        self.inputs.append(operand)
        self._known.add(operand)
        self.template = None
        return operand

    def unknown_input(
        self, name: str, type: TensorType, open: Iterable[int] | None = None, rounds: bool = False
    ) -> Operand:
        """Add an input whose shape only a run tells; `type` says the dtype, and a shape without meaning."""
        operand = self.input(name, type, open=open, rounds=rounds)
        self._unknown.add(operand)
        return operand

    def constant(self, name: str, value: npt.ArrayLike, type: TensorType | None = None) -> Operand:
        """Return a constant. An array is referenced, not copied, and must not change afterwards.

        value: also what numpy makes an array of; Python's numbers become float32 and int32 if there is no
        type. Raises ModelError where the array does not have the type, or the type cannot hold the values.
        """
        if type is not None:
            expect_tensor(name, type)
        value = as_constant(f"constant {name!r}", value, type)
        type = type or TensorType(DType.of(value.dtype), value.shape)
        expect_type(f"constant {name!r}", value, type)
        if type.dtype is DType.STRING:
            value = as_strings(value, f"constant {name!r}")
        return Operand(name, bounded(name, type), Lifetime.CONSTANT, value)

    def variable(self, name: str, type: TensorType, value: Array | None = None) -> Operand:
        """Add an operand that keeps its value between runs, and begins with `value`, or else with zeros.

        Zeros are zero points where the type is quantised. All that a run reads of it is the value before the
        run; update() says what the next run finds. The array is referenced, not copied.
        """
        expect_tensor(name, type)
        if type.dtype is DType.STRING:
            raise ModelError(f"variable {name!r} is {type}: strings are not kept between runs")
        operand = Operand(name, bounded(name, type), Lifetime.VARIABLE)
        self.variables[operand] = zeros(type) if value is None else value
        expect_type(f"variable {name!r}", self.variables[operand], type)
        self._known.add(operand)
        self.template = None
        return operand

    def update(self, variable: Operand, operand: Operand) -> None:
        """Let a variable take this operand's value after each run.

        ModelError unless it is a variable of the model, without update so far, and the operand, of the same
        type, one that outputs may be.
        """
        expect_operand("an update", variable)
        if variable not in self.variables:
            raise ModelError(f"{variable!r} is no variable of model {self.name!r}")
        where = f"the update of {variable.name!r}"
        if variable in self.updates:
            raise ModelError(
                f"{where} by {operand.name!r}: {self.updates[variable].name!r} does that already"
            )
        expect_operand(where, operand)
        self._expect_known(operand, where)
        if operand.type != variable.type and not self.waits(operand):
            raise ModelError(f"{where} must be {variable.type}, got {operand!r}")
        self.updates[variable] = operand
        self.template = None

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
        hybrid: bool = False,
        known: Inferred | None = None,
    ) -> tuple[Operand, ...]:
        """Append an operation and return its outputs, typed by the op's own rule.

        `op` is the name of one of gpunn's ops, or an Op of one's own, which must have another name. `names`
        are the outputs' names, `quantization` what the outputs shall have instead of what the rule gives them
        (which is mostly the first input's), `open` their shapes as declared, `hybrid` marks them (see
        Operand). Where the types of the outputs follow from values that only a run knows, the operation is
        pending: so are the operations that read its outputs, whose shapes are open then. `names` should say
        how many outputs such an operation has. `known` is what was inferred before for the same op and
        attributes; it counts if the inputs have the types that they had then. Raises ModelError when the op
        is unknown, its inputs or attributes break a rule, or an input does not come before it.
        """
        definition = lookup(op)
        attrs = {} if attrs is None else attrs
        expect_lists(definition.name, inputs, attrs, names, quantization)
        inputs, declared = tuple(inputs), Declared(tuple(names), tuple(quantization), tuple(open), hybrid)
        for operand in inputs:
            self._expect_known(operand, f"{definition.name} ({origin})")
        if known is not None and known.call.inputs != tuple(o if o is None else o.type for o in inputs):
            known = None  # an importer stood in for a type that follows from values; the graph knows these
        call = known.call if known else call_of(definition, inputs, attrs, origin, self.value_of)
        if any(map(self.waits, inputs)):
            return self._wait(definition, call, inputs, declared, expected(definition, call, len(names)))
        definition.check_strings(call)
        if definition.fusible:
            check_activation(call)
        try:
            types = known.types if known else inferred(definition, call)
        except ValueNeededError as needed:
            types = needed.results or expected(definition, call, len(names))
            asked = [o for k, o in enumerate(inputs) if k in needed.indices and o is not None]
            return self._wait(definition, call, inputs, declared, types, asks=asked)
        except ResultsNeededError as needed:
            return self._wait(definition, call, inputs, declared, needed.results, runs=True)
        types = declared.quantized(call, types)
        outputs = declared.operands(call, types, len(self.operations) + len(self.pending))
        operation = Operation(call.op, tuple(inputs), outputs, call.attrs, origin, custom_of(definition))
        facet = operation.facet
        if facet is not None and facet.check is not None:
            facet.check(operation.call())
        self.operations.append(operation)
        self._known.update(outputs)
        self.template = None  # it does not know of this operation
        self.values.update(short_results(operation, self.value_of))
        return outputs

    def _wait(
        self,
        definition: Op,
        call: Call,
        inputs: Sequence[Operand | None],
        declared: Declared,
        types: Sequence[TensorType],
        *,
        asks: Sequence[Operand] = (),
        runs: bool = False,
    ) -> tuple[Operand, ...]:
        """Keep an operation as pending, and return its outputs, of the types that are expected."""
        number = len(self.operations) + len(self.pending)
        return self.pend(
            waiting(definition, call, inputs, declared.operands(call, types, number), declared, asks, runs)
        )

    def pend(self, entry: PendingOperation[Graph]) -> tuple[Operand, ...]:
        """Keep an operation as pending, and return its outputs."""
        self.pending.append(entry)
        self._known.update(entry.outputs)
        self._unknown.update(entry.outputs)
        self.template = None
        return entry.outputs

    def resume(self, entry: PendingOperation[Graph], inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add an operation that was pending in another graph, on operands of this one; return its results."""
        if any(map(self.waits, inputs)):
            return self.pend(replace(entry, inputs=tuple(inputs), asks=(), operation=None))
        results = entry.add(self, inputs)
        if len(results) != len(entry.outputs):
            raise ModelError(
                f"{entry.op} ({entry.origin}): names should say how many results there are while their types "
                f"are unknown: {len(results)}, not {len(entry.outputs)}"
            )
        return results

    def waits(self, operand: Operand | None) -> bool:
        """Tell whether the type of an operand is unknown until a run."""
        return operand in self._unknown

    def value_of(self, operand: Operand) -> Array | None:
        """Return the value of a constant, or one of `values`; None for other operands."""
        return self.values.get(operand) if operand.value is None else operand.value

    def output(self, *operands: Operand) -> None:
        """Declare outputs of the model, in order: results, inputs or constants of it."""
        for operand in operands:
            expect_operand("an output", operand)
            self._expect_known(operand, "an output")
        self.outputs.extend(operands)
        self.template = None

    def _expect_known(self, operand: Operand | None, where: str) -> None:
        if operand is not None:
            expect_operand(where, operand)
        if operand is not None and operand.value is None and operand not in self._known:
            raise ModelError(
                f"{where}: {operand!r} is neither an input or variable of model {self.name!r} "
                "nor computed before"
            )

    @property
    def results(self) -> set[Operand]:
        """Return what a run is for: the outputs and the next values of variables."""
        return {*self.outputs, *self.updates.values()}

    def with_operations(self, operations: Iterable[Operation]) -> Graph:
        """Return the same model with other operations (for passes)."""
        changed = replace(
            self,
            inputs=list(self.inputs),
            outputs=list(self.outputs),
            operations=list(operations),
            variables=dict(self.variables),
            updates=dict(self.updates),
            template=None,
            pending=list(self.pending),
            values=dict(self.values),
            _known={*self.inputs, *self.variables},
        )
        changed._known.update(*(entry.outputs for entry in self.pending))
        changed._known.update(*(o.outputs for o in changed.operations))
        return changed

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """Return the types of the inputs, in order."""
        return tuple(o.type for o in self.inputs)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Return the types of the outputs, in order."""
        return tuple(o.type for o in self.outputs)

    @property
    def fixed(self) -> bool:
        """Tell whether the types of all outputs are known; for a body (gpunn.ops.control)."""
        return not self.pending

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...] | None:
        """Return the types of the outputs for inputs of these types; None where only a run tells."""
        return self.output_types if self.fixed and tuple(inputs) == self.input_types else None

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Compute the outputs, in order, by the ops' references: in the inputs' precision, as in a first run.

        Raises ModelError if operations are pending; gpunn.graph.parts completes them.
        """
        if self.pending:
            raise ModelError(f"model {self.name!r}: {self.pending[0].where}")
        given = dict(zip(self.inputs, inputs, strict=True))
        wide = any(x.dtype in (np.float64, np.complex128) for x in given.values())
        in_precision: Callable[[Array], Array] = widen if wide else np.asarray
        values = {**{v: in_precision(x) for v, x in self.variables.items()}, **given}

        def value(operand: Operand) -> Array:
            return values[operand] if operand.value is None else in_precision(operand.value)

        for operation in self.operations:
            known = [None if i is None else value(i) for i in operation.inputs]
            values.update(zip(operation.outputs, operation.evaluate(known), strict=True))
        return tuple(np.asarray(value(o)) for o in self.outputs)

    def operands(self) -> list[Operand]:
        """Return every operand once: inputs and variables first, then in order of use."""
        seen: dict[Operand, None] = dict.fromkeys((*self.inputs, *self.variables))
        for operation in self.operations:
            seen.update(dict.fromkeys(i for i in operation.inputs if i is not None))
            seen.update(dict.fromkeys(operation.outputs))
        seen.update(dict.fromkeys((*self.outputs, *self.updates.values())))
        return list(seen)
