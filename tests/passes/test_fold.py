"""fold: operations on constants are computed before the run."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from gpunn.graph.operation import Lifetime, Operand
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.passes.fold import MAX_FOLDED_BYTES, MAX_READ_BYTES, fold_aliases, fold_constants
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops, same


def test_chains_of_constants_become_one_constant() -> None:
    model = Model()
    c = model.constant("c", np.arange(6, dtype=np.float32))
    (shaped,) = model.add("reshape", [c], {"shape": (2, 3)})
    (doubled,) = model.add("add", [shaped, shaped], {"activation": "relu6"})
    model.output(*model.add("mul", [model.input("x", float32(2, 3)), doubled]))
    result = same(model, fold_constants)
    assert ops(result) == ["mul"]
    folded = result.operations[0].inputs[1]
    assert folded is not None and folded.lifetime is Lifetime.CONSTANT and folded.value is not None
    np.testing.assert_array_equal(folded.value, [[0, 2, 4], [6, 6, 6]])
    assert folded.value.dtype == np.float32 and folded.value.flags.c_contiguous


def test_operations_with_absent_inputs_are_folded() -> None:
    model = Model()
    c = model.constant("c", np.ones((1, 3), np.float32))
    filters = model.constant("f", np.ones((2, 3), np.float32))
    (y,) = model.add("fully_connected", [c, filters, None])
    model.output(*model.add("add", [model.input("x", float32(1, 2)), y]))
    assert ops(same(model, fold_constants)) == ["add"]


def test_outputs_stay_results_of_operations() -> None:
    model = Model()
    c = model.constant("c", np.ones(3, np.float32))
    model.output(*model.add("relu", [c]))
    assert ops(same(model, fold_constants)) == ["relu"]


def test_variables_that_nothing_updates_are_constants() -> None:
    """Some files keep weights in variables. Variables that change or are outputs stay, and so do zeros."""
    model = Model()
    x = model.input("x", float32(3))
    value = np.array([1, -2, 3], np.float32)
    kept, changed, shown = (model.variable(n, float32(3), value) for n in "abc")
    zeros = model.variable("zeros", float32(3))
    (positive,) = model.add("relu", [kept])
    (y,) = model.add("add", [positive, x])
    model.update(changed, *model.add("add", [changed, y]))
    model.output(*model.add("mul", [y, zeros]), shown)
    folded = fold_constants(model)
    assert ops(folded) == ["add", "add", "mul"]
    assert [*folded.variables] == [changed, shown, zeros]
    assert [*model.variables] == [kept, changed, shown, zeros]
    constant = folded.operations[0].inputs[0]
    assert constant is not None and constant.value is not None and constant.value.tolist() == [1, 0, 3]


@pytest.mark.parametrize("fold", [fold_constants, fold_aliases])
def test_other_shapes_of_large_constants_are_constants(
    fold: Callable[[Model], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take no memory. A result of the model is computed for the user alone."""
    monkeypatch.setattr("gpunn.passes.fold.MAX_FOLDED_BYTES", 10)
    model = Model()
    c = model.constant("c", np.arange(6, dtype=np.float32))
    rows, columns = (model.add("reshape", [c], {"shape": shape})[0] for shape in ((2, 3), (3, 2)))
    model.output(
        columns, *model.add("neg", [columns]), *model.add("add", [rows, model.input("x", rows.type)])
    )
    result = same(model, fold)
    assert ops(result) == ["reshape", "neg", "add"]
    assert all(o.inputs[0] is not None and o.inputs[0].value is not None for o in result.operations)


def shaped(model: Model, c: Operand) -> Operand:
    return model.add("reshape", [c], {"shape": (1, 6)})[0]


def stacked(model: Model, c: Operand) -> Operand:
    return model.add("stack", [c], {"axis": 0})[0]


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("build", [shaped, stacked])
def test_backends_read_other_shapes_of_constants(
    build: Callable[[Model, Operand], Operand], shown: bool, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunn.passes.fold.MAX_FOLDED_BYTES", 10)
    model = Model()
    y = build(model, model.constant("c", np.arange(6, dtype=np.float32)))
    model.output(*model.add("add", [y, model.input("x", float32(1, 6))]), *([y] if shown else []))
    with model.compile(backend) as compiled:
        found = compiled.run({"x": np.ones((1, 6), np.float32)})
    assert [v.tolist() for v in found.values()] == [[[1, 2, 3, 4, 5, 6]], [[0, 1, 2, 3, 4, 5]]][: 1 + shown]


def test_operations_that_depend_on_an_input_stay() -> None:
    model = Model()
    model.output(
        *model.add("add", [model.input("x", float32(3)), model.constant("c", np.ones(3, np.float32))])
    )
    assert ops(same(model, fold_constants)) == ["add"]


def test_the_size_of_all_results_is_bounded() -> None:
    model = Model()
    size = MAX_FOLDED_BYTES // 10
    x = model.input("x", float32(size))
    c = model.constant("c", np.ones(size, np.float32))
    for _ in range(4):
        (y,) = model.add("tanh", [c])
        (x,) = model.add("add", [x, y])
    model.output(x)
    assert ops(same(model, fold_constants)) == ["add", "add", "tanh", "add", "tanh", "add"]


def test_the_size_of_all_operands_is_bounded() -> None:
    model = Model()
    c = model.constant("c", np.ones(MAX_READ_BYTES // 4 // 4, np.float32))
    x = model.input("x", float32())
    for _ in range(6):
        (total,) = model.add("reduce_max", [c], {"axes": (0,)})
        (x,) = model.add("add", [x, total])
    model.output(x)
    assert ops(fold_constants(model)) == ["add"] * 4 + ["reduce_max", "add"] * 2


def test_ops_of_unbounded_time_stay() -> None:
    assert all(OPS[name].unbounded for name in ("conv2d", "max_pool2d", "lstm", "while_loop"))
    model = Model()
    c = model.constant("c", np.ones((1, 3, 3, 1), np.float32))
    (y,) = model.add("max_pool2d", [c], {"size": (3, 3)})
    model.output(*model.add("add", [model.input("x", float32(1, 1, 1, 1)), y]))
    assert ops(same(model, fold_constants)) == ["max_pool2d", "add"]


def test_results_out_of_range_fold_without_a_warning() -> None:
    model = Model()
    zero = model.constant("zero", np.zeros(2, np.float32))
    (nan,) = model.add("div", [zero, zero])
    model.output(*model.add("add", [model.input("x", float32(2)), nan]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ops(fold_constants(model)) == ["add"]


def test_large_quantised_weights_are_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.passes.fold.MAX_FOLDED_BYTES", 10)
    model = Model()
    kind = TensorType(DType.INT8, (64,), Quantization((0.5,), (0,)))
    weights = model.constant("w", np.arange(64, dtype=np.int8), kind)
    x = model.input("x", float32(64))
    for _ in range(2):
        (real,) = model.add("dequantize", [weights])
        (x,) = model.add("mul", [x, real])
    model.output(x)
    assert ops(fold_constants(model)) == ["mul", "dequantize", "mul"]
