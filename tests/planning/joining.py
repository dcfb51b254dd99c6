"""Models that join tensors, and what both backends give of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.compilation import assembly
from gpunn.graph.operation import Operand
from gpunn.kernel import Read, Write
from gpunn.model import Model
from gpunn.planning.plan import Plan
from gpunn.types import Array
from tests.evaluator import random_inputs


def clamped(model: Model, x: Operand) -> Operand:
    """An operation with the same result on both backends."""
    (y,) = model.add("relu6", [x])
    return y


def concat(model: Model, *parts: Operand, axis: int = 1, **attrs: str) -> Operand:
    (y,) = model.add("concat", parts, {"axis": axis, **attrs})
    return y


def copied(model: Model, inputs: Sequence[Array] | None = None) -> int:
    """Run a model on both backends, compare the bits, and count the dispatches of what joins its operands."""
    given = random_inputs(model) if inputs is None else inputs
    plans: list[Plan] = []
    with pytest.MonkeyPatch.context() as patch:
        make_plan = assembly.make_plan
        patch.setattr(assembly, "make_plan", lambda *a: plans.append(make_plan(*a)) or plans[-1])
        with model.compile("webgpu") as gpu, model.compile("cpu") as cpu:
            names = [i.name for i in model.inputs]
            expected = cpu.run(dict(zip(names, given, strict=True)))
            for name, found in gpu.run(dict(zip(names, given, strict=True))).items():
                np.testing.assert_array_equal(found, expected[name], strict=True)
            joins = [p for p in gpu.placement if p.operation.op in ("concat", "stack")]
            assert joins
    for plan in plans:
        for read, written in _bound(plan):
            assert read.isdisjoint(written), "WebGPU lets a dispatch bind what it writes only once"
    return sum(len(p.kernels) for p in joins)


def _bound(plan: Plan) -> Iterator[tuple[set[Any], set[Any]]]:
    """Yield for each kernel who owns the bytes that it reads, and those that it writes."""
    for placement in (p for segment in plan.segments for p in segment.placements):
        operation = placement.operation

        def owners(bound: Sequence[Read | Write], operands: Sequence[Operand | None]) -> set[Any]:
            places = (b.operand if isinstance(b, Read) else b.output for b in bound)
            found = (operands[k] if isinstance(k, int) else k for k in places)
            return {plan.root(o) if isinstance(o, Operand) else o for o in found if o is not None}

        for kernel in placement.kernels:
            yield owners(kernel.reads, operation.inputs), owners(kernel.writes, operation.outputs)
