"""Dimensions, attributes and optional operands that an execution gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.compilation.specialise import MAX_SPECIALISATIONS
from gpunn.nnapi import Execution, OperandCode, OperandType
from tests.nnapi.builder import BAD_DATA, FLOAT, INT, X, compiled, empty, expect, relu, run, single, tensor


def test_dimensions_of_0_are_bound_by_set_input(backend: str) -> None:
    model = single("RELU", [tensor(0, 3)], [tensor(0, 3)])
    compilation = compiled(model, backend)
    assert not compilation.specialisations
    for rows in (1, 2, 5, 2):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        out = run(compilation, x, out=empty(rows, 3), types=[tensor(rows, 3), tensor(rows, 3)])
        np.testing.assert_array_equal(out, np.maximum(x, 0))
    assert len(compilation.specialisations) == 3


def test_specialisations_are_bounded() -> None:
    compilation = compiled(single("RELU", [tensor(0)], [tensor(0)]))
    for n in [*range(1, 2 * MAX_SPECIALISATIONS), 1]:
        run(compilation, np.ones(n, np.float32), out=empty(n), types=[tensor(n), tensor(n)])
    kept = [s.compiled.model.inputs[0].type.shape[0] for s in compilation.specialisations]
    assert len(kept) == MAX_SPECIALISATIONS and kept[-1] == 1


def test_a_model_without_open_dimensions_is_compiled_at_finish_once() -> None:
    compilation = compiled(relu(2, 3))
    first = compilation.specialisations
    for types in ([], [tensor(2, 3), tensor(2, 3)]):
        run(compilation, X, out=empty(2, 3), types=types)
    assert len(first) == 1 and compilation.specialisations == first


WRONG_BINDINGS = {
    "open": (tensor(0, 3), X),
    "none": (None, X),
    "other size": (tensor(2, 4), np.zeros((2, 4), np.float32)),
    "other rank": (tensor(6), np.zeros(6, np.float32)),
    "other code": (tensor(2, 3, code=INT), X),
    "other scale": (OperandType(FLOAT, (2, 3), 1.0), X),
    "negative": (tensor(-2, 3), X),
}


@pytest.mark.parametrize(("type", "buffer"), WRONG_BINDINGS.values(), ids=WRONG_BINDINGS)
def test_wrong_types_of_inputs_are_refused(type: OperandType | None, buffer: Any) -> None:
    execution = Execution(compiled(single("RELU", [tensor(0, 3)], [tensor(0, 3)])))
    with expect(BAD_DATA):
        execution.set_input(0, buffer, type)
    with expect(BAD_DATA):
        execution.set_output(0, np.array(buffer), type)


def test_an_output_has_the_computed_shape() -> None:
    execution = Execution(compiled(single("RELU", [tensor(0, 3)], [tensor(0, 3)])))
    execution.set_input(0, X, tensor(2, 3))
    execution.set_output(0, empty(4, 3), tensor(4, 3))
    with expect(BAD_DATA, "shape"):
        execution.start_compute()


def test_inputs_that_contradict_each_other_are_found_at_the_start() -> None:
    model = single("ADD", [tensor(0), tensor(0), 0], [tensor(0)])
    execution = Execution(compiled(model))
    execution.set_input(0, empty(2), tensor(2))
    execution.set_input(1, empty(3), tensor(3))
    execution.set_output(0, empty(3), tensor(3))
    with expect(BAD_DATA, "operation 0, ADD"):
        execution.start_compute()


def test_attributes_may_be_inputs(backend: str) -> None:
    model = single("RESHAPE", [tensor(2, 3), tensor(2, code=INT)], [tensor(0, 0)])
    compilation = compiled(model, backend)
    for shape in ([3, 2], [6, 1], [3, 2], [-1, 6]):
        out = np.empty_like(X.reshape(shape))
        run(compilation, X, np.array(shape, np.int32), out=out, types=[None, None, tensor(*out.shape)])
        np.testing.assert_array_equal(out, X.reshape(shape))
    assert len(compilation.specialisations) == 3


def test_scalars_may_be_inputs() -> None:
    model = single("ADD", [tensor(2), tensor(2), OperandType(OperandCode.INT32)], [tensor(2)])
    compilation = compiled(model)
    x = np.array([-3, 1], np.float32)
    assert run(compilation, x, x, 0, out=empty(2)).tolist() == [-6, 2]
    assert run(compilation, x, x, 1, out=empty(2)).tolist() == [0, 2]
    with expect(BAD_DATA, "fuse must be one of"):
        run(compilation, x, x, 4, out=empty(2))


def test_only_optional_inputs_may_be_omitted() -> None:
    model = single("ADD", [tensor(2), tensor(2), 0], [tensor(2)])
    with expect(BAD_DATA, r"b \(operand 1\) is not optional"):
        run(compiled(model), np.ones(2, np.float32), None, out=empty(2))


def test_an_optional_input_may_be_omitted_or_not() -> None:
    model = single("TRANSPOSE", [tensor(2, 3), tensor(2, code=INT)], [tensor(0, 0)])
    compilation = compiled(model)
    types = [None, None, tensor(3, 2)]
    for perm in (None, np.array([1, 0], np.int32)):
        np.testing.assert_array_equal(run(compilation, X, perm, out=empty(3, 2), types=types), X.T)
    same = run(compilation, X, np.array([0, 1], np.int32), out=empty(2, 3), types=[None, None, tensor(2, 3)])
    np.testing.assert_array_equal(same, X)
