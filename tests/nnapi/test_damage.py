"""Models with a random error: the outcome is a result or an NnapiError."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gpunn.nnapi import Compilation, Execution, Model, NnapiError, OperandCode, OperandType, OperationCode
from tests.nnapi import conformance

Array = npt.NDArray[Any]
EXTENTS = (0, 1, 2, 3, 7, 100)
SCALES = (0.0, 0.5, 1.0, -1.0, 1e-30, 1e30)
ZEROS = (0, 1, 128, 255)
NUMBERS = (-100, -1, 0, 1, 2, 3, 5, 100)


def damaged(rng: random.Random, type: OperandType) -> OperandType:
    """Return the type with one member changed."""
    dimensions = list(type.dimensions)
    kind = rng.randrange(5)
    if kind == 0 and dimensions:
        dimensions[rng.randrange(len(dimensions))] = rng.choice(EXTENTS)
    elif kind == 1:
        dimensions = dimensions[:-1] if rng.random() < 0.5 else [*dimensions, rng.choice(EXTENTS)]
    code = rng.choice(list(OperandCode)) if kind == 2 else type.type
    scale = rng.choice(SCALES) if kind == 3 else type.scale
    zero = rng.choice(ZEROS) if kind == 4 else type.zero_point
    return OperandType(code, tuple(dimensions), scale, zero, type.channels)


def value(rng: random.Random, data: Array, type: OperandType, change: bool) -> Array:
    """Return data of that type, perhaps with one element changed."""
    found = np.resize(np.asarray(data), type.dimensions or ()).astype(type.type.numpy)
    if change and found.size:
        number = rng.choice(NUMBERS)
        found.reshape(-1)[rng.randrange(found.size)] = abs(number) if found.dtype.kind == "u" else number
    return found


def bound(rng: random.Random, type: OperandType) -> OperandType:
    """Return the type with an extent for every open dimension."""
    dimensions = tuple(d or rng.choice((1, 2, 3)) for d in type.dimensions)
    return replace(type, dimensions=dimensions)


def attempt(rng: random.Random, case: Any, backend: str) -> None:
    """Build and run the case with one operand damaged. Raises NnapiError."""
    used = sorted({k for _, inputs, outputs in case.operations for k in (*inputs, *outputs)})
    victim, in_value = rng.choice(used), rng.random() < 0.3
    model, number = Model(case.id, feature_level=conformance.LEVELS[case.level]), dict[int, int]()
    for k in used:
        operand = case.operands[k]
        type = conformance.type_of(operand)
        type = damaged(rng, type) if k == victim and not in_value else type
        number[k] = model.add_operand(type)
        if operand.life == "const":
            model.set_operand_value(number[k], value(rng, operand.data, type, k == victim and in_value))
        elif operand.life == "no_value":
            model.set_operand_value(number[k], None)
    for name, inputs, outputs in case.operations:
        model.add_operation(OperationCode[name], [number[k] for k in inputs], [number[k] for k in outputs])
    model.identify_inputs_and_outputs([number[k] for k in case.inputs], [number[k] for k in case.outputs])
    model.finish()
    with Compilation(model, backend=backend) as compilation:
        compilation.finish()
        execution = Execution(compilation)
        for position, k in enumerate(case.inputs):
            operand, type = case.operands[k], bound(rng, model.operands[number[k]].type)
            omitted = operand.omitted or operand.data is None
            data = None if omitted else value(rng, operand.data, type, k == victim and in_value)
            execution.set_input(position, data, type)
        for position, k in enumerate(case.outputs):
            type = bound(rng, model.operands[number[k]].type)
            execution.set_output(position, np.zeros(type.dimensions, type.type.numpy), type)
        execution.start_compute().wait()


@pytest.mark.parametrize("later", [False, True], ids=["up to 1.1", "from 1.2 on"])
@pytest.mark.parametrize("seed", range(4))
def test_damage_is_refused_or_harmless(seed: int, later: bool, backend: str) -> None:
    rng = random.Random(seed)
    groups = conformance.later_cases() if later else conformance.cases()
    cases = [case for operation in OperationCode for case in groups.get(operation.name, ())]
    refused = 0
    for _ in range(80):
        try:
            attempt(rng, rng.choice(cases), backend)
        except NnapiError:
            refused += 1
    assert 16 < refused < 80
