"""A subgraph's tensors as operands of the model that is being read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpunn.errors import FormatError, UnsupportedError
from gpunn.graph.operation import Lifetime, Operand
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.blocks import BLOCKWISE, RowBlocks, row_blocks
from gpunn.importers.tflite.context import Context
from gpunn.importers.tflite.control import CONTROL
from gpunn.importers.tflite.result_types import DERIVED
from gpunn.importers.tflite.state_rows import rows_of_state
from gpunn.importers.tflite.subgraph import FileGraph, FileOperator, FileTensor
from gpunn.importers.tflite.target import Target
from gpunn.importers.tflite.types import expect_type, wrong_shape
from gpunn.types import OpenShape


class Tensors:
    """The operands of a subgraph's tensors, and the way from one to the other.

    `operands` are those known by now, by tensor; `titles` what tensors are called where the subgraph is
    inlined and the caller has names for them.
    """

    def __init__(self, context: Context, graph: FileGraph, target: Target) -> None:
        self.context = context
        self.file = context.file
        self.graph = graph
        self.model = target.model
        self.names = target.names
        self.states = target.tensors
        self.operands: dict[int, Operand] = {}
        self.titles: dict[int, str] = {}

    def label(self, index: int) -> str:
        """Return what a tensor is called."""
        return self.titles.get(index, self.graph.tensors[index].name)

    def input(self, index: int, given: Iterator[Operand]) -> None:
        """Let a tensor be the next of the inputs that are `given`, if it is of a type that can be one."""
        tensor = self.graph.tensors[index]
        if tensor.type is None:
            self.context.unsupported.add(f"input {tensor.name} is {tensor.type_name}")
        else:
            self.names.unique(tensor.name)
            self.operands[index] = next(given)

    def operand(self, index: int, reader: str) -> Operand:
        """Return the operand of a tensor that something reads."""
        if index not in self.operands:
            if self.graph.tensors[index].is_variable:
                return self.states.get((self.graph.index, index))
            self.operands[index] = self._constant(index, reader)
        return self.operands[index]

    def _constant(self, index: int, reader: str) -> Operand:
        """Return the operand of a tensor that nothing writes; one for all calls of a subgraph."""
        key, tensor = (self.graph.index, index), self.graph.tensors[index]
        if key not in self.context.constants:
            value = self.context.value(tensor)
            if value is None:
                self.file.fail(f"{tensor}, {reader}, comes from nowhere")
            name = self.names.unique(tensor.name)
            self.context.constants[key] = self.model.constant(name, value, tensor.type)
        return self.context.constants[key]

    def blocks(self, index: int, position: int, operator: FileOperator) -> RowBlocks | None:
        """Return the blocks of a tensor that an operator reads, if they have scales of their own."""
        tensor = self.graph.tensors[index]
        if tensor.blocks is None:
            return None
        if operator.code not in BLOCKWISE:
            scales = f"a scale for each {tensor.blocks.size} elements"
            takers = " and ".join(BLOCKWISE)
            raise RefusedError(f"input {position} ({tensor.name}) has {scales}, which only {takers} take")
        operands = [self._of_blocks(k) for k in (tensor.blocks.scales, tensor.blocks.zeros)]
        return row_blocks(tensor, tensor.blocks, operands, self.file.fail)

    def _of_blocks(self, index: int) -> Operand | None:
        """Return the operand of scales or zero points; None if there is no such constant."""
        tensor = self.graph.tensors[index] if 0 <= index < len(self.graph.tensors) else None
        if tensor is None or tensor.type is None or self.context.value(tensor) is None:
            return None
        return self._constant(index, "which has scales or zero points of blocks")

    def set(self, index: int, operand: Operand) -> None:
        """Let a tensor be an operand: a file may write it again, readers see the latest."""
        self.operands[index] = operand
        if (self.graph.index, index) in self.states.begun:
            self.states.written[self.graph.index, index] = operand

    def read(self, index: int, position: int, operator: FileOperator) -> Operand:
        """Return the operand at an operator's input, refused when its kind is not supported."""
        tensor = self.graph.tensors[index]
        handles = tensor.is_handle and operator.code in CONTROL
        if tensor.dtype is None and not handles:
            what = f"is {tensor.type_name}, which is not supported"
            raise RefusedError(f"input {position} ({tensor.name}) {what}")
        if tensor.is_variable and not self.context.as_stored:
            self._follow_batch(index, operator)
        return self.operand(index, f"input {position} of {operator}")

    def _follow_batch(self, index: int, operator: FileOperator) -> None:
        """Let a state that an operator reads first have the rows that the batch of the input asks for."""
        first, state = operator.inputs[0], self.graph.tensors[index].type
        stored = None if first is None else self.graph.tensors[first].type
        x = None if first is None else self.operands.get(first)
        if stored is not None and state is not None and x is not None:
            rows = rows_of_state(operator, state, stored, x.type)
            self.context.state_rows.setdefault((self.graph.index, index), rows)

    def open(self, index: int) -> OpenShape | None:
        """Return a tensor's shape as the file declares it, where it is open and an input's is, too."""
        declared = self.graph.tensors[index].open
        return declared if declared.is_open and any(i.open for i in self.model.inputs) else None

    def outputs(self) -> tuple[Operand, ...]:
        """Return what the subgraph gives to the one that calls it."""
        return tuple(self.operand(i, f"an output of {self.graph}") for i in self.graph.outputs)

    def results(self) -> Iterator[Operand]:
        """Return the model's outputs; UnsupportedError for one of another type than tensors have."""
        for index in self.graph.outputs:
            tensor = self.graph.tensors[index]
            if tensor.type is None:
                raise UnsupportedError(f"{self.file.name}: output {tensor.name} is {tensor.type_name}")
            yield self.operand(index, f"an output of {self.graph}")

    def store(self, origin: str, operator: FileOperator, results: Sequence[Operand]) -> None:
        """Let operands be the outputs of an operator."""
        if len(results) != len(operator.outputs):
            raise FormatError(f"{origin}: expected {len(results)} outputs, got {len(operator.outputs)}")
        for index, operand in zip(operator.outputs, results, strict=True):
            tensor = self.graph.tensors[index]
            if operator.code in DERIVED:
                tensor = self._derived(origin, tensor, operand)
            what = f"output {tensor.name}"
            self._expect_element_type(origin, what, tensor, operand)
            wrong = self._wrong_shape(tensor, operand)
            if wrong:
                self.file.warn(f"{operator}: {what} {wrong}; it has that, as in LiteRT")
            self.set(index, operand)

    def _derived(self, origin: str, tensor: FileTensor, operand: Operand) -> FileTensor:
        """Return a result's tensor with its real element type, and warn where the file states another one."""
        dtype, quantization = operand.type.dtype, operand.type.quantization
        if tensor.dtype is None or tensor.dtype is dtype:
            return tensor
        stated = f"{origin}: output {tensor.name} is {tensor.type_name} in the file"
        self.file.warn(f"{stated}, the inputs and options make it {dtype.name}")
        return replace(tensor, dtype=dtype, type_name=dtype.name, quantization=quantization)

    def expect_type(self, origin: str, what: str, tensor: FileTensor, operand: Operand) -> None:
        """Raise FormatError unless the file's type of `what` is the one that follows from the inputs."""
        self._expect_element_type(origin, what, tensor, operand)
        wrong = self._wrong_shape(tensor, operand)
        if wrong:
            raise FormatError(f"{origin}: {what} {wrong}")

    def _expect_element_type(self, origin: str, what: str, tensor: FileTensor, operand: Operand) -> None:
        if tensor.is_handle and operand in self.context.resources:
            return
        if tensor.is_handle:
            raise RefusedError(f"{what}: which resource it stands for is computed")
        if operand in self.context.resources:
            raise FormatError(f"{origin}: {what} is {tensor.type_name}, expected RESOURCE")
        expect_type(origin, what, tensor, operand)

    def _wrong_shape(self, tensor: FileTensor, operand: Operand) -> str:
        known = self.context.as_stored and not self.model.waits(operand)
        return wrong_shape(tensor, operand) if known and not tensor.is_handle else ""

    def stand_in(self, operator: FileOperator) -> None:
        """Make operands for the results of a refused operator, so that the search can go on."""
        for index in operator.outputs:
            tensor = self.graph.tensors[index]
            if tensor.type is not None:
                operand = Operand(self.names.unique(tensor.name), tensor.type, Lifetime.TEMPORARY)
                self.operands.setdefault(index, operand)
