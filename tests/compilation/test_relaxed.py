"""compile(relaxed=True): float16 between operations, on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import lower as lowering
from gpunn.graph.operation import Operation
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.nnapi.builder import add_constant, compiled, run, tensor
from tests.planning.appending import swapped_off
from tests.resources import shared
from tests.test_models import manifest, model_input


def chain(*ops: str, size: int) -> Model:
    """A model of operations in a row; all but the last write intermediate tensors."""
    model = Model()
    y = model.input("x", float32(size))
    for op in ops:
        (y,) = model.add(op, [y])
    model.output(y)
    return model


# What abs() stores, by hand: from 2048 on float16 holds even numbers, of ties the one divisible by four.
STORED = [
    (1 / 3, 1365 / 4096),
    (2047.5, 2048),
    (2049, 2048),
    (2051, 2052),
    (2049.001, 2050),
    (65504, 65504),
    (65519.99, 65504),
    (65520, np.inf),
    (3e38, np.inf),
    (np.inf, np.inf),
    (np.nan, np.nan),
    (2.0**-24, 2.0**-24),
    (2.0**-25, 0),
    (1e-40, 0),
    (0, 0),
]


def test_intermediate_tensors_are_rounded_to_float16(backend: str) -> None:
    x, expected = (np.array(column, np.float32) for column in zip(*STORED, strict=True))
    for count in (len(x), 8):  # one number an invocation, and four
        with chain("abs", "neg", size=count).compile(backend, relaxed=True) as relaxed:
            np.testing.assert_array_equal(relaxed(-x[:count]), -expected[:count])


def test_an_overflow_of_float16_is_infinite(backend: str) -> None:
    """250 * 300 is beyond float16: the product is infinite, but a clamp after it is not."""
    model = Model()
    x = model.input("x", float32(4))
    (y,) = model.add("mul", [x, model.constant("c", np.float32([300]))])
    (y,) = model.add("relu6", model.add("sub", [y, model.constant("d", np.float32([74_999]))]))
    model.output(y)
    x = np.float32([0, 1, 250, 251])
    with model.compile(backend) as exact, model.compile(backend, relaxed=True) as relaxed:
        assert np.asarray(exact(x)).tolist() == [0, 0, 1, 6]
        assert np.asarray(relaxed(x)).tolist() == [0, 0, 6, 6]


def test_inputs_and_outputs_stay_float32(backend: str) -> None:
    x = np.float32([2049, 1e5, 1 / 3])
    with chain("neg", size=3).compile(backend, relaxed=True) as relaxed:
        np.testing.assert_array_equal(relaxed(x), -x)


def test_host_operations_read_and_write_float16(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lowering.lower

    def lower(operation: Operation, *device: Any) -> Any:
        return "forced by a test" if operation.op == "tanh" else real(operation, *device)

    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", lower)
    x = np.linspace(-3, 3, 37).astype(np.float32)
    model = chain("abs", "tanh", "neg", size=37)
    with model.compile(gpu, relaxed=True) as mixed, model.compile("cpu", relaxed=True) as host:
        assert [p.backend for p in mixed.placement] == ["webgpu", "cpu", "webgpu"]
        np.testing.assert_array_equal(mixed(x), host(x))
        assert mixed.stats.bytes_uploaded == x.nbytes + 37 * 2


def residual_model() -> Model:
    """Two convolutions with a residual, for odd and even widths, and a pool."""
    rng = np.random.default_rng(3)
    model = Model()
    y = model.input("x", float32(1, 9, 9, 3))
    for channels in (12, 7):
        shape = (channels, 3, 3, y.type.shape[3])
        filter = model.constant("filter", rng.standard_normal(shape).astype(np.float32) / 5)
        bias = model.constant("bias", rng.standard_normal(channels).astype(np.float32))
        (a,) = model.add("conv2d", [y, filter, bias], {"padding": "same"})
        (y,) = model.add("add", [a, *model.add("tanh", [a])])
    (y,) = model.add("max_pool2d", [y], {"size": (9, 9)})
    model.output(*model.add("softmax", [y]))
    return model


def test_memory_is_halved_and_answers_are_nearly_the_same(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped_off(monkeypatch)  # float32 needs less memory if operations are appended, which float16 never is
    model = residual_model()
    x = np.random.default_rng(4).standard_normal((1, 9, 9, 3)).astype(np.float32)
    answers, stats = [], []
    for backend, relaxed in ((gpu, False), (gpu, True), ("cpu", True)):
        with model.compile(backend, relaxed=relaxed) as made:
            answers.append(np.asarray(made(x)))
            stats.append(made.stats)
    exact, half, _ = stats
    # The biases stay float32, and so do the input and the few scores.
    assert half.resident_bytes < 0.6 * exact.resident_bytes
    assert half.arena_bytes < 0.6 * exact.arena_bytes
    # Scores are below 10; six tensors and two filters are rounded to 2^-11 on the way, and a number of
    # a softmax moves by at most half of what the scores move.
    assert np.abs(answers[1] - answers[0]).max() <= 10 * 8 * 2.0**-11 / 2
    # Two backends round alike but where their float32 sums lie on two sides of a tie: one tensor's worth.
    assert np.abs(answers[1] - answers[2]).max() <= 10 * 2 * 2.0**-11 / 2
    assert np.abs(answers[1] - answers[0]).max() > 1e-6


def test_mobilenet_names_the_same_five_classes_in_half_the_memory(gpu: str) -> None:
    entry = manifest()["mobilenet_v1_1.0_224"]
    model = gpunn.load(shared(f"models/{entry['file']}"))
    stored = np.load(shared(f"models/{entry['expected']}"))
    with model.compile(gpu) as exact, model.compile(gpu, relaxed=True) as half:
        for name in ("resident_bytes", "arena_bytes"):
            assert getattr(half.stats, name) < 0.51 * getattr(exact.stats, name)
        for key, reference in entry["reference"].items():
            scores: Array = np.asarray(half(model_input(entry, key, stored))).reshape(-1)
            found = np.argsort(-scores, kind="stable")[: len(reference)]
            assert found.tolist() == [row[0] for row in reference], key


def test_a_relaxed_nnapi_model_is_compiled_so(backend: str) -> None:
    for relaxed, expected in ((False, -2049), (True, -2050)):
        model = gpunn.nnapi.Model()
        x, a, y = (model.add_operand(tensor(1)) for _ in range(3))
        model.add_operation(gpunn.nnapi.OperationCode.RELU, [x], [a])
        rest = [add_constant(model, value) for value in (np.float32([-4098]), 0)]
        model.add_operation(gpunn.nnapi.OperationCode.ADD, [a, *rest], [y])
        model.identify_inputs_and_outputs([x], [y])
        model.relax_computation_float32_to_float16(relaxed)
        model.finish()
        with compiled(model, backend) as compilation:
            out = np.zeros(1, np.float32)
            assert run(compilation, np.float32([2049]), out=out).tolist() == [expected]


def test_parts_of_a_float32_input_are_rounded(gpu: str) -> None:
    """An input keeps its type, so parts of it are copied as float16."""
    model = Model()
    x = model.input("x", float32(4, 16))
    left, right = model.add("split", [x], {"axis": 1, "sizes": (8, 8)})
    model.output(*model.add("neg", [left]), *model.add("softmax", [right]))
    values = np.random.default_rng(0).integers(-4, 5, (4, 16)).astype(np.float32)
    with model.compile(gpu, relaxed=True) as relaxed, model.compile("cpu", relaxed=True) as host:
        for found, expected in zip(relaxed(values), host(values), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-6)
