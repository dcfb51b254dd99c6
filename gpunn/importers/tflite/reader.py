"""Reads a subgraph of a .tflite file into a Graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.node import ComputedError, RefusedError
from gpunn.importers.common.template import checked, template
from gpunn.importers.tflite.context import Context
from gpunn.importers.tflite.control import CONTROL
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.operator_builder import OperatorBuilder
from gpunn.importers.tflite.rules.find import rule_of
from gpunn.importers.tflite.subgraph import FileGraph, FileOperator
from gpunn.importers.tflite.target import Target
from gpunn.importers.tflite.tensors import Tensors
from gpunn.importers.tflite.waiting import Waiting


class Reader:
    """Reads a subgraph into a target, operator by operator; `path` are the subgraphs that lead here.

    An operator that needs types or values which only a run knows waits in the target's model, see Waiting.
    """

    def __init__(
        self,
        context: Context,
        graph: FileGraph,
        target: Target,
        path: tuple[int, ...] = (),
    ) -> None:
        self.context = context
        self.file = context.file
        self.graph = graph
        self.target = target
        self.model = target.model
        self.path = (*path, graph.index)
        self.tensors: Tensors = Tensors(context, graph, target)
        self.builder = OperatorBuilder(self.tensors, target)

    def read_model(self, inputs: Sequence[Operand]) -> None:
        """Read the file's first subgraph on the model's inputs, and give the model its outputs."""
        given = iter(inputs)
        for index in self.graph.inputs:
            self.tensors.input(index, given)
        self._operators()
        if self.context.unsupported:
            self.context.unsupported.fail()
        if not self.graph.outputs:
            self.file.fail("has no outputs")
        self.model.output(*self.tensors.results())
        self.target.update()

    def nested(
        self,
        index: int,
        inputs: Sequence[Operand],
        names: Sequence[str] = (),
        target: Target | None = None,
    ) -> tuple[Operand, ...]:
        """Return the results of a subgraph on given operands; see Scope.nested()."""
        reader = Reader(self.context, self.subgraph(index), target or self.target, self.path)
        reader.tensors.titles.update(zip(reader.graph.outputs, names, strict=False))
        reader._read_on(inputs, self.graph)
        return reader.tensors.outputs()

    def body(
        self,
        index: int,
        arguments: Sequence[Operand],
        fixed: Set[int],
        target: Target,
        without: Set[int] = frozenset(),
    ) -> Graph:
        """Read a subgraph into a model of its own; see Scope.body()."""
        graph = self.subgraph(index)
        wanted = tuple(output for number, output in enumerate(graph.outputs) if number not in without)
        graph = replace(graph, outputs=wanted)

        def read(context: Context, target: Target, inputs: Iterable[Operand]) -> tuple[Operand, ...]:
            given = iter(inputs)
            reader = Reader(context, graph, target, self.path)
            reader._read_on([a if i in fixed else next(given) for i, a in enumerate(arguments)], self.graph)
            return reader.tensors.outputs()

        def read_again(model: Graph, inputs: Sequence[Operand | None]) -> tuple[()]:
            context = self.context.again(model)
            outputs = read(context, Target.alone(model), [i for i in inputs if i is not None])
            if context.unsupported:
                context.unsupported.fail()
            model.output(*outputs)
            return ()

        model = target.model
        waits = any(map(self.model.waits, arguments))
        add = model.unknown_input if waits else partial(model.input, open=None)
        inputs = [add(a.name, a.type) for i, a in enumerate(arguments) if i not in fixed]
        model.output(*read(self.context, target, inputs))
        return template(model.name, inputs, checked(read_again))

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

    def _operators(self) -> None:
        """Add what stands for each operator, and collect what is unsupported."""
        again = self.context.begin(self.graph)
        for operator in self.graph.operators:
            if again:
                self.context.count(1 + len(operator.inputs) + len(operator.outputs))
            try:
                self._add(operator)
            except RefusedError as refusal:
                self._refuse(operator, refusal)
            except (FormatError, ModelError):
                if not self.context.unsupported:
                    raise
                self.tensors.stand_in(operator)  # what it works on may have come from a stand-in

    def _refuse(self, operator: FileOperator, refusal: RefusedError) -> None:
        """Note that an operator is unsupported, and go on as if it were not."""
        self.context.unsupported.add(str(refusal), operator.kind, operator.place)
        self.tensors.stand_in(operator)

    def subgraph(self, index: int) -> FileGraph:
        """Return a subgraph that an operator here calls."""
        return self.context.enter(index, self.path)

    def _add(self, operator: FileOperator) -> None:
        """Add what stands for one operator, or let it wait."""
        node = self._node(operator)
        titles = [self.tensors.label(i) for i in operator.outputs]
        written: Mapping[int, Operand] = {}
        if operator.code in CONTROL:
            results = CONTROL[operator.code](node, titles, self)
        elif any(map(self.model.waits, node.inputs)):
            rule_of(operator.code, self.context.custom)  # an operator without one is refused at once
            results, written = self._let_wait(operator, node, titles)
        else:
            try:
                results, written = self.builder.add(node, operator, titles)
            except ComputedError as error:
                results, written = self._let_wait(operator, node, titles, error)
        self.tensors.store(node.origin, operator, results)
        for position, operand in written.items():
            index = operator.inputs[position]
            if index is not None and self.graph.tensors[index].is_variable:
                self.tensors.set(index, operand)

    def _let_wait(
        self, operator: FileOperator, node: Node, titles: Sequence[str], error: ComputedError | None = None
    ) -> tuple[tuple[Operand, ...], Mapping[int, Operand]]:
        """Keep an operator as pending; return its outputs, and what it makes of variables."""
        tensors = self.graph.tensors
        states = {k: i for k, i in enumerate(operator.inputs) if i is not None and tensors[i].is_variable}
        wanted = (*titles, *(self.tensors.label(index) for index in states.values()))
        names = tuple(self.target.names.unique(title) for title in wanted)
        found = Waiting(self.tensors, operator, node, names, tuple(states)).pend(self.model, node, error)
        count = len(titles)
        return found[:count], dict(zip(states, found[count:], strict=True))

    def _node(self, operator: FileOperator) -> Node:
        """Return an operator as its rule sees it."""
        given = [(at, i) for at, i in enumerate(operator.inputs) if i is not None]
        read = {at: self.tensors.read(i, at, operator) for at, i in given}
        blocks = {at: self.tensors.blocks(i, at, operator) for at, i in given}
        return Node(
            f"{self.file.name}: {operator}",
            tuple(read.get(at) for at in range(len(operator.inputs))),
            tuple(self.graph.tensors[i].type for i in operator.outputs),
            operator.options_type,
            operator.options_table,
            operator.custom_options,
            tuple(self.graph.tensors[i].type for i in operator.intermediates),
            self.subgraph,
            self.context.unfolding.count,
            operator.version,
            {at: found for at, found in blocks.items() if found is not None},
            lambda what: self.file.warn(f"{operator}: {what}"),
        )
