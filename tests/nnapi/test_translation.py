"""Operations that wait for an execution are pending in the graph, as in every graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.graph.complete import complete
from gpunn.graph.pending import PendingOperation
from gpunn.nnapi import Model, OperandType, OperationCode, ResultCode
from gpunn.nnapi.description import Binding
from gpunn.nnapi.translation import translate
from tests.nnapi.builder import INT, add_constant, compiled, expect, run, tensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def reshaping(*dimensions: int) -> Model:
    """Return a finished model of RESHAPE to a shape that is an input, and RELU."""
    model = Model()
    x, shape, y, z = (
        model.add_operand(type)
        for type in (tensor(*dimensions), OperandType(INT, (2,)), tensor(0, 0), tensor(0, 0))
    )
    model.add_operation(OperationCode.RESHAPE, [x, shape], [y])
    model.add_operation(OperationCode.RELU, [y], [z])
    model.identify_inputs_and_outputs([x, shape], [z])
    model.finish()
    return model


def test_operations_that_wait_are_pending_in_the_graph() -> None:
    translation = reshaping(2, 3).translation
    first, second = translation.graph.pending
    assert isinstance(first, PendingOperation)
    assert [entry.op for entry in (first, second)] == ["RESHAPE", "RELU"]
    assert first.asks == (translation.graph.inputs[1],)  # the value of the shape
    assert second.inputs == first.outputs
    assert (translation.deferred, translation.attributes) == ([0, 1], frozenset({1}))


@pytest.mark.parametrize("dimensions", [(2, 3), (0, 3)])
def test_values_of_an_execution_complete_the_graph(dimensions: tuple[int, ...]) -> None:
    model = reshaping(*dimensions)
    binding = Binding((tensor(2, 3), OperandType(INT, (2,))), (X, np.array([3, 2], np.int32)))
    translation = translate(model.description, binding)
    assert not translation.graph.pending
    assert [o.op for o in translation.graph.operations] == ["reshape", "relu"]
    assert (translation.inputs, translation.graph.output_types[0].shape) == ((0,), (3, 2))
    with compiled(model) as compilation:
        for shape in ((3, 2), (1, 6), (3, 2)):
            types = [tensor(2, 3), None, tensor(*shape)]
            out = np.zeros(shape, np.float32)
            run(compilation, X, np.array(shape, np.int32), out=out, types=types)
            np.testing.assert_array_equal(out, X.reshape(shape))
        assert len(compilation.specialisations) == 2


def test_completing_again_by_hand_gives_the_same() -> None:
    """gpunn.graph.complete can continue with the graph of a finished model."""
    graph = reshaping(2, 3).translation.graph
    shape = graph.inputs[1]
    made = complete(graph, graph.input_types, {shape: np.array([6, 1], np.int32)})
    assert (made.pending, made.output_types[0].shape) == ([], (6, 1))


def test_all_errors_are_reported_at_once_in_order() -> None:
    """Attributes of operations that wait are checked before an execution."""
    model = Model()
    x, y, z = (model.add_operand(tensor(0, 4)) for _ in range(3))
    fuse = add_constant(model, 9)
    model.add_operation(OperationCode.ADD, [x, x, fuse], [y])
    known, unfit = model.add_operand(tensor(2)), model.add_operand(tensor(3))
    model.add_operation(OperationCode.RELU, [known], [unfit])
    model.add_operation(OperationCode.ADD, [x, y, fuse], [z])
    model.identify_inputs_and_outputs([x, known], [unfit, z])
    in_order = r"operation 0, ADD: fuse.*\noperation 1, RELU: .*\noperation 2, ADD: fuse"
    with expect(ResultCode.BAD_DATA, in_order):
        model.finish()


def slicing(shrink: int) -> Model:
    """Return a finished model of STRIDED_SLICE of X from begins to ends that are inputs."""
    model = Model()
    x, begin, end = (model.add_operand(t) for t in (tensor(2, 3), *[OperandType(INT, (2,))] * 2))
    strides, zero, mask = (add_constant(model, v) for v in ([1, 1], 0, shrink))
    y = model.add_operand(tensor(2) if shrink else tensor(1, 2))
    model.add_operation(OperationCode.STRIDED_SLICE, [x, begin, end, strides, zero, zero, mask], [y])
    model.identify_inputs_and_outputs([x, begin, end], [y])
    model.finish()
    return model


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def test_one_program_for_all_begins_of_an_execution(backend: str) -> None:
    with compiled(slicing(2), backend) as compilation:
        for row, column in ((0, 0), (0, 2), (0, -1), (0, 1), (0, -3)):
            out = np.zeros(2, np.float32)
            run(compilation, X, ints(row, column), ints(2, 9), out=out)
            np.testing.assert_array_equal(out, X[:, column])
        assert len(compilation.specialisations) == 1
        with expect(ResultCode.BAD_DATA, r"begin\[1\] must be an index into float32\[2, 3\], got 3"):
            run(compilation, X, ints(0, 3), ints(2, 9), out=out)
    with compiled(slicing(0), backend) as compilation:
        for column in (0, 1):
            out = np.zeros((1, 2), np.float32)
            run(compilation, X, ints(column, column), ints(column + 1, column + 2), out=out)
            np.testing.assert_array_equal(out, X[column : column + 1, column : column + 2])
        assert len(compilation.specialisations) == 1
