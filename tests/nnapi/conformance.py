"""Runs of cases of ../shared/conformance/nnapi through gpunn.nnapi."""

from __future__ import annotations

import copy
import importlib.util
import math
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from gpunn.nnapi import (
    Compilation,
    Execution,
    FuseCode,
    Model,
    OperandCode,
    OperandType,
    OperationCode,
    SymmPerChannelQuantParams,
)
from gpunn.planning.partition import HOST
from tests.resources import shared

Array = npt.NDArray[Any]
ZEROS = (OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16)  # types to which a 0 can be added
SUITES = ("aosp", "synth")
NAMES = {code.name for code in OperationCode}
UNSIGNED = ("HASHTABLE_LOOKUP", "LSH_PROJECTION")  # quantised operations without a signed form
LEVELS = {"V1_0": 27, "V1_1": 27, "V1_2": 29, "V1_3": 30}  # 27 contains all earlier versions


@cache
def reader() -> ModuleType:
    """Load the suite's reader, nnapi_data.py."""
    spec = importlib.util.spec_from_file_location("nnapi_data", shared("conformance/nnapi/nnapi_data.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def cases() -> dict[str, list[Any]]:
    """Return the cases of NNAPI 1.0 and 1.1 by operation; constant tensors once more as inputs."""
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
def later_cases() -> dict[str, list[Any]]:
    """Return the cases of NNAPI 1.2 and 1.3 by operation, if 1.1 has the operation; otherwise as cases().

    Cases of zero-sized tensors begin with operations that 1.1 does not have; these are cut off. Each
    quantised case of all versions appears once more with signed integers.
    """
    found: dict[str, list[Any]] = {}
    for case in [c for c in _later() if not c.expect_failure and c.op in NAMES]:
        found.setdefault(case.op, []).append(cut(case))
    for operation, known in cases().items():
        unsigned = [*known, *found.get(operation, ())] if operation not in UNSIGNED else []
        found.setdefault(operation, []).extend(map(signed, filter(is_quantised, unsigned)))
    return {operation: group for operation, group in found.items() if group}


def refused_cases() -> list[Any]:
    """Return the cases of NNAPI 1.2 and 1.3 that must be refused."""
    return [case for case in _later() if case.expect_failure and case.op in NAMES]


def other_cases() -> list[Any]:
    """Return the cases of operations that NNAPI 1.1 does not have."""
    return [case for case in _later() if case.op not in NAMES]


def zero_sized_cases() -> list[Any]:
    """Return the cases of NNAPI 1.2 whose zero-sized tensors come from operations that 1.1 does not have."""
    known = [case for case in _later() if case.op in NAMES]
    return [case for case in known if not NAMES.issuperset(operation[0] for operation in case.operations)]


def every_case() -> list[Any]:
    """Return all cases, those with constant tensors twice."""
    return [*(case for group in cases().values() for case in group), *_later()]


@cache
def _later() -> list[Any]:
    data, found = reader(), []
    root = str(shared("conformance/nnapi/aosp"))
    for again in (False, True):
        for case in data.cases(root, max_level=None, include_failure=True):
            if case.level > "V1_1":
                stripped = data.strip_defaults(case)
                found.append(data.weights_as_inputs(stripped) if again else stripped)
    return [case for case in found if case is not None]


def cut(case: Any) -> Any:
    """Return the case without its operations that NNAPI 1.1 does not have.

    Their results become inputs without rows. All other operations keep their results. A case without such
    operations is returned unchanged.
    """
    kept = [operation for operation in case.operations if operation[0] in NAMES]
    if kept == case.operations:
        return case
    computed = {k for _, _, outputs in kept for k in outputs}
    read = {k for _, inputs, _ in kept for k in inputs}
    first = {k for name, _, outputs in case.operations if name not in NAMES for k in outputs} & read
    found = copy.deepcopy(case)
    found.operations = kept
    found.inputs = [*[k for k in case.inputs if k in read], *sorted(first)]
    found.outputs = [k for k in case.outputs if k in computed]
    for k in first:
        operand = found.operands[k]
        assert 0 in operand.dims, case.id
        operand.life, operand.data = "input", np.zeros(operand.dims, OperandCode[operand.type].numpy)
    return found


def is_quantised(case: Any) -> bool:
    """Tell whether a case has unsigned 8-bit tensors."""
    return any(operand.type == "TENSOR_QUANT8_ASYMM" for operand in case.operands)


def signed(case: Any) -> Any:
    """Return the case with signed 8-bit tensors: stored values and zero points are 128 less, as in AOSP."""
    found = copy.deepcopy(case)
    found.level, found.name = "V1_3", f"{case.name}_signed"
    for operand in found.operands:
        if operand.type == "TENSOR_QUANT8_ASYMM":
            operand.type, operand.zero = "TENSOR_QUANT8_ASYMM_SIGNED", operand.zero - 128
            if operand.data is not None:
                operand.data = (operand.data.astype(np.int16) - 128).astype(np.int8)
    return found


def build(case: Any, after_add: bool = False, open_results: bool = False) -> Model:
    """Build and finish the case's model; operands without users are left out.

    With `after_add` the model adds 0 to each input of real numbers, and the case's operations read the sums.
    With `open_results` no result of an operation has a rank.
    """
    model = Model(case.id, feature_level=LEVELS[case.level])
    used = {k for _, inputs, outputs in case.operations for k in (*inputs, *outputs)}
    number: dict[int, int] = {}
    for k, operand in enumerate(case.operands):
        if k not in used:
            continue
        type = type_of(operand)
        if open_results and operand.life in ("output", "temp"):
            type = replace(type, dimensions=())
        index = number[k] = model.add_operand(type)
        if operand.life == "const":
            model.set_operand_value(index, np.asarray(operand.data, type.type.numpy))
        elif operand.life == "no_value":
            model.set_operand_value(index, None)
    for name, inputs, outputs in case.operations:
        model.add_operation(OperationCode[name], [number[k] for k in inputs], [number[k] for k in outputs])
    inputs = {k: number[k] for k in case.inputs}
    for k, operand in inputs.items() if after_add else ():
        if model.operands[operand].type.type in ZEROS and not case.operands[k].omitted:
            inputs[k] = _add_zero(model, operand)
    model.identify_inputs_and_outputs([*inputs.values()], [number[k] for k in case.outputs])
    model.relax_computation_float32_to_float16(case.relaxed)
    model.finish()
    return model


def type_of(operand: Any) -> OperandType:
    """Return the type of an operand of a case."""
    code = OperandCode[operand.type]
    scales = operand.channel_scales
    channels = SymmPerChannelQuantParams(operand.channel_dim, tuple(scales)) if scales else None
    dimensions = tuple(operand.dims) if code.is_tensor else ()
    return OperandType(code, dimensions, operand.scale, operand.zero, channels)


def _add_zero(model: Model, result: int) -> int:
    """Add an operand and an ADD of 0 to it, whose result is operand `result`."""
    type = model.operands[result].type
    x, zero = model.add_operand(type), model.add_operand(OperandType(type.type, (1,)))
    fuse = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(zero, np.zeros(1, type.type.numpy))
    model.set_operand_value(fuse, FuseCode.NONE)
    model.add_operation(OperationCode.ADD, [x, zero, fuse], [result])
    return x


def run(case: Any, backend: str, after_add: bool = False) -> tuple[list[Array], set[str]]:
    """Return the case's outputs on a backend and the ops that ran on the host. Raises NnapiError.

    Two executions of one compilation must give the same bits.
    """
    with Compilation(build(case, after_add), backend=backend) as compilation:
        compilation.finish()
        first, second = execute(compilation, case), execute(compilation, case)
        (found,) = compilation.specialisations
        hosted = {p.operation.op for p in found.compiled.placement if p.backend == HOST}
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return first, hosted


def run_open(case: Any, backend: str) -> list[Array]:
    """Return the case's outputs on a backend; the model leaves the shapes of all results open."""
    with Compilation(build(case, open_results=True), backend=backend) as compilation:
        compilation.finish()
        execution = Execution(compilation)
        for position, k in enumerate(case.inputs):
            operand = case.operands[k]
            execution.set_input(position, None if operand.omitted else operand.data, _sized(operand))
        results = []
        for position, k in enumerate(case.outputs):
            operand = case.operands[k]
            results.append(np.zeros(math.prod(operand.dims) + 5, OperandCode[operand.type].numpy))
            execution.set_output(position, results[-1])
        execution.start_compute().wait()
        shapes = [execution.get_output_operand_dimensions(k) for k in range(len(results))]
    assert all(not result[-5:].any() for result in results), case.id
    return [result[:-5].reshape(shape) for result, shape in zip(results, shapes, strict=True)]


def execute(compilation: Compilation, case: Any) -> list[Array]:
    """Return the outputs of one execution with the case's inputs."""
    execution = Execution(compilation)
    for position, index in enumerate(case.inputs):
        operand = case.operands[index]
        execution.set_input(position, None if operand.omitted else operand.data, _sized(operand))
    results = []
    for position, index in enumerate(case.outputs):
        operand = case.operands[index]
        results.append(np.zeros(operand.dims, OperandCode[operand.type].numpy))
        execution.set_output(position, results[-1], _sized(operand))
    execution.start_compute().wait()
    return results


def _sized(operand: Any) -> OperandType | None:
    """Return the full type of an operand with a dimension of size 0, which only an execution can give."""
    return type_of(operand) if 0 in operand.dims else None
