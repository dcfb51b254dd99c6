"""Model: operands and operations by number, as the calls of ANeuralNetworksModel build them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpunn.arguments import integer
from gpunn.errors import NnapiError, ResultCode
from gpunn.importers.nnapi.codes import (
    MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES,
    FeatureLevelCode,
    OperandCode,
    OperandLifeTime,
    OperandType,
    OperationCode,
    SymmPerChannelQuantParams,
)
from gpunn.nnapi.description import Description, GraphOperand, GraphOperation
from gpunn.nnapi.memory import Memory
from gpunn.nnapi.operand_types import checked, with_channels
from gpunn.nnapi.translation import Translation, translate
from gpunn.nnapi.values import (
    as_array,
    bad,
    expect_code,
    expect_given,
    expect_index,
    expect_kind,
    from_bytes,
)


class Model:
    """A model built by calls (ANeuralNetworksModel). One thread builds it; once finished, any thread may use
    it.

    Every call except the queries raises BAD_STATE after finish(), UNEXPECTED_NULL for None instead of a
    value, and BAD_DATA for a wrong index. `name` appears only in messages. feature_level: whose rules hold,
    27 to 30 (FeatureLevelCode); BAD_DATA for another. 27 and 28 are NNAPI 1.0 and 1.1, which gpunn keeps
    together; 29 and 30, NNAPI 1.2 and 1.3, add types and forms of the same operations (docs/nnapi.md).
    """

    def __init__(self, name: str = "model", *, feature_level: int = FeatureLevelCode.FEATURE_LEVEL_1) -> None:
        if integer(feature_level) not in tuple(FeatureLevelCode):
            known = ", ".join(str(int(level)) for level in FeatureLevelCode)
            bad(f"feature_level must be one of {known}, got {feature_level!r}")
        expect_kind("the name", name, str)
        self.name = name
        self.feature_level = FeatureLevelCode(feature_level)
        self._operands: list[GraphOperand] = []
        self._operations: list[GraphOperation] = []
        self._computed: set[int] = set()
        self._inputs: tuple[int, ...] = ()
        self._outputs: tuple[int, ...] = ()
        self._closed = False
        self._translation: Translation | None = None
        self.relaxed = False

    # ---- building

    def add_operand(self, type: OperandType) -> int:
        """Add an operand and return its index: 0, 1, ... Raises BAD_DATA for an impossible type."""
        self._expect_open("add_operand")
        expect_kind("the type", type, OperandType)
        self._operands.append(GraphOperand(checked(type, self.feature_level)))
        return len(self._operands) - 1

    def set_operand_value(self, index: int, value: Any) -> None:
        """Give an operand a constant value; None says that an optional operand is missing.

        value: an array of the operand's dtype and shape, bytes, or numbers. Up to 128 bytes are copied at
        once; a longer value is referenced and must not change until all executions have completed (an
        array that is not C-contiguous is copied). Raises BAD_DATA when the value does not fit the type or
        the type has unspecified dimensions.
        """
        operand = self._operand(index, "set_operand_value")
        if value is None:
            operand.value, operand.lifetime = None, OperandLifeTime.NO_VALUE
            return
        self._expect_specified(index, operand)
        array = as_array(value, operand.type, f"the value of operand {index}")
        if array.nbytes <= MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES:
            operand.value, operand.lifetime = np.array(array), OperandLifeTime.CONSTANT_COPY
        else:
            operand.value, operand.lifetime = array, OperandLifeTime.CONSTANT_REFERENCE

    def set_operand_value_from_memory(self, index: int, memory: Memory, offset: int, length: int) -> None:
        """Give an operand a constant value that lies in a memory, which is referenced, never copied.

        Raises BAD_DATA unless `length` is that of the operand's type and lies inside a readable memory.
        """
        operand = self._operand(index, "set_operand_value_from_memory")
        expect_kind("the memory", memory, Memory)
        self._expect_specified(index, operand)
        data = memory.view(offset, length)
        operand.value = from_bytes(data, operand.type, f"the value of operand {index}")
        operand.lifetime = OperandLifeTime.CONSTANT_REFERENCE

    def set_operand_symm_per_channel_quant_params(
        self, index: int, channels: SymmPerChannelQuantParams
    ) -> None:
        """Give a TENSOR_QUANT8_SYMM_PER_CHANNEL its scales, which it must have (feature level 29).

        Raises BAD_DATA for an operand of another type, and unless there is one scale over 0 for each index
        along a dimension of it.
        """
        operand = self._operand(index, "set_operand_symm_per_channel_quant_params")
        expect_kind("the scales per channel", channels, SymmPerChannelQuantParams)
        operand.type = with_channels(operand.type, channels)

    def add_operation(self, type: OperationCode, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation on operands by index, in any order of operations.

        Raises BAD_DATA for an unknown type or index, and for an output that another operation has already.
        What the operation demands of its operands is checked by finish(), when all values are there.
        """
        self._expect_open("add_operation")
        expect_given("type, inputs and outputs", type, inputs, outputs)
        code = expect_code("the operation", type, OperationCode)
        operation = GraphOperation(code, self._indices(inputs), self._indices(outputs))
        twice = self._computed.intersection(operation.outputs) or _repeated(operation.outputs)
        if twice:
            bad(f"operand {min(twice)} is the output of two operations")
        self._operations.append(operation)
        self._computed.update(operation.outputs)

    def identify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Say which operands are the model's inputs and outputs; the last call counts.

        Raises BAD_DATA for an operand that is both, or named twice, or an input with a value.
        """
        self._expect_open("identify_inputs_and_outputs")
        expect_given("inputs and outputs", inputs, outputs)
        ins, outs = self._indices(inputs), self._indices(outputs)
        twice = _repeated((*ins, *outs))
        if twice:
            bad(f"operand {min(twice)} is named twice; an operand cannot be both input and output")
        self._inputs, self._outputs = ins, outs

    def relax_computation_float32_to_float16(self, allow: bool) -> None:
        """Allow float32 to be computed with the range and precision of float16 (NNAPI 1.1)."""
        self._expect_open("relax_computation_float32_to_float16")
        expect_given("allow", allow)
        if not isinstance(allow, (bool, np.bool, int)):
            bad(f"allow must be True or False, got {allow!r}")
        self.relaxed = bool(allow)

    def finish(self) -> None:
        """End building and check everything that is known without an execution.

        May be called once. Raises BAD_DATA with everything that is wrong; then the model is invalid for good.
        """
        self._expect_open("finish")
        self._closed = True
        if not self._inputs or not self._outputs:
            bad("a model must have at least one input and one output (identify_inputs_and_outputs)")
        self._settle_lifetimes()
        self._expect_channels()
        self._operations = self._run_order()
        self._translation = translate(self.description)

    # ---- queries

    @property
    def finished(self) -> bool:
        """Tell whether finish() has been called."""
        return self._closed

    @property
    def valid(self) -> bool:
        """Tell whether finish() has succeeded."""
        return self._translation is not None

    @property
    def operands(self) -> Sequence[GraphOperand]:
        """Return every operand by index."""
        return self._operands

    @property
    def operations(self) -> Sequence[GraphOperation]:
        """Return the operations; once finished, in an order in which they can run."""
        return self._operations

    @property
    def inputs(self) -> tuple[int, ...]:
        """Return the operands that are inputs, in order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[int, ...]:
        """Return the operands that are outputs, in order."""
        return self._outputs

    @property
    def description(self) -> Description:
        """Return the model as data."""
        parts = self._operands, self._operations, self._inputs, self._outputs
        return Description(self.name, *parts, self.feature_level)

    @property
    def translation(self) -> Translation:
        """Return the model as a graph, as far as known without an execution; BAD_DATA for an invalid one."""
        if self._translation is None:
            bad(f"model {self.name!r} is invalid")
        return self._translation

    # ---- checks

    def _expect_open(self, call: str) -> None:
        if self._closed:
            raise NnapiError(ResultCode.BAD_STATE, f"{call}: model {self.name!r} has been finished")

    def _indices(self, indices: Iterable[Any]) -> tuple[int, ...]:
        if not isinstance(indices, Iterable):
            bad(f"operands are named by a list of indices, got {indices!r}")
        return tuple(self._index(index) for index in indices)

    def _index(self, index: Any) -> int:
        found = expect_index("the index of an operand", index)
        if not 0 <= found < len(self._operands):
            bad(f"there is no operand {found}, only {len(self._operands)}")
        return found

    def _operand(self, index: int, call: str) -> GraphOperand:
        self._expect_open(call)
        return self._operands[self._index(index)]

    @staticmethod
    def _expect_specified(index: int, operand: GraphOperand) -> None:
        if not operand.type.specified:
            bad(f"operand {index} cannot have a value, its dimensions are not all specified: {operand.type}")

    def _settle_lifetimes(self) -> None:
        """Set the lifetime of inputs and outputs; these and results of operations must not have values."""
        computed = self._computed
        for k in (*self._inputs, *computed, *self._outputs):
            if self._operands[k].lifetime is not OperandLifeTime.TEMPORARY_VARIABLE:
                bad(f"operand {k} has a value, so it can be neither an input nor the output of an operation")
        for k in self._inputs:
            self._operands[k].lifetime = OperandLifeTime.MODEL_INPUT
            if k in computed:
                bad(f"operand {k} is an input of the model and the output of an operation")
        for k in self._outputs:
            self._operands[k].lifetime = OperandLifeTime.MODEL_OUTPUT
            if k not in computed:
                bad(f"operand {k} is an output of the model, but no operation computes it")

    def _expect_channels(self) -> None:
        """Raise BAD_DATA for a tensor with scales per channel that has none."""
        for k, operand in enumerate(self._operands):
            code = operand.type.type
            if code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL and operand.type.channels is None:
                bad(f"operand {k} has no scales (set_operand_symm_per_channel_quant_params): {operand.type}")

    def _run_order(self) -> list[GraphOperation]:
        """Order the operations so that each comes after those that it reads from. Raises BAD_DATA for a
        cycle.
        """
        producer = {k: operation for operation in self._operations for k in operation.outputs}
        ordered: dict[GraphOperation, None] = {}
        waiting = {
            operation: {producer[k] for k in operation.inputs if k in producer}
            for operation in self._operations
        }
        readers: dict[GraphOperation, list[GraphOperation]] = {}
        for operation, needed in waiting.items():
            for earlier in needed:
                readers.setdefault(earlier, []).append(operation)
        ready = [operation for operation, needed in waiting.items() if not needed]
        for operation in ready:
            ordered[operation] = None
            for reader in readers.get(operation, ()):
                waiting[reader].discard(operation)
                if not waiting[reader]:
                    ready.append(reader)
        if len(ordered) < len(self._operations):
            bad("the operations form a cycle")
        return list(ordered)


def _repeated(indices: Sequence[int]) -> set[int]:
    """Return the indices that occur more than once."""
    return {k for k, times in Counter(indices).items() if times > 1}
