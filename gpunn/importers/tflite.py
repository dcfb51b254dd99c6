"""The TFLite reader: a .tflite file becomes a Model; weights are views of the file's bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpunn.custom import CustomOperator
from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.importers.tflite_control import CONTROL
from gpunn.importers.tflite_custom import CUSTOM_OPERATORS, PREFIX, custom_rule
from gpunn.importers.tflite_file import FileGraph, FileOperator, FileTensor, TfliteFile
from gpunn.importers.tflite_labels import labels
from gpunn.importers.tflite_node import (
    Computed,
    ComputedError,
    Known,
    Network,
    Node,
    RefusedError,
    Result,
    Step,
    is_short,
    symmetric,
)
from gpunn.importers.tflite_rest import Halt, halt_for_results, halt_for_values, rest_of
from gpunn.importers.tflite_rules import OPERATORS, REFUSED, Rule
from gpunn.importers.tflite_types import BIASED, expect_reals, expect_shape, expect_type
from gpunn.importers.tflite_work import Work
from gpunn.model import Model, lookup
from gpunn.operation import Lifetime, Operand
from gpunn.ops.check import QUANTIZED
from gpunn.strings import held_bytes
from gpunn.types import DType, OpenShape, Quantization, Shape

IDENTIFIER = b"TFL3"  # TensorFlow Lite schema, file_identifier
MIN_BYTES = 12  # root offset, identifier, and at least the root table's own offset

HYBRID = (*BIASED, "batch_matmul")  # products that take reals with a quantised constant, input FILTER
FILTER = 1
MAX_KNOWN_BYTES = 64 << 20  # of constants that rules unfold: a small file can ask for many of them


def recognise(data: bytes) -> bool:
    """Whether the bytes say that they are a .tflite file."""
    return len(data) >= MIN_BYTES and data[4:8] == IDENTIFIER


def read(data: bytes, name: str, custom: Mapping[str, CustomOperator] | None = None) -> Model:
    """The Model of a .tflite file's bytes; `name` is the file's, for messages.

    `custom` says what custom operators stand for, by the names that the file has for them.
    Raises FormatError, ModelError, and UnsupportedError with everything that is unsupported at once.
    """
    file, operators = TfliteFile(data, name), {**CUSTOM_OPERATORS, **(custom or {})}
    graph = file.graph(0)
    stored = [graph.tensors[index] for index in graph.inputs]

    def build(shapes: Sequence[Shape]) -> Model:
        # The file's shapes hold as long as only extents that it leaves open are others.
        as_stored = all(tensor.open.admits(shape) for tensor, shape in zip(stored, shapes, strict=True))
        model = Model(name)
        _Reader(Work(file, operators, as_stored), graph, model).read_model(shapes)
        return model

    model = build([tensor.stored for tensor in stored])
    model.labels = labels(data, [o.type for o in model.outputs])

    def source(shapes: Sequence[Shape]) -> Model:
        """The file read again for inputs of other shapes, so that every rule sees the real ones."""
        try:
            changed = build(shapes)
        except FormatError as error:  # not the file's fault, which has been read before
            raise ModelError(str(error)) from None
        changed.labels, changed.source = model.labels, source
        return changed

    model.source = source
    return model


class _Reader:
    """Builds the Model of a subgraph, operator by operator, or a part of one where subgraphs are inlined.

    `outer` is the reader that writes to the same model, `path` the subgraphs that lead here.
    """

    def __init__(
        self,
        work: Work,
        graph: FileGraph,
        model: Model,
        path: tuple[int, ...] = (),
        outer: _Reader | None = None,
    ) -> None:
        self.work = work
        self.file = work.file
        self.graph = graph
        self.model = model
        self.path = (*path, graph.index)
        self.names: dict[str, int] = {} if outer is None else outer.names
        self.widened: dict[Operand, Operand] = {} if outer is None else outer.widened
        self.operands: dict[int, Operand] = {}
        self.titles: dict[int, str] = {}
        self.halt: Halt | None = None
        self.stateful: bool = not path if outer is None else outer.stateful

    def read_model(self, shapes: Sequence[Shape]) -> None:
        """Read the file's first subgraph, for inputs of these shapes."""
        for index, shape in zip(self.graph.inputs, shapes, strict=True):
            self._input(index, shape)
        self._operators()
        self._finish()

    def _finish(self) -> None:
        """Give the model its outputs: as they are, or with what is left to be read."""
        if self.work.unsupported:
            self.work.fail_unsupported()
        if not self.graph.outputs:
            self.file.fail("has no outputs")
        if self.halt is not None:
            self.model.outputs.extend(self._expected_outputs(self.halt.position))
            self.model.rest = rest_of(self.halt, self.graph, self.model, self.operands, self._go_on)
            return
        self.model.output(*self._outputs())
        for key, variable in self.work.variables.items():
            if self.work.states[key] is not variable:
                self.model.update(variable, self.work.states[key])

    def _go_on(self, model: Model, operands: dict[int, Operand], position: int) -> None:
        """Read on into another model; the file's shapes do not hold behind a shape that it cannot know."""
        work = Work(self.file, self.work.custom, as_stored=False, constants=self.work.constants)
        reader = _Reader(work, self.graph, model)
        reader.operands = operands
        reader._operators(position)
        reader._finish()

    def _expected_outputs(self, position: int) -> Iterator[Operand]:
        """The outputs, of which those that operators from `position` on write are known by type only."""
        later = {index for operator in self.graph.operators[position:] for index in operator.outputs}
        for index in self.graph.outputs:
            tensor = self.graph.tensors[index]
            if index not in later:
                yield self._operand(index, f"an output of {self.graph}")
            elif tensor.type is None:
                raise UnsupportedError(f"{self.file.name}: output {tensor.name} is {tensor.type_name}")
            else:
                shape = tensor.open if tensor.open.is_open else OpenShape(None)
                yield Operand(self.name(tensor.name), tensor.type, Lifetime.TEMPORARY, open=shape)

    def nested(
        self, index: int, inputs: Sequence[Operand], names: Sequence[str] = (), into: Model | None = None
    ) -> tuple[Operand, ...]:
        """The results of a subgraph on given operands: inlined here, or read `into` another model.

        `names` are what the results shall be called.
        """
        graph = self.subgraph(index)
        target = self.model if into is None else into
        reader = _Reader(self.work, graph, target, self.path, self if into is None else None)
        if len(inputs) != len(graph.inputs):
            self.file.fail(f"{graph} has {len(graph.inputs)} inputs, {self.graph} gives it {len(inputs)}")
        for at, (number, operand) in enumerate(zip(graph.inputs, inputs, strict=True)):
            tensor = graph.tensors[number]
            self._expect_type(f"{self.file.name}: {graph}", f"input {at} ({tensor.name})", tensor, operand)
            reader.operands[number] = operand
        reader.titles.update(zip(graph.outputs, names, strict=False))
        reader._operators()
        return reader._outputs()

    def _operators(self, start: int = 0) -> None:
        """Add what stands for each operator, and collect what is unsupported; up to one that must wait."""
        again = self.work.begin(self.graph)
        for position, operator in enumerate(self.graph.operators[start:], start):
            if again:
                self.work.count(1 + len(operator.inputs) + len(operator.outputs))
            try:
                self.halt = self._add(operator, position)
                if self.halt is not None:
                    self._look_ahead(position + 1)
                    return
            except RefusedError as refusal:
                self.work.unsupported.add(str(refusal), operator)
                self._stand_in(operator)
            except (FormatError, ModelError):
                if not self.work.unsupported:
                    raise
                self._stand_in(operator)  # what it works on may have come from a stand-in

    def _look_ahead(self, position: int) -> None:
        """Collect what has no rule among the operators that are read later."""
        for operator in self.graph.operators[position:]:
            try:
                if operator.code not in CONTROL:
                    self._rule(operator.code)
            except RefusedError as refusal:
                self.work.unsupported.add(str(refusal), operator)

    def _outputs(self) -> tuple[Operand, ...]:
        return tuple(self._operand(i, f"an output of {self.graph}") for i in self.graph.outputs)

    def subgraph(self, index: int) -> FileGraph:
        """A subgraph that an operator here calls."""
        return self.work.enter(index, self.path)

    def name(self, wanted: str) -> str:
        """A name for an operand, made unique."""
        number = self.names.get(wanted, 0)
        self.names[wanted] = number + 1
        return wanted if number == 0 else self._name_free(f"{wanted}:{number}")

    def _name_free(self, name: str) -> str:
        while name in self.names:
            name += "'"
        self.names[name] = 1
        return name

    def _label(self, index: int) -> str:
        """What a tensor is called: where its subgraph is inlined, maybe as the caller has it."""
        return self.titles.get(index, self.graph.tensors[index].name)

    def _input(self, index: int, shape: Shape) -> None:
        tensor = self.graph.tensors[index]
        if index in self.operands:
            self.file.fail(f"{tensor} is an input of the model twice")
        if tensor.type is None:
            self.work.unsupported.add(f"input {tensor.name} is {tensor.type_name}")
        else:
            type, axes = tensor.type.with_shape(shape), tensor.open.axes(shape)
            self.operands[index] = self.model.input(self.name(tensor.name), type, open=axes)

    def _operand(self, index: int, reader: str) -> Operand:
        """The operand of a tensor that something reads."""
        if index not in self.operands:
            if self.graph.tensors[index].is_variable:
                return self._variable(index)
            self.operands[index] = self._constant(index, reader)
        return self.operands[index]

    def _constant(self, index: int, reader: str) -> Operand:
        """The operand of a tensor that nothing writes; one for all calls of a subgraph."""
        key, tensor = (self.graph.index, index), self.graph.tensors[index]
        if key not in self.work.constants:
            value = self.file.value(tensor)
            if value is None:
                self.file.fail(f"{tensor}, {reader}, comes from nowhere")
            self.work.constants[key] = self.model.constant(self.name(tensor.name), value, tensor.type)
        return self.work.constants[key]

    def _variable(self, index: int) -> Operand:
        """What a variable tensor holds by now; its subgraph's calls take turns."""
        key, tensor = (self.graph.index, index), self.graph.tensors[index]
        if key not in self.work.states:
            if tensor.type is None:  # an output: operators do not read such a tensor
                raise UnsupportedError(f"{self.file.name}: {tensor} is {tensor.type_name}")
            if not self.stateful:
                raise RefusedError(f"{tensor} is a variable of a subgraph that need not run exactly once")
            value = self.file.value(tensor)
            variable = self.model.variable(self.name(tensor.name), tensor.type, value)
            self.work.variables[key] = self.work.states[key] = variable
        return self.work.states[key]

    def _set(self, index: int, operand: Operand) -> None:
        """Let a tensor be an operand: a file may write it again, readers see the latest."""
        self.operands[index] = operand
        if (self.graph.index, index) in self.work.states:
            self.work.states[self.graph.index, index] = operand

    def _read(self, index: int, position: int, operator: FileOperator) -> Operand:
        """The operand at an operator's input, refused when its kind is not supported."""
        tensor = self.graph.tensors[index]
        for bad, what in (
            (tensor.dtype is None, f"is {tensor.type_name}"),
            (tensor.is_sparse, "is sparse"),
        ):
            if bad:
                raise RefusedError(f"input {position} ({tensor.name}) {what}, which is not supported")
        return self._operand(index, f"input {position} of {operator}")

    def _add(self, operator: FileOperator, position: int) -> Halt | None:
        """Add what stands for one operator, unless reading must stop here."""
        node = self._node(operator)
        names = [self._label(i) for i in operator.outputs]
        if operator.code in CONTROL:
            self._store(node.origin, operator, CONTROL[operator.code](node, names, self))
            return None
        try:
            answer = self._rule(operator.code)(node)
        except ComputedError as error:
            self._expect_to_halt(error)
            return halt_for_values(position, operator.code, node, error)
        if isinstance(answer, Computed):
            self._expect_to_halt(RefusedError("the shapes of its results follow from values"))
            return halt_for_results(position, operator.code, node, answer)
        if isinstance(answer, Known):
            self._expect_bounded(answer, operator)
            name = self.name(names[0]) if names else ""
            self._store(node.origin, operator, (self.model.constant(name, answer.value),))
            return None
        if isinstance(answer, Network):
            self._run_network(node.origin, answer, operator, names)
            return None
        steps = [answer] if isinstance(answer, Step) else list(answer)
        steps = [self._widened(step, node.origin) for step in steps]
        for step in steps:
            expect_reals(step)
        self._run(node.origin, steps, operator, names)
        return None

    def _expect_to_halt(self, refusal: RefusedError) -> None:
        """Raise where reading cannot stop: inside of subgraphs, where there is state, when all is in vain."""
        if self.work.unsupported:
            raise ModelError(str(refusal))
        if len(self.path) > 1:
            raise RefusedError(f"{refusal} (in a subgraph)")
        if any(tensor.is_variable for tensor in self.graph.tensors):
            raise RefusedError(f"{refusal} (beside variables)")

    def _node(self, operator: FileOperator) -> Node:
        """An operator as its rule sees it."""
        return Node(
            f"{self.file.name}: {operator}",
            tuple(None if i is None else self._read(i, at, operator) for at, i in enumerate(operator.inputs)),
            operator.options_type,
            operator.options_table,
            tuple(self.graph.tensors[i].type for i in operator.outputs),
            operator.custom_options,
            tuple(self.graph.tensors[i].type for i in operator.intermediates),
        )

    def _expect_bounded(self, answer: Known, operator: FileOperator) -> None:
        """Refuse the whole file when its constants unfold to too much: the next one would cost as much."""
        self.work.known += held_bytes(answer.value)
        if self.work.known > MAX_KNOWN_BYTES:
            kept = f"at most {MAX_KNOWN_BYTES} are kept"
            self.work.unsupported.add(f"{operator}: constants unfold to {self.work.known} bytes, {kept}")
            self.work.fail_unsupported()

    def _rule(self, code: str) -> Rule:
        """The rule of an operator, refused when there is none."""
        if code in OPERATORS:
            return OPERATORS[code]
        if not code.startswith(PREFIX):
            raise RefusedError(REFUSED.get(code, "this operator is not supported"))
        name = code.removeprefix(PREFIX)
        if name not in self.work.custom:
            raise RefusedError("this operator has no meaning, gpunn.load(custom=...) can give it one")
        return custom_rule(self.work.custom[name])

    def _widened(self, step: Step, origin: str) -> Step:
        """The step with its quantised constant filter dequantised where the input it meets is of reals.

        TFLite's hybrid kernels quantise the input on the fly instead: less exact (docs/quantized.md).
        """
        x, filter = (*step.inputs, None, None)[: FILTER + 1]
        if step.op not in HYBRID or x is None or filter is None or filter.value is None:
            return step
        quantised = filter.type.dtype in QUANTIZED and filter.type.quantization is not None
        if x.type.dtype is not DType.FLOAT32 or not quantised:
            return step
        if filter not in self.widened:  # once, however many operators share it
            name = self._name_free(f"{filter.name}:float32")
            source = symmetric(filter)
            (self.widened[filter],) = self.model.add("dequantize", (source,), origin=origin, names=[name])
        return replace(step, inputs=(x, self.widened[filter], *step.inputs[FILTER + 1 :]))

    def _run(self, origin: str, steps: Sequence[Step], operator: FileOperator, titles: Sequence[str]) -> None:
        """Add an operator's ops one after the other; the last one yields its outputs."""
        previous: tuple[Operand, ...] = ()
        for step in steps:
            last = step is steps[-1]
            names = [self.name(title) for title in titles] if last else []
            inputs = (*previous, *step.inputs[1:]) if previous else step.inputs
            declared = self._declared(step, operator) if last else []
            open = [self._open(i) for i in operator.outputs] if last else []
            previous = self._apply(step, inputs, origin, names, declared, open)
        self._store(origin, operator, previous)

    def _run_network(
        self, origin: str, network: Network, operator: FileOperator, titles: Sequence[str]
    ) -> None:
        """Add an operator's ops, and let the states among its inputs be what it makes of them."""
        states = [(operator.inputs[position], result) for position, result in network.states.items()]
        wanted = [*zip(network.outputs, titles, strict=False)]
        wanted += [(result, self._label(index)) for index, result in states if index is not None]
        names = {result: self.name(title) for result, title in wanted}
        results: list[tuple[Operand, ...]] = []
        for number, layer in enumerate(network.layers):
            step = layer.on(results)
            expect_reals(step)
            last = max((r.index for r in names if r.layer == number), default=-1)
            default = f"{step.op}_{len(self.model.operations)}"
            labels = [names.get(Result(number, k), f"{default}:{k}") for k in range(last + 1)]
            results.append(self._apply(step, step.inputs, origin, labels, layer.quantization))
        self._store(origin, operator, [results[r.layer][r.index] for r in network.outputs])
        for index, result in states:
            if index is not None and self.graph.tensors[index].is_variable:
                self._set(index, results[result.layer][result.index])

    def _declared(self, step: Step, operator: FileOperator) -> Sequence[Quantization | None]:
        """The quantisations that an operator's outputs shall have; nothing: what follows from the inputs."""
        declared = [self.graph.tensors[i].quantization for i in operator.outputs]
        if step.op == "hashtable_lookup" and declared[1:] == [None]:  # hits, 0 or 1, whatever they stand for
            values = (None, *step.inputs)[-1]
            return [None if values is None else values.type.quantization, None]
        return [] if lookup(step.op).raw or not any(declared) else declared

    def _apply(
        self,
        step: Step,
        inputs: tuple[Operand | None, ...],
        origin: str,
        names: Sequence[str],
        declared: Sequence[Quantization | None],
        open: Sequence[OpenShape | None] = (),
    ) -> tuple[Operand, ...]:
        """The results of an op; arithmetic on shapes is done now, as types and rules need what it gives."""
        if all(o is not None and o.value is not None and is_short(o.type) for o in inputs):
            scratch = Model()
            results = scratch.add(step.op, inputs, step.attrs, origin=origin, names=names)
            if all(is_short(o.type) for o in results):
                values = scratch.operations[0].evaluate([None if o is None else o.value for o in inputs])
                pairs = zip(results, values, strict=True)
                return tuple(self.model.constant(o.name, np.asarray(v, order="C")) for o, v in pairs)
        return self.model.add(
            step.op, inputs, step.attrs, origin=origin, names=names, quantization=declared, open=open
        )

    def _open(self, index: int) -> OpenShape | None:
        """A tensor's shape as the file declares it, where it is open and an input's is, too."""
        declared = self.graph.tensors[index].open
        return declared if declared.is_open and any(i.open for i in self.model.inputs) else None

    def _store(self, origin: str, operator: FileOperator, results: Sequence[Operand]) -> None:
        """Let operands be the outputs of an operator."""
        if len(results) != len(operator.outputs):
            raise FormatError(f"{origin}: expected {len(results)} outputs, got {len(operator.outputs)}")
        for index, operand in zip(operator.outputs, results, strict=True):
            tensor = self.graph.tensors[index]
            self._expect_type(origin, f"output {tensor.name}", tensor, operand)
            self._set(index, operand)

    def _expect_type(self, origin: str, what: str, tensor: FileTensor, operand: Operand) -> None:
        """FormatError unless the file's type of `what` is the one that follows from the inputs."""
        expect_type(origin, what, tensor, operand)
        if self.work.as_stored:
            expect_shape(origin, what, tensor, operand)

    def _stand_in(self, operator: FileOperator) -> None:
        """Operands for the results of an operator that is not there, so that the search can go on."""
        for index in operator.outputs:
            tensor = self.graph.tensors[index]
            if tensor.type is not None:
                operand = Operand(self.name(tensor.name), tensor.type, Lifetime.TEMPORARY)
                self.operands.setdefault(index, operand)
