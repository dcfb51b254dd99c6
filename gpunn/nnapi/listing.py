"""from_model: any gpunn Model as NNAPI operations, if they can express it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gpunn.graph.graph
import gpunn.model
from gpunn.errors import NnapiError, UnsupportedError
from gpunn.graph.operation import Operand, Operation
from gpunn.importers.common.node import RefusedError
from gpunn.importers.nnapi.codes import FeatureLevelCode, OperandCode, OperandType, SymmPerChannelQuantParams
from gpunn.importers.nnapi.listing import LISTERS, NO_SUCH, Listing, expect
from gpunn.importers.nnapi.signature import FLOAT, Param, Signature
from gpunn.importers.nnapi.table import OPERATIONS
from gpunn.nnapi.model import Model
from gpunn.nnapi.values import expect_kind
from gpunn.passes.expand import expand
from gpunn.types import DType, Quantization, TensorType

_CODES = {
    (DType.FLOAT32, False): OperandCode.TENSOR_FLOAT32,
    (DType.FLOAT16, False): OperandCode.TENSOR_FLOAT16,
    (DType.INT32, False): OperandCode.TENSOR_INT32,
    (DType.INT32, True): OperandCode.TENSOR_INT32,
    (DType.UINT8, True): OperandCode.TENSOR_QUANT8_ASYMM,
    (DType.INT8, True): OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
}
_VERSIONS = {27: "NNAPI 1.1", 28: "NNAPI 1.1", 29: "NNAPI 1.2", 30: "NNAPI 1.3"}


def from_model(model: gpunn.model.Model, *, feature_level: int = FeatureLevelCode.FEATURE_LEVEL_1) -> Model:
    """Make a finished NNAPI model of a graph, for example of one that gpunn.load() has read.

    Constants are referenced; inputs and outputs keep their order; compiled, it is the same graph.
    feature_level: that of the NNAPI model. Raises UnsupportedError with every operation and tensor that this
    level cannot express, as far as gpunn.nnapi has it; BAD_DATA for an unknown level.
    """
    expect_kind("the model", model, gpunn.graph.graph.Graph)
    if model.pending:
        where = model.pending[0].where
        raise UnsupportedError(f"NNAPI cannot express shapes that depend on values: {where}")
    return _Lister(expand(model), feature_level).list()


class _Lister:
    """A converter that adds a graph's operands and operations to an NNAPI model and collects those that do
    not fit.
    """

    def __init__(self, source: gpunn.graph.graph.Graph, level: int) -> None:
        self.source = source
        self.model = Model(source.name, feature_level=level)
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
            later = self.model.feature_level >= FeatureLevelCode.FEATURE_LEVEL_3
            raise RefusedError("gpunn.nnapi has only the operations of NNAPI 1.1" if later else NO_SUCH)
        outputs = [self._operand(operand) for operand in operation.outputs]
        listing = lister(operation)
        expect(listing.since <= self.model.feature_level, listing.reason)
        arranged = _arranged(listing, OPERATIONS[listing.type].signature(self.model.feature_level))
        types = self._common(arranged)
        inputs = [self._input(param, value, types) for param, value in arranged]
        self.model.add_operation(listing.type, inputs, outputs)

    def _operand(self, operand: Operand) -> int:
        """Return the index of a tensor, which is added at its first use."""
        if operand not in self.index:
            index = self.index[operand] = self.model.add_operand(
                _type(operand.type, self.model.feature_level)
            )
            if operand.value is not None:
                self.model.set_operand_value(index, operand.value)
        return self.index[operand]

    def _common(self, arranged: Sequence[tuple[Param, Any]]) -> tuple[OperandCode, ...]:
        """Return the type of an operation's tensors as its only one; TENSOR_FLOAT32 if no tensor tells."""
        found = (value for param, value in arranged if param.kind == "T" and isinstance(value, Operand))
        first = next(found, None)
        return (FLOAT if first is None else _type(first.type, self.model.feature_level).type,)

    def _input(self, param: Param, value: Any, types: Sequence[OperandCode]) -> int:
        """Return the index of a parameter's value, a tensor or a new constant, beside tensors of `types`."""
        if isinstance(value, Operand):
            return self._operand(value)
        if param.kind in "ibf":
            (code,) = param.codes(types)
            index = self.model.add_operand(OperandType(code))
            self.model.set_operand_value(index, None if value is None else np.array(value, code.numpy))
            return index
        (code, *_) = param.codes(types)
        if value is None:
            rank = param.ranks[0][0] if param.ranks else 1
            index = self.model.add_operand(OperandType(code, (0,) * rank))
            self.model.set_operand_value(index, None)
            return index
        values = np.array(value, np.int32)
        index = self.model.add_operand(OperandType(code, values.shape))
        self.model.set_operand_value(index, values)
        return index


def _arranged(listing: Listing, signature: Signature) -> Sequence[tuple[Param, Any]]:
    """Return each parameter with its value, for the form that has the listing's parameters and tensors."""
    named, count = dict(listing.params), len(listing.tensors)
    for form in signature.forms:
        attributes = {param.name for param in form if param.is_attribute}
        tensors = [param for param in form if not param.is_attribute]
        if attributes == named.keys() and (len(tensors) == count or tensors[0].variadic):
            break
    given = iter(listing.tensors)
    arranged: list[tuple[Param, Any]] = []
    for param in form:
        if param.is_attribute:
            arranged.append((param, named[param.name]))
        else:
            arranged.extend((param, next(given)) for _ in range(count if param.variadic else 1))
    return arranged


def _type(type: TensorType, level: int) -> OperandType:
    """Return the NNAPI type of a tensor at a feature level; raise RefusedError if there is none."""
    quantization = type.quantization
    if quantization is not None and not quantization.per_tensor and type.dtype in (DType.INT8, DType.INT32):
        return _per_channel(type, quantization, level)
    code = _CODES.get((type.dtype, quantization is not None))
    if code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED and code.form.since > level:
        symmetric = quantization is not None and quantization.zero_point == (0,)
        code = OperandCode.TENSOR_QUANT8_SYMM if symmetric else code
    if code is None or code.form.since > level:
        scaled = "" if quantization is None else " with a scale"
        raise RefusedError(f"{type} tensors{scaled} are not in {_VERSIONS[level]}")
    _expect_sizes(type)
    if quantization is None:
        return OperandType(code, type.shape)
    expect(quantization.per_tensor, f"scales per channel are not in {_VERSIONS[level]}")
    return OperandType(code, type.shape, quantization.scale[0], quantization.zero_point[0])


def _per_channel(type: TensorType, quantization: Quantization, level: int) -> OperandType:
    """Return the type of a filter with a scale per channel, or of the bias beside it, which has no scale."""
    code = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
    expect(code.form.since <= level, f"scales per channel are not in {_VERSIONS[level]}")
    expect(not any(quantization.zero_point), f"zero points per channel are not in {_VERSIONS[level]}")
    _expect_sizes(type)
    if type.dtype is DType.INT32:
        return OperandType(OperandCode.TENSOR_INT32, type.shape)
    channels = SymmPerChannelQuantParams(quantization.axis, quantization.scale)
    return OperandType(code, type.shape, channels=channels)


def _expect_sizes(type: TensorType) -> None:
    expect(0 < type.rank <= 4 and type.size > 0, f"{type}: an NNAPI tensor has rank 1 to 4 and elements")
