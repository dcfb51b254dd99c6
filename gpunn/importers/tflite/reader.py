"""Reads a subgraph of a .tflite file into a Graph, and goes on where shapes depend on values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import partial

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Lifetime, Operand
from gpunn.importers.common.answers import Computed, Known, as_steps
from gpunn.importers.common.names import Names
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.tflite.control import CONTROL
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.ops import Ops
from gpunn.importers.tflite.rest import (
    Halt,
    HaltedError,
    Level,
    halt_for_bodies,
    halt_for_results,
    halt_for_values,
    rest_of,
)
from gpunn.importers.tflite.rules.table import rule_of
from gpunn.importers.tflite.scope import Deferred, Source
from gpunn.importers.tflite.subgraph import FileGraph, FileOperator
from gpunn.importers.tflite.target import Held, StateKey, Target
from gpunn.importers.tflite.tensors import Tensors
from gpunn.importers.tflite.types import expect_type
from gpunn.importers.tflite.work import Work
from gpunn.strings import held_bytes
from gpunn.types import Shape


class Reader:
    """Reads a subgraph into a target, operator by operator; `path` are the subgraphs that lead here.

    Where reading cannot go on `halt` says why, `position` at which operator, and `inner` what reads the
    subgraph that is inlined there, if one is. `variables` are those of the model that this one goes on with,
    if that is what it does.
    """

    def __init__(
        self,
        work: Work,
        graph: FileGraph,
        target: Target,
        path: tuple[int, ...] = (),
    ) -> None:
        self.work = work
        self.file = work.file
        self.graph = graph
        self.target = target
        self.model = target.model
        self.path = (*path, graph.index)
        self.tensors: Tensors = Tensors(work, graph, target)
        self.ops = Ops(self.tensors, target)
        self.halt: Halt | None = None
        self.position = 0
        self.inner: Reader | None = None
        self.variables: list[StateKey] | None = None

    def read_model(self, shapes: Sequence[Shape]) -> None:
        """Read the file's first subgraph, for inputs of these shapes."""
        for index, shape in zip(self.graph.inputs, shapes, strict=True):
            self.tensors.input(index, shape)
        self._operators()
        self._finish()

    def _finish(self) -> None:
        """Give the model its outputs: as they are, or with what is left to be read."""
        if self.work.unsupported:
            self.work.unsupported.fail()
        if not self.graph.outputs:
            self.file.fail("has no outputs")
        self._give_outputs()
        if self.halt is not None:
            return
        if self.variables is None:
            self.target.update()
        else:
            held = self.target.held()
            self.model.output(*(held[key] for key in self.variables))

    def _give_outputs(self) -> None:
        if self.halt is None:
            self.model.output(*self.tensors.expected_outputs(len(self.graph.operators)))
            return
        levels = list(self._levels())
        if self.target.certain:
            self._begin_states()
        variables = self.target.variables() if self.variables is None else self.variables
        go_on = partial(self._go_on, self.target.names.copy(), variables, levels[-1].position)
        self.model.rest = rest_of(self.halt, levels, self.model.name, self.target.held(), go_on)
        self.model.outputs.extend(self.tensors.expected_outputs(self.position))

    def _begin_states(self) -> None:
        """Let all variables exist that what is left to be read may find."""
        for variable in self.work.initial_values:
            self.target.resources.start(variable)
        reader: Reader | None = self
        while reader is not None:
            reader.tensors.begin_states()
            reader = reader.inner

    def _levels(self) -> Iterator[Level]:
        """Where this reader and those in it have stopped."""
        done = self.inner is not None or (self.halt is not None and self.halt.results is not None)
        yield Level(self.graph, self.tensors.operands, self.position + done)
        if self.inner is not None:
            yield from self.inner._levels()

    def _go_on(
        self,
        names: Names,
        variables: list[StateKey],
        position: int,
        model: Graph,
        known: list[dict[int, Operand]],
        held: Held,
    ) -> None:
        """Read on into another model; the file's shapes do not hold behind a shape that it cannot know.

        The last one also gives what variables hold then, after the outputs.
        """
        target = Target.going_on(model, names.copy(), held)
        reader = Reader(self.work.again(), self.graph, target, self.path[:-1])
        reader.variables = variables
        reader._take_over(self, known)
        reader._resume(position)
        reader._finish()

    def _take_over(self, other: Reader, known: list[dict[int, Operand]]) -> None:
        """Stand where another reader has stopped, and those in it, with operands known."""
        self.tensors.operands, self.tensors.titles = known[0], other.tensors.titles
        self.position = other.position
        if other.inner is not None:
            self.inner = Reader(self.work, other.inner.graph, self.target, self.path)
            self.inner._take_over(other.inner, known[1:])

    def _resume(self, position: int) -> None:
        """Read on, in the innermost subgraph first, there from an operator on."""
        if self.inner is not None:
            inner, self.inner = self.inner, None
            inner._resume(position)
            if inner.halt is not None:
                self.inner, self.halt = inner, inner.halt
                return
            operator = self.graph.operators[self.position]
            try:
                self.tensors.store(f"{self.file.name}: {operator}", operator, inner.tensors.outputs())
            except RefusedError as refusal:
                self._refuse(operator, refusal)
            position = self.position + 1
        self._operators(position)

    def nested(
        self,
        index: int,
        inputs: Sequence[Operand],
        names: Sequence[str] = (),
        target: Target | None = None,
    ) -> tuple[Operand, ...]:
        """The results of a subgraph on given operands: inlined here, or read into another `target`.

        `names` are what the results shall be called. Raises HaltedError where reading it must wait.
        """
        reader = Reader(self.work, self.subgraph(index), target or self.target, self.path)
        reader.tensors.titles.update(zip(reader.graph.outputs, names, strict=False))
        reader._read_on(inputs, self.graph)
        if reader.halt is not None:
            if reader.target.tensors is not self.target.tensors and reader.target.tensors.begun:
                raise RefusedError("shapes follow from values in what it puts in (beside variables)")
            if reader.model is not self.model:
                raise RefusedError("shapes follow from values in what it runs")
            self.inner = reader
            raise HaltedError(reader.halt)
        return reader.tensors.outputs()

    def body(
        self,
        index: int,
        arguments: Sequence[Operand],
        fixed: Set[int],
        target: Target,
        without: Set[int] = frozenset(),
    ) -> Source:
        """Read a subgraph into a model of its own, whose inputs are the arguments that are not `fixed`.

        It is `without` the outputs of those numbers. Where shapes in it depend on values it has a rest.
        Returns what reads it again for other shapes, if it has no state.
        """
        graph = self.subgraph(index)
        wanted = tuple(output for number, output in enumerate(graph.outputs) if number not in without)

        def read(work: Work, target: Target, shapes: Sequence[Shape]) -> Reader:
            left = iter(shapes)
            reader = Reader(work, replace(graph, outputs=wanted), target, self.path)
            add = target.model.input
            given = (
                a if i in fixed else add(a.name, a.type.with_shape(next(left)), open=None)
                for i, a in enumerate(arguments)
            )
            reader._read_on(list(given), self.graph)
            return reader

        def source(shapes: Sequence[Shape]) -> Graph:
            try:
                alone = Target.going_on(Graph(target.model.name), Names(), {})
                reader = read(self.work.again(), alone, shapes)
                reader.variables = []
                reader._finish()
            except FormatError as error:  # not the file's fault, which has been read before
                raise ModelError(str(error)) from None
            return reader.model

        reader = read(self.work, target, [a.type.shape for i, a in enumerate(arguments) if i not in fixed])
        if reader.halt is not None and any(level.has_state for level in reader._levels()):
            raise RefusedError("shapes follow from values in what it runs (beside variables)")
        reader.variables = []
        if reader.halt is None:  # they may stand for resources
            target.model.output(*reader.tensors.outputs())
        else:
            reader._give_outputs()
        return source

    def _read_on(self, inputs: Sequence[Operand], caller: FileGraph) -> None:
        """Read the subgraph on given operands."""
        graph = self.graph
        if len(inputs) != len(graph.inputs):
            self.file.fail(f"{graph} has {len(graph.inputs)} inputs, {caller} gives it {len(inputs)}")
        for at, (number, operand) in enumerate(zip(graph.inputs, inputs, strict=True)):
            tensor = graph.tensors[number]
            what = f"input {at} ({tensor.name})"
            self.tensors.expect_type(f"{self.file.name}: {graph}", what, tensor, operand)
            self.tensors.operands[number] = operand
        self._operators()

    def _operators(self, start: int = 0) -> None:
        """Add what stands for each operator, and collect what is unsupported; up to one that must wait."""
        again = self.work.begin(self.graph)
        for position, operator in enumerate(self.graph.operators[start:], start):
            if again:
                self.work.count(1 + len(operator.inputs) + len(operator.outputs))
            try:
                self.halt = self._add(operator)
                if self.halt is not None:
                    self.position = position
                    self._look_ahead(position + 1)
                    return
            except RefusedError as refusal:
                self._refuse(operator, refusal)
            except (FormatError, ModelError):
                if not self.work.unsupported:
                    raise
                self.tensors.stand_in(operator)  # what it works on may have come from a stand-in

    def _refuse(self, operator: FileOperator, refusal: RefusedError) -> None:
        """Note that an operator is unsupported, and go on as if it were not."""
        self.work.unsupported.add(str(refusal), operator.kind, operator.place)
        self.tensors.stand_in(operator)

    def _look_ahead(self, position: int) -> None:
        """Collect what has no rule among the operators that are read later."""
        for operator in self.graph.operators[position:]:
            try:
                if operator.code not in CONTROL:
                    rule_of(operator.code, self.work.custom)
            except RefusedError as refusal:
                self.work.unsupported.add(str(refusal), operator.kind, operator.place)

    def subgraph(self, index: int) -> FileGraph:
        """A subgraph that an operator here calls."""
        return self.work.enter(index, self.path)

    def _add(self, operator: FileOperator) -> Halt | None:
        """Add what stands for one operator, unless reading must stop here."""
        node = self._node(operator)
        names = [self.tensors.label(i) for i in operator.outputs]
        if operator.code in CONTROL:
            try:
                results = CONTROL[operator.code](node, names, self)
            except HaltedError as halted:
                return halted.halt
            if isinstance(results, Deferred):
                return self._defer(operator, node, results)
            self.tensors.store(node.origin, operator, results)
            return None
        try:
            answer = rule_of(operator.code, self.work.custom)(node)
        except ComputedError as error:
            self._expect_to_halt(error)
            return halt_for_values(node, error)
        if isinstance(answer, Computed):
            self._expect_to_halt(RefusedError("the shapes of its results follow from values"))
            return halt_for_results(operator, node, answer)
        if isinstance(answer, Known):
            read = [o.value for o in node.inputs if o is not None and o.value is not None]
            self.work.unfolding.count(sum(map(held_bytes, (*answer.values, *read))), str(operator))
            found = self.ops.builder.constants(answer.values, names)
            self.tensors.store(node.origin, operator, found)
            return None
        self.ops.run(node.origin, as_steps(answer), operator, names)
        return None

    def _defer(self, operator: FileOperator, node: Node, deferred: Deferred) -> Halt:
        """Stop at an operator that calls subgraphs."""
        self._expect_to_halt(RefusedError("the shapes of its results follow from what its subgraphs compute"))
        count = len(deferred.types) + len(deferred.known)
        if len(operator.outputs) != count:
            node.corrupt(f"expected {count} outputs, got {len(operator.outputs)}")
        for number, type in deferred.types.items():
            tensor = self.graph.tensors[operator.outputs[number]]
            result = Operand(tensor.name, type, Lifetime.TEMPORARY)
            expect_type(node.origin, f"output {tensor.name}", tensor, result)
        for number, operand in deferred.known.items():
            self.tensors.set(operator.outputs[number], operand)
        return halt_for_bodies(operator, node, deferred)

    def _expect_to_halt(self, refusal: RefusedError) -> None:
        """Raise where there is no need to stop, as all is in vain."""
        if self.work.unsupported:
            raise ModelError(str(refusal))

    def _node(self, operator: FileOperator) -> Node:
        """An operator as its rule sees it."""
        tensors = enumerate(operator.inputs)
        return Node(
            f"{self.file.name}: {operator}",
            tuple(None if i is None else self.tensors.read(i, at, operator) for at, i in tensors),
            tuple(self.graph.tensors[i].type for i in operator.outputs),
            operator.options_type,
            operator.options_table,
            operator.custom_options,
            tuple(self.graph.tensors[i].type for i in operator.intermediates),
            self.subgraph,
            self.work.unfolding.count,
        )
