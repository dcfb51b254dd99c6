"""A subgraph's tensors as operands of the model that is being read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpunn.errors import FormatError, UnsupportedError
from gpunn.importers.tflite_file import FileGraph, FileOperator, FileTensor
from gpunn.importers.tflite_node import RefusedError
from gpunn.importers.tflite_types import expect_shape, expect_type
from gpunn.importers.tflite_work import Work
from gpunn.model import Model
from gpunn.operation import Lifetime, Operand
from gpunn.types import Array, DType, OpenShape, Shape


class Names:
    """Names of a model's operands, each given once."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """A name that was not given before: the wanted one, if possible with a number behind it."""
        number = self._given.get(wanted, 0)
        self._given[wanted] = number + 1
        return wanted if number == 0 else self.free(f"{wanted}:{number}")

    def free(self, name: str) -> str:
        """The name, with as many strokes behind it as it takes to be another one."""
        while name in self._given:
            name += "'"
        self._given[name] = 1
        return name


class Tensors:
    """The operands of a subgraph's tensors, and the way from one to the other.

    `operands` are those known by now, by tensor; `titles` what tensors are called where the subgraph is
    inlined and the caller has names for them; `stateful`: the subgraph runs exactly once in a run, so its
    variables can be kept.
    """

    def __init__(self, work: Work, graph: FileGraph, model: Model, names: Names, stateful: bool) -> None:
        self.work = work
        self.file = work.file
        self.graph = graph
        self.model = model
        self.names = names
        self.stateful = stateful
        self.operands: dict[int, Operand] = {}
        self.titles: dict[int, str] = {}

    def label(self, index: int) -> str:
        """What a tensor is called."""
        return self.titles.get(index, self.graph.tensors[index].name)

    def input(self, index: int, shape: Shape) -> None:
        """Let a tensor be an input of the model, of this shape."""
        tensor = self.graph.tensors[index]
        if index in self.operands:
            self.file.fail(f"{tensor} is an input of the model twice")
        if tensor.type is None:
            self.work.unsupported.add(f"input {tensor.name} is {tensor.type_name}")
        else:
            type, axes = tensor.type.with_shape(shape), tensor.open.axes(shape)
            self.operands[index] = self.model.input(self.names.unique(tensor.name), type, open=axes)

    def operand(self, index: int, reader: str) -> Operand:
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
            value = self._value(tensor)
            if value is None:
                self.file.fail(f"{tensor}, {reader}, comes from nowhere")
            self.work.constants[key] = self.model.constant(self.names.unique(tensor.name), value, tensor.type)
        return self.work.constants[key]

    def _value(self, tensor: FileTensor) -> Array | None:
        """What the file holds of a tensor, within bounds where that unfolds."""
        if tensor.type is not None and (tensor.sparsity is not None or tensor.bits):
            self.work.unfold(tensor.type.nbytes, str(tensor))
        return self.file.value(tensor)

    def _variable(self, index: int) -> Operand:
        """What a variable tensor holds by now; its subgraph's calls take turns."""
        key, tensor = (self.graph.index, index), self.graph.tensors[index]
        if key not in self.work.states:
            if tensor.type is None:  # an output: operators do not read such a tensor
                raise UnsupportedError(f"{self.file.name}: {tensor} is {tensor.type_name}")
            if not self.stateful:
                raise RefusedError(f"{tensor} is a variable of a subgraph that need not run exactly once")
            value = self._value(tensor)
            variable = self.model.variable(self.names.unique(tensor.name), tensor.type, value)
            if value is None and tensor.type.dtype is DType.UINT8:  # in TFLite these are not zero points
                self.model.variables[variable] = np.zeros(tensor.type.shape, np.uint8)
            self.work.variables[key] = self.work.states[key] = variable
        return self.work.states[key]

    def set(self, index: int, operand: Operand) -> None:
        """Let a tensor be an operand: a file may write it again, readers see the latest."""
        self.operands[index] = operand
        if (self.graph.index, index) in self.work.states:
            self.work.states[self.graph.index, index] = operand

    def read(self, index: int, position: int, operator: FileOperator) -> Operand:
        """The operand at an operator's input, refused when its kind is not supported."""
        tensor = self.graph.tensors[index]
        if tensor.dtype is None:
            what = f"is {tensor.type_name}, which is not supported"
            raise RefusedError(f"input {position} ({tensor.name}) {what}")
        return self.operand(index, f"input {position} of {operator}")

    def open(self, index: int) -> OpenShape | None:
        """A tensor's shape as the file declares it, where it is open and an input's is, too."""
        declared = self.graph.tensors[index].open
        return declared if declared.is_open and any(i.open for i in self.model.inputs) else None

    def expected_outputs(self, position: int) -> Iterator[Operand]:
        """The outputs, of which those that operators from `position` on write are known by type only."""
        later = {index for operator in self.graph.operators[position:] for index in operator.outputs}
        for index in self.graph.outputs:
            tensor = self.graph.tensors[index]
            if index not in later:
                yield self.operand(index, f"an output of {self.graph}")
            elif tensor.type is None:
                raise UnsupportedError(f"{self.file.name}: output {tensor.name} is {tensor.type_name}")
            else:
                shape = tensor.open if tensor.open.is_open else OpenShape(None)
                yield Operand(self.names.unique(tensor.name), tensor.type, Lifetime.TEMPORARY, open=shape)

    def store(self, origin: str, operator: FileOperator, results: Sequence[Operand]) -> None:
        """Let operands be the outputs of an operator."""
        if len(results) != len(operator.outputs):
            raise FormatError(f"{origin}: expected {len(results)} outputs, got {len(operator.outputs)}")
        for index, operand in zip(operator.outputs, results, strict=True):
            tensor = self.graph.tensors[index]
            self.expect_type(origin, f"output {tensor.name}", tensor, operand)
            self.set(index, operand)

    def expect_type(self, origin: str, what: str, tensor: FileTensor, operand: Operand) -> None:
        """FormatError unless the file's type of `what` is the one that follows from the inputs."""
        expect_type(origin, what, tensor, operand)
        if self.work.as_stored:
            expect_shape(origin, what, tensor, operand)

    def stand_in(self, operator: FileOperator) -> None:
        """Operands for the results of an operator that is not there, so that the search can go on."""
        for index in operator.outputs:
            tensor = self.graph.tensors[index]
            if tensor.type is not None:
                operand = Operand(self.names.unique(tensor.name), tensor.type, Lifetime.TEMPORARY)
                self.operands.setdefault(index, operand)
