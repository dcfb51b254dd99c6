"""What an operator of a TFLite file stands for, as its rule says it, added to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpunn.graph.graph import Graph, lookup
from gpunn.graph.operation import Operand
from gpunn.importers.tflite.node import Network, Result, Step, is_short, symmetric
from gpunn.importers.tflite.subgraph import FileOperator
from gpunn.importers.tflite.target import Target
from gpunn.importers.tflite.tensors import Tensors
from gpunn.importers.tflite.types import BIASED, expect_reals, expect_scales
from gpunn.ops.check import QUANTIZED
from gpunn.types import DType, OpenShape, Quantization

HYBRID = (*BIASED, "batch_matmul")  # products that take reals with a quantised constant, input FILTER
FILTER = 1
CONVERSIONS = ("bitcast", "cast")  # what their results stand for is the file's word


class Ops:
    """The ops of a subgraph's operators."""

    def __init__(self, tensors: Tensors, target: Target) -> None:
        self.tensors = tensors
        self.target = target
        self.model = target.model

    def run(self, origin: str, steps: Sequence[Step], operator: FileOperator, titles: Sequence[str]) -> None:
        """Add an operator's ops one after the other; the last one yields its outputs."""
        steps = [self._widened(step, origin) for step in steps]
        for step in steps:
            expect_reals(step, operator.code)
        previous: tuple[Operand, ...] = ()
        for step in steps:
            last = step is steps[-1]
            names = [self.target.names.unique(title) for title in titles] if last else []
            inputs = (*previous, *step.inputs[1:]) if previous else step.inputs
            declared = self._declared(step, operator) if last else []
            open = [self.tensors.open(i) for i in operator.outputs] if last else []
            previous = self._apply(step, inputs, origin, names, declared, open)
        self.tensors.store(origin, operator, previous)

    def run_network(
        self, origin: str, network: Network, operator: FileOperator, titles: Sequence[str]
    ) -> None:
        """Add an operator's ops, and let the states among its inputs be what it makes of them."""
        states = [(operator.inputs[position], result) for position, result in network.states.items()]
        wanted = [*zip(network.outputs, titles, strict=False)]
        wanted += [(result, self.tensors.label(index)) for index, result in states if index is not None]
        names = {result: self.target.names.unique(title) for result, title in wanted}
        results: list[tuple[Operand, ...]] = []
        for number, layer in enumerate(network.layers):
            step = layer.on(results)
            expect_reals(step, operator.code)
            last = max((r.index for r in names if r.layer == number), default=-1)
            default = f"{step.op}_{len(self.model.operations)}"
            labels = [names.get(Result(number, k), f"{default}:{k}") for k in range(last + 1)]
            results.append(self._apply(step, step.inputs, origin, labels, layer.quantization))
        self.tensors.store(origin, operator, [results[r.layer][r.index] for r in network.outputs])
        for index, result in states:
            if index is not None and self.tensors.graph.tensors[index].is_variable:
                self.tensors.set(index, results[result.layer][result.index])

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
        if filter not in self.target.widened:  # once, however many operators share it
            name = self.target.names.free(f"{filter.name}:float32")
            source = symmetric(filter)
            (self.target.widened[filter],) = self.model.add(
                "dequantize", (source,), origin=origin, names=[name]
            )
        return replace(step, inputs=(x, self.target.widened[filter], *step.inputs[FILTER + 1 :]))

    def _declared(self, step: Step, operator: FileOperator) -> Sequence[Quantization | None]:
        """The quantisations that an operator's outputs shall have; nothing: what follows from the inputs."""
        declared = [self.tensors.graph.tensors[i].quantization for i in operator.outputs]
        if step.op == "hashtable_lookup" and declared[1:] == [None]:  # hits, 0 or 1, whatever they stand for
            values = (None, *step.inputs)[-1]
            return [None if values is None else values.type.quantization, None]
        if not any(declared) or (lookup(step.op).raw and step.op not in CONVERSIONS):
            return []
        if step.op not in CONVERSIONS:
            expect_scales(step, declared)
        return declared

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
            scratch = Graph()
            results = scratch.add(step.op, inputs, step.attrs, origin=origin, names=names)
            if all(is_short(o.type) for o in results):
                values = scratch.operations[0].evaluate([None if o is None else o.value for o in inputs])
                pairs = zip(results, values, strict=True)
                return tuple(self.model.constant(o.name, np.asarray(v, order="C")) for o, v in pairs)
        return self.model.add(
            step.op, inputs, step.attrs, origin=origin, names=names, quantization=declared, open=open
        )
