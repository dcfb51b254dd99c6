"""OperatorBuilder: adds what an operator of a TFLite file stands for, as its rule says it, to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpunn.graph.inference import lookup
from gpunn.graph.operation import Operand
from gpunn.graph.tensors import is_short
from gpunn.importers.common.answers import Known, Step, Steps, as_steps
from gpunn.importers.common.builder import Builder
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node, symmetric
from gpunn.importers.tflite.rules.find import rule_of
from gpunn.importers.tflite.subgraph import FileOperator
from gpunn.importers.tflite.target import Target
from gpunn.importers.tflite.tensors import Tensors
from gpunn.importers.tflite.types import expect_reals, expect_scales
from gpunn.ops.call import BeyondError
from gpunn.ops.check import QUANTIZED
from gpunn.ops.elementwise.quantize import dequantize
from gpunn.ops.filter import FILTER
from gpunn.strings import held_bytes
from gpunn.types import DType, Quantization


class OperatorBuilder:
    """Adds to a graph what the operators of a subgraph stand for, with what the file declares of them."""

    def __init__(self, tensors: Tensors, target: Target) -> None:
        self.tensors = tensors
        self.target = target
        self.model = target.model
        self.answers = Builder(target.model, target.names, is_short)

    def add(
        self, node: Node, operator: FileOperator, titles: Sequence[str]
    ) -> tuple[tuple[Operand, ...], Mapping[int, Operand]]:
        """Add what stands for an operator; return its outputs, and what it makes of states among its inputs.

        The outputs are called by `titles`, the states are given by input. Raises ComputedError where the rule
        needs a value that is not known yet, RefusedError where it says that it cannot be.
        """
        context = self.tensors.context
        try:
            answer = rule_of(operator.code, context.custom)(node)
            if not isinstance(answer, Known):
                return self._run(node.origin, as_steps(answer), operator, titles)
        except BeyondError as error:
            raise RefusedError(error.reason) from None
        read = [o.value for o in node.inputs if o is not None and o.value is not None]
        context.unfolding.count(sum(map(held_bytes, (*answer.values, *read))), str(operator))
        return self.answers.constants(answer.values, titles), {}

    def _run(
        self, origin: str, answer: Steps, operator: FileOperator, titles: Sequence[str]
    ) -> tuple[tuple[Operand, ...], Mapping[int, Operand]]:
        tensors = self.tensors
        states = {
            position: tensors.label(index)
            for position, index in enumerate(operator.inputs)
            if index is not None and position in answer.states
        }
        return self.answers.add(
            answer,
            origin,
            titles,
            states=states,
            open=[tensors.open(i) for i in operator.outputs],
            settle=partial(self._settled, operator, origin),
        )

    def _settled(self, operator: FileOperator, origin: str, step: Step, last: bool) -> Step:
        """Return a step as the graph gets it: with real filters, and with the quantisations of the file.

        Raises RefusedError for element types that the operator does not take.
        """
        inputs = self._widened(step, origin)
        expect_reals(operator.code, step.op, inputs)
        quantization = self._declared(step, operator) if last else step.quantization
        return replace(step, inputs=inputs, quantization=quantization)

    def _widened(self, step: Step, origin: str) -> tuple[Operand | None, ...]:
        """Return the inputs of a step, its quantised constant filter dequantised if its input is of reals.

        TFLite's hybrid kernels quantise the input on the fly instead: less exact (docs/quantized.md).
        """
        inputs = tuple([value if isinstance(value, Operand) else None for value in step.inputs])
        if lookup(step.op).filter is None or len(inputs) <= FILTER:
            return inputs
        x, filter = inputs[0], inputs[FILTER]
        if x is None or filter is None or filter.value is None or x.type.dtype is not DType.FLOAT32:
            return inputs
        if filter.type.dtype not in QUANTIZED or filter.type.quantization is None:
            return inputs
        if filter not in self.target.widened:  # once, however many operators share it
            name = self.target.names.free(f"{filter.name}:float32")
            source = symmetric(filter)
            (self.target.widened[filter],) = self.model.add(
                dequantize, (source,), origin=origin, names=[name], hybrid=True
            )
        return x, self.target.widened[filter], *inputs[FILTER + 1 :]

    def _declared(self, step: Step, operator: FileOperator) -> Sequence[Quantization | None]:
        """Return the quantisations that outputs shall have; nothing if they follow from the inputs."""
        declared = [self.tensors.graph.tensors[i].quantization for i in operator.outputs]
        definition = lookup(step.op)
        # An op that moves bits into another type leaves it to the file what they stand for there.
        converts = definition.raw and "dtype" in definition.attributes
        if not any(declared) or (definition.raw and not converts):
            return []
        if not converts:
            expect_scales(step, declared)
        return declared
