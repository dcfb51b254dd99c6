"""Runs a case of ../shared/conformance/nnapi through gpunn.nnapi."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from gpunn.nnapi import Compilation, Execution, FuseCode, Model, OperandCode, OperandType, OperationCode
from gpunn.planning.partition import HOST
from tests.resources import shared

Array = npt.NDArray[Any]
FLOAT = OperandCode.TENSOR_FLOAT32
SUITES = ("aosp", "synth")


@cache
def reader() -> ModuleType:
    """The suite's own reader, nnapi_data.py."""
    spec = importlib.util.spec_from_file_location("nnapi_data", shared("conformance/nnapi/nnapi_data.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def cases() -> dict[str, list[Any]]:
    """The cases of NNAPI 1.0 and 1.1 by operation; those with constant tensors again with these as inputs."""
    data = reader()
    found: dict[str, list[Any]] = {}
    for suite in SUITES:
        root = str(shared(f"conformance/nnapi/{suite}"))
        for case in data.cases(root):
            found.setdefault(case.op, []).append(data.strip_defaults(case))
        for case in data.cases(root):
            other = data.weights_as_inputs(data.strip_defaults(case))
            if other is not None:
                found[case.op].append(other)
    return found


@cache
def later_cases() -> list[Any]:
    """The cases of NNAPI 1.2 and 1.3 of operations that 1.1 has."""
    data, names = reader(), {code.name for code in OperationCode}
    root = str(shared("conformance/nnapi/aosp"))
    found = (c for c in data.cases(root, max_level=None, include_failure=True) if c.level > "V1_1")
    return [data.strip_defaults(c) for c in found if names.issuperset(o[0] for o in c.operations)]


def build(case: Any, behind_add: bool = False) -> Model:
    """The case's model, built by calls and finished; operands that nothing uses stay out.

    With `behind_add` the float inputs of the model are added to 0, and the sums are the case's inputs.
    """
    model = Model(case.id)
    used = {k for _, inputs, outputs in case.operations for k in (*inputs, *outputs)}
    number: dict[int, int] = {}
    for k, operand in enumerate(case.operands):
        if k not in used:
            continue
        code = OperandCode[operand.type]
        dims = tuple(operand.dims) if code.is_tensor else ()
        index = number[k] = model.add_operand(OperandType(code, dims, operand.scale, operand.zero))
        if operand.life == "const":
            model.set_operand_value(index, np.asarray(operand.data, code.numpy))
        elif operand.life == "no_value":
            model.set_operand_value(index, None)
    for name, inputs, outputs in case.operations:
        model.add_operation(OperationCode[name], [number[k] for k in inputs], [number[k] for k in outputs])
    inputs = {k: number[k] for k in case.inputs}
    for k, operand in inputs.items() if behind_add else ():
        type = model.operands[operand].type
        if type.type is OperandCode.TENSOR_FLOAT32 and not case.operands[k].omitted:
            inputs[k] = _add_zero(model, operand)
    model.identify_inputs_and_outputs([*inputs.values()], [number[k] for k in case.outputs])
    model.relax_computation_float32_to_float16(case.relaxed)
    model.finish()
    return model


def _add_zero(model: Model, result: int) -> int:
    """An operand that, with 0 added to it, is operand `result`."""
    x, zero = model.add_operand(model.operands[result].type), model.add_operand(OperandType(FLOAT, (1,)))
    fuse = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(zero, [0.0])
    model.set_operand_value(fuse, FuseCode.NONE)
    model.add_operation(OperationCode.ADD, [x, zero, fuse], [result])
    return x


def run(case: Any, backend: str, behind_add: bool = False) -> tuple[list[Array], set[str]]:
    """The case's outputs on a backend and the ops that ran on the host. Raises NnapiError.

    Two executions of one compilation must give the same bits.
    """
    with Compilation(build(case, behind_add), backend=backend) as compilation:
        compilation.finish()
        first, second = execute(compilation, case), execute(compilation, case)
        (found,) = compilation.specialisations
        hosted = {p.operation.op for p in found.compiled.placement if p.backend == HOST}
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return first, hosted


def execute(compilation: Compilation, case: Any) -> list[Array]:
    """The outputs of one execution with the case's inputs."""
    execution = Execution(compilation)
    for position, index in enumerate(case.inputs):
        operand = case.operands[index]
        execution.set_input(position, None if operand.omitted else operand.data)
    results = []
    for position, index in enumerate(case.outputs):
        operand = case.operands[index]
        results.append(np.zeros(operand.dims, OperandCode[operand.type].numpy))
        execution.set_output(position, results[-1])
    execution.start_compute().wait()
    return results
