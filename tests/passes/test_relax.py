"""relax: which tensors become float16, and which stay float32."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.relax import relax
from gpunn.types import DType, Quantization, TensorType, float32
from tests.passes.same import ops


def halves(model: Model) -> set[str]:
    """Return the names of the tensors that are float16 in the relaxed model."""
    relaxed = relax(model)
    assert (relaxed.inputs, relaxed.outputs) == (model.inputs, model.outputs)
    assert ops(relaxed) == ops(model)
    return {o.name for o in relaxed.operands() if o.type.dtype is DType.FLOAT16}


def unary(model: Model, op: str, x: Operand, name: str) -> Operand:
    (y,) = model.add(op, [x], names=[name])
    return y


def matrix(*values: float) -> np.ndarray:
    return np.array([values], np.float32)


def test_intermediate_tensors_and_matrices_become_float16_inputs_outputs_and_vectors_stay() -> None:
    model = Model()
    x = model.input("x", float32(3, 4))
    a = unary(model, "relu", x, "a")
    weights, bias = np.ones((5, 4), np.float32), np.ones(5, np.float32)
    operands = [a, model.constant("weights", weights), model.constant("bias", bias)]
    (b,) = model.add("fully_connected", operands, names=["b"])
    model.output(a, unary(model, "relu", b, "y"))
    assert halves(model) == {"b", "weights"}
    (constant,) = [o for o in relax(model).operands() if o.name == "weights"]
    assert constant.value is not None and constant.value.dtype == np.float16


def test_an_alias_is_stored_like_its_operand() -> None:
    model = Model()
    x = model.input("x", float32(2, 3))
    (of_input,) = model.add("reshape", [x], {"shape": (6,)}, names=["of input"])
    a = unary(model, "relu", of_input, "a")
    (inside,) = model.add("reshape", [a], {"shape": (3, 2)}, names=["inside"])
    b = unary(model, "relu6", inside, "b")
    (of_output,) = model.add("reshape", [b], {"shape": (6,)}, names=["output"])
    model.output(of_output)
    assert halves(model) == {"a", "inside"}


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("softmax", {}),
        ("log_softmax", {}),
        ("l2_normalization", {}),
        ("layer_normalization", {"epsilon": 1e-3}),
        ("local_response_normalization", {"radius": 1, "bias": 1.0, "alpha": 1.0, "beta": 0.5}),
        ("mean", {"axes": (0,), "keep_dims": True}),
        ("reduce_sum", {"axes": (0,), "keep_dims": True}),
    ],
)
def test_precise_ops_read_and_write_float32(op: str, attrs: dict[str, object]) -> None:
    model = Model()
    a = unary(model, "relu", model.input("x", float32(2, 3)), "a")
    b = unary(model, "tanh", a, "b")
    (c,) = model.add(op, [b], attrs, names=["c"])
    d = unary(model, "abs", c, "d")
    model.output(unary(model, "relu", d, "y"))
    assert halves(model) == {"a", "d"}


def test_recurrent_ops_keep_weights_and_state() -> None:
    model = Model()
    x = unary(model, "relu", model.input("x", float32(1, 2)), "read")
    square = model.constant("square", np.ones((2, 2), np.float32))
    state, y = model.add("rnn", [x, square, square, model.constant("b", np.ones(2, np.float32)), x])
    (z,) = model.add("batch_matmul", [y, square], names=["z"])
    model.output(state, unary(model, "relu", z, "y"))
    # The same constant is read as float32 by one filtered, as float16 by another.
    assert halves(model) == {"square", "z"}
    assert [o.name for o in relax(model).operands()].count("square") == 2


def test_variables_stay_float32() -> None:
    model = Model()
    state = model.variable("state", float32(4))
    a = unary(model, "relu", model.input("x", float32(4)), "a")
    (b,) = model.add("add", [state, a], names=["b"])
    model.update(state, b)
    model.output(unary(model, "relu", unary(model, "abs", b, "c"), "y"))
    assert halves(model) == {"a", "c"}


def test_arithmetic_on_quantised_tensors_is_left_alone() -> None:
    model = Model()
    a = unary(model, "relu", model.input("x", float32(4)), "a")
    (q,) = model.add("quantize", [a], {"dtype": "uint8", "scale": 0.5})
    (b,) = model.add("dequantize", model.add("relu", [q]), names=["b"])
    model.output(unary(model, "relu", unary(model, "abs", b, "c"), "y"))
    assert q.type == TensorType(DType.UINT8, (4,), Quantization((0.5,), (0,)))
    assert halves(model) == {"c"}


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (matrix(1e-12, 0.5), True),
        (matrix(0, 0), True),
        (matrix(65504, -1), True),
        (matrix(np.inf, -np.inf, np.nan, 1), True),
        (matrix(1e-12, 0), False),
        (matrix(65505, 0), False),
        (matrix(0, -1e9), False),
        (np.float32(3.0), False),
        (np.ones(4, np.float32), False),
        (np.ones((2, 2), np.int32), False),
        (np.zeros((2, 0), np.float32), True),
    ],
    ids=str,
)
def test_constants_that_float16_can_hold(value: np.ndarray, fits: bool) -> None:
    model = Model()
    constant = model.constant("c", np.asarray(value))
    model.output(*model.add("cast", [constant], {"dtype": "bool"}))
    assert halves(model) == ({"c"} if fits else set())


def test_relaxing_comes_after_the_other_passes() -> None:
    """Constants are folded in float32, and only the result is rounded."""
    model = Model()
    x = model.input("x", float32(1, 2))
    a, b = (model.constant(name, matrix(v, v)) for name, v in (("a", 2049.0), ("b", -2048.0)))
    (c,) = model.add("add", [a, b], names=["c"])
    model.output(*model.add("mul", [x, c]))
    (constant,) = (o for o in relax(optimise(model)).operands() if o.name == "c")
    assert constant.value is not None and constant.value.tolist() == [[1, 1]]
