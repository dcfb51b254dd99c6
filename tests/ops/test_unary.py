"""Element-wise ops of one tensor, as layers and as fused activations."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops import unary
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import check, check_litert, model_of, random
from tests.ops.nnapi_cases import check_cases

SHAPES = ((7,), (4, 5, 7), (2, 3, 4, 5), (3, 1, 2, 1, 9), (), (0, 3), (64, 1025))
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 3.4e38, -3.4e38], np.float32
)
ATTRS = {"leaky_relu": {"alpha": 0.2}}
LITERT = {
    "relu": "RELU",
    "relu1": "RELU_N1_TO_1",
    "relu6": "RELU6",
    "logistic": "LOGISTIC",
    "tanh": "TANH",
    "hard_swish": "HARD_SWISH",
    "floor": "FLOOR",
    "leaky_relu": "LEAKY_RELU",
}

lines = pytest.mark.parametrize("line", unary.TABLE, ids=lambda line: line.name)


def domain(line: unary.Unary) -> Array:
    """Values over all of a line's domain, dense around zero, its bounds included."""
    low, high = line.domain
    near = np.linspace(-1, 1, 201)
    return np.concatenate([np.linspace(low, high, 2001), near, near**9]).astype(np.float32)


@lines
def test_shapes(line: unary.Unary, backend: str) -> None:
    for seed, shape in enumerate(SHAPES):
        check(line.name, [random(seed, *shape)], ATTRS.get(line.name), backend=backend)


@lines
def test_domain(line: unary.Unary, backend: str) -> None:
    check(line.name, [domain(line)], ATTRS.get(line.name), backend=backend)


@lines
def test_nan_and_infinities(line: unary.Unary, backend: str) -> None:
    check(line.name, [SPECIAL], ATTRS.get(line.name), backend=backend)


@pytest.mark.parametrize("name", sorted(unary.ACTIVATIONS))
def test_fused_activation(name: str, backend: str) -> None:
    x = np.concatenate([domain(unary.ACTIVATIONS[name]), SPECIAL])
    check("add", [x, np.zeros(1, np.float32)], {"activation": name}, backend=backend)


@pytest.mark.parametrize("name", [a.name for a in unary.ACTIVATIONS.values() if a.integer])
def test_fused_activation_of_integers(name: str, backend: str) -> None:
    x = np.arange(-9, 10, dtype=np.int32)
    check("add", [x, np.ones(1, np.int32)], {"activation": name}, backend=backend)


@lines
def test_agrees_with_litert(line: unary.Unary) -> None:
    x = domain(line)[:2000].reshape(4, 5, 10, 10)
    options = {"alpha": 0.2} if line.name == "leaky_relu" else {}
    check_litert(line.name, [x], ATTRS.get(line.name, {}), LITERT[line.name], options)


@pytest.mark.parametrize("name", ["floor", "logistic", "relu", "relu1", "relu6", "tanh"])
def test_conformance(name: str, backend: str) -> None:
    check_cases(name.upper(), name, lambda x: ([x], {}), backend)


def test_reference_keeps_dtype() -> None:
    for line in unary.TABLE:
        for dtype in (np.float16, np.float32, np.float64):
            y = line.meaning(np.ones((2, 3), dtype), **ATTRS.get(line.name, {}))
            assert (y.dtype, y.shape) == (dtype, (2, 3)), line.name
    assert unary.apply_activation(np.ones(2, np.int32), "relu6").dtype == np.int32
    assert unary.apply_activation(np.ones(2, np.float32), None).dtype == np.float32


@lines
def test_result_has_the_type_of_the_input(line: unary.Unary) -> None:
    operation = model_of(line.name, [random(0, 2, 3)], ATTRS.get(line.name, {})).operations[0]
    assert operation.outputs[0].type == float32(2, 3)


@pytest.mark.parametrize(
    ("op", "dtype", "attrs", "message"),
    [
        ("relu", np.int32, {}, r"relu: input 0 must be float32 or float16, got int32\[2\]"),
        ("tanh", np.bool_, {}, r"tanh: input 0 must be float32 or float16, got bool\[2\]"),
        ("relu", np.float32, {"alpha": 1.0}, "relu: has no attribute alpha"),
        ("leaky_relu", np.float32, {}, "leaky_relu: needs attribute alpha"),
        ("leaky_relu", np.float32, {"alpha": "x"}, "leaky_relu: alpha must be a number, got 'x'"),
        ("add", np.float32, {"activation": "gelu"}, "add: activation must be one of .*relu6.*, got 'gelu'"),
        (
            "add",
            np.int32,
            {"activation": "tanh"},
            r"add: activation tanh needs a float tensor, got int32\[2\]",
        ),
    ],
)
def test_errors(op: str, dtype: type, attrs: dict[str, object], message: str) -> None:
    x: Array = np.zeros(2, dtype)
    with pytest.raises(ModelError, match=message):
        model_of(op, [x, x] if op == "add" else [x], attrs)


def test_number_of_inputs() -> None:
    x = np.zeros(2, np.float32)
    with pytest.raises(ModelError, match=r"relu: takes inputs \(x\), got 2"):
        model_of("relu", [x, x], {})


def test_half_precision_has_no_kernel_yet(backend: str) -> None:
    x = np.linspace(-2, 2, 9).astype(np.float16)
    assert TensorType(DType.FLOAT16, (9,)).rank == x.ndim
    eps = float(np.finfo(np.float16).eps)  # the result is rounded to float16
    check("tanh", [x], backend=backend, rtol=eps, host="float16")
