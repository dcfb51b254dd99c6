"""from_model: any gpunn Model as NNAPI operations, if they can express it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gpunn.graph.graph
import gpunn.model
from gpunn.errors import NnapiError, UnsupportedError
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import expect_whole
from gpunn.importers.common.node import RefusedError
from gpunn.importers.nnapi.codes import FeatureLevelCode, OperandCode, OperandType
from gpunn.importers.nnapi.listing import LISTERS, Listing, expect
from gpunn.importers.nnapi.signature import Param
from gpunn.importers.nnapi.table import OPERATIONS
from gpunn.nnapi.model import Model
from gpunn.passes.expand import expand
from gpunn.types import DType, TensorType

_CODES = {
    (DType.FLOAT32, False): OperandCode.TENSOR_FLOAT32,
    (DType.INT32, False): OperandCode.TENSOR_INT32,
    (DType.INT32, True): OperandCode.TENSOR_INT32,
    (DType.UINT8, True): OperandCode.TENSOR_QUANT8_ASYMM,
}


def from_model(model: gpunn.model.Model) -> Model:
    """Make a finished NNAPI model of a graph, for example of one that gpunn.load() has read.

    Constants are referenced; inputs and outputs keep their order; compiled, it is the same graph. Raises
    UnsupportedError with every operation and tensor that NNAPI 1.1 cannot express.
    """
    return _Lister(expand(expect_whole(model, "NNAPI cannot say"))).list()


class _Lister:
    """A converter that adds a graph's operands and operations to an NNAPI model and collects those that do
    not fit.
    """

    def __init__(self, source: gpunn.graph.graph.Graph) -> None:
        self.source = source
        self.model = Model(source.name)
        self.index: dict[Operand, int] = {}
        self.refused: list[str] = []

    def list(self) -> Model:
        """List everything and finish the model; UnsupportedError with all that does not fit."""
        for operand in self.source.inputs:
            self._try(f"input {operand.name!r}", operand)
        for operation in self.source.operations:
            try:
                self._add(operation)
            except RefusedError as error:
                where = f" ({operation.origin})" if operation.origin else ""
                self.refused.append(f"{operation.op}{where}: {error}")
        missing = [o.name for o in self.source.outputs if o not in self.index]
        if missing and not self.refused:
            self.refused.append(f"outputs {', '.join(missing)} are not results of operations")
        self._raise_refused()
        inputs = [self.index[o] for o in self.source.inputs]
        try:
            self.model.identify_inputs_and_outputs(inputs, [self.index[o] for o in self.source.outputs])
            self.model.finish()
        except NnapiError as error:
            self.refused.append(error.message)
        self._raise_refused()
        return self.model

    def _raise_refused(self) -> None:
        if self.refused:
            reasons = "\n".join(f"  {reason}" for reason in self.refused)
            raise UnsupportedError(f"{self.source.name} cannot be listed as NNAPI operations:\n{reasons}")

    def _try(self, what: str, operand: Operand) -> None:
        try:
            self._operand(operand)
        except RefusedError as error:
            self.refused.append(f"{what}: {error}")

    def _add(self, operation: Operation) -> None:
        lister = LISTERS.get(operation.op)
        if lister is None:
            for operand in operation.outputs:  # so that its readers do not complain too
                self._operand(operand)
            raise RefusedError("NNAPI 1.1 has no such operation")
        outputs = [self._operand(operand) for operand in operation.outputs]
        listing = lister(operation)
        inputs = [self._input(param, value) for param, value in _arranged(listing)]
        self.model.add_operation(listing.type, inputs, outputs)

    def _operand(self, operand: Operand) -> int:
        """Return the index of a tensor, which is added at its first use."""
        if operand not in self.index:
            index = self.index[operand] = self.model.add_operand(_type(operand.type))
            if operand.value is not None:
                self.model.set_operand_value(index, operand.value)
        return self.index[operand]

    def _input(self, param: Param, value: Any) -> int:
        """Return the index of a parameter's value: a tensor, or a new constant."""
        if isinstance(value, Operand):
            return self._operand(value)
        if param.kind in "if":
            index = self.model.add_operand(OperandType(param.codes(())[0]))
            self.model.set_operand_value(
                index, None if value is None else np.array(value, _NUMPY[param.kind])
            )
            return index
        (code, *_) = param.codes((OperandCode.TENSOR_FLOAT32,))
        if value is None:
            rank = param.ranks[0][0] if param.ranks else 1
            index = self.model.add_operand(OperandType(code, (0,) * rank))
            self.model.set_operand_value(index, None)
            return index
        values = np.array(value, np.int32)
        index = self.model.add_operand(OperandType(code, values.shape))
        self.model.set_operand_value(index, values)
        return index


_NUMPY = {"i": np.int32, "f": np.float32}


def _arranged(listing: Listing) -> Sequence[tuple[Param, Any]]:
    """Return each parameter with its value, for the form that has the listing's parameters."""
    named = dict(listing.params)
    for form in OPERATIONS[listing.type].signature(FeatureLevelCode.FEATURE_LEVEL_1).forms:
        attributes = {param.name for param in form if param.is_attribute}
        if attributes == named.keys():
            break
    tensors = iter(listing.tensors)
    arranged: list[tuple[Param, Any]] = []
    for param in form:
        if param.is_attribute:
            arranged.append((param, named[param.name]))
        else:
            arranged.extend(
                (param, next(tensors)) for _ in range(len(listing.tensors) if param.variadic else 1)
            )
    return arranged


def _type(type: TensorType) -> OperandType:
    """Return the NNAPI type of a tensor; raise RefusedError if there is none."""
    quantization = type.quantization
    code = _CODES.get((type.dtype, quantization is not None))
    expect(
        code is not None,
        f"{type} tensors{'' if quantization is None else ' with a scale'} are not in NNAPI 1.1",
    )
    assert code is not None
    expect(0 < type.rank <= 4 and type.size > 0, f"{type}: an NNAPI tensor has rank 1 to 4 and elements")
    if quantization is None:
        return OperandType(code, type.shape)
    expect(quantization.per_tensor, "scales per channel are not in NNAPI 1.1")
    return OperandType(code, type.shape, quantization.scale[0], quantization.zero_point[0])
