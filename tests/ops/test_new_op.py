"""A new op is one module and its shader: once it is registered, everything follows from its facets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn.comparison.sides import Arithmetic
from gpunn.comparison.tolerance import bounds
from gpunn.custom import Algebra, Call, Kernel, like, op
from gpunn.errors import DeviceError, ModelError
from gpunn.graph.exact import evaluate
from gpunn.importers.tflite.rules.table import OPERATORS, plain
from gpunn.kernel import Read
from gpunn.ops import OPS
from gpunn.ops.accuracy import ATOL, EPS, GENERAL
from gpunn.passes import optimise
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.coverage import operator_row
from tests.ops.circular_convolution import circular_convolution
from tests.ops.quantized import quantized
from tests.tflite_builder import single_op

NAME = circular_convolution.name
OPERATOR = "STABLEHLO_REMAINDER"  # an operator for which the reader has no rule
RNG = np.random.default_rng(11)
X = RNG.uniform(-2, 2, (3, 5, 9)).astype(np.float32)
C = RNG.uniform(-2, 2, 9).astype(np.float32)
EXACT = np.stack([np.convolve(np.tile(row, 2), C.astype(np.float64))[9:18] for row in X.reshape(-1, 9)])


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, NAME, circular_convolution)


def model_of_rows(activation: str | None = None, c: Array = C) -> gpunn.Model:
    model = gpunn.Model("rows")
    (y,) = model.add(NAME, [model.input("x", float32(*X.shape)), model.constant("c", c)])
    model.output(*(model.add(activation, [y]) if activation is not None else (y,)))
    return model


def test_both_backends_run_it(backend: str) -> None:
    with model_of_rows().compile(backend) as compiled:
        assert [row.backend for row in compiled.placement] == [backend]
        np.testing.assert_allclose(compiled(X).reshape(-1, 9), EXACT, atol=1e-5)


def test_its_shape_rule_refuses_wrong_types() -> None:
    with pytest.raises(ModelError, match=rf"{NAME}: c must be a row like those of float32\[3, 5, 9\]"):
        model_of_rows(c=C[1:])


def test_constants_are_folded() -> None:
    model = gpunn.Model()
    (y,) = model.add(NAME, [model.constant("x", X), model.constant("c", C)])
    model.output(*model.add("add", [y, model.input("z", float32(9))]))
    (operation,) = optimise(model).operations
    folded = next(o.value for o in operation.inputs if o is not None and o.value is not None)
    np.testing.assert_allclose(folded.reshape(-1, 9), EXACT, atol=1e-5)


def test_an_activation_after_it_is_fused(backend: str) -> None:
    with model_of_rows("relu").compile(backend) as compiled:
        (row,) = compiled.placement
        assert row.operation.attrs["activation"] == "relu"
        np.testing.assert_allclose(compiled(X).reshape(-1, 9), np.maximum(EXACT, 0), atol=1e-5)


def test_comparisons_use_its_tolerance(gpu: str) -> None:
    found = gpunn.compare(model_of_rows("relu"), 2, ["cpu", "webgpu"], per_layer=True)
    assert found.ok
    model = model_of_rows()
    inputs = {model.inputs[0]: X.astype(np.float64)}
    results = evaluate(model.operations[0], inputs)
    (bound,) = bounds(model.operations[0], inputs, results, Arithmetic.FLOAT32)
    sizes = circular_convolution.reference(np.abs(inputs[model.inputs[0]]), np.abs(C.astype(np.float64)))
    np.testing.assert_allclose(bound.limit, ATOL + GENERAL * EPS * np.abs(results[0]) + 9 * EPS * sizes)


def test_profiles_count_its_operations(backend: str) -> None:
    (row,) = gpunn.profile(model_of_rows(), backend=backend, runs=1, warmup=0).rows
    assert (row.op, row.flops) == (NAME, 2 * X.size * 9)
    assert row.kernels == ((NAME,) if backend == "webgpu" else ())


def test_a_line_for_a_format_lets_files_use_it(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, OPERATOR, plain(NAME))
    types = [TensorType(DType.FLOAT32, a.shape) for a in (X, C)]
    file = single_op(OPERATOR, types, types[:1])
    with gpunn.load(file).compile(backend) as compiled:
        np.testing.assert_allclose(compiled(X, C).reshape(-1, 9), EXACT, atol=1e-5)
    assert operator_row(OPERATOR, [file]) == ["1", "float32", "GPU", "1", ""]


@op(
    lambda call: call.x.with_shape(call.x.shape[::-1]),
    raw=True,
    host_reason="none of these tests runs it",
    algebra=Algebra(permutes=True),
)
def turned(x: Array) -> Array:
    """Return x with its dimensions in reverse order."""
    return x.T


@op(like, algebra=Algebra(identity=lambda call: call.x.shape[0] == 1))
def reversed_rows(x: Array) -> Array:
    """Return the rows of x from the last to the first."""
    return x[::-1]


def test_passes_follow_its_algebra() -> None:
    model = gpunn.Model()
    x = model.input("x", quantized(DType.INT8, (4, 3, 1), 0.1))
    (y,) = model.add(turned, model.add("dequantize", [x]))
    model.output(*model.add(reversed_rows, [y]))
    assert [o.op for o in optimise(model).operations] == ["turned", "dequantize"]


def test_a_missing_shader_is_named(gpu: str, tmp_path: Path) -> None:
    def kernel(call: Call) -> Kernel:
        body = str(tmp_path / "missing.wgsl")
        return Kernel(body=body, threads=(1, 1, 1), workgroup=(1, 1, 1), reads=(Read("x", 0),))

    model = gpunn.Model()
    model.output(*model.add(op(like, kernel, name="lost")(turned.reference), [model.input("x", float32(2))]))
    with pytest.raises(DeviceError, match=r"missing\.wgsl: the shader cannot be read: No such file"):
        model.compile("webgpu")
