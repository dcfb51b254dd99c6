"""Recurrent ops: a step of RNN and SVDF, and the recurrence of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import Array, DType, Quantization, TensorType
from tests.ops.harness import ATOL, EPS, check, model_of, random
from tests.ops.integer_checks import check_integer
from tests.ops.nnapi_cases import FUSED, check_cases
from tests.ops.quantized import quantized, stored

ACTIVATIONS = (None, "relu", "relu1", "relu6", "tanh", "logistic")  # none is steeper than 1

# Batch, features, units: a cooperative group is one invocation or 64 of them.
RNNS = ((1, 1, 1), (2, 8, 16), (3, 5, 7), (2, 70, 3), (1, 3, 130), (5, 64, 65), (0, 4, 3), (2, 0, 3))


def rnn_operands(batch: int, depth: int, units: int) -> list[Array]:
    shapes = ((batch, depth), (units, depth), (units, units), (units,), (batch, units))
    return [random(seed, *shape, low=-1, high=1) for seed, shape in enumerate(shapes)]


def rounding(*products: tuple[Array, Array]) -> Array:
    """Return how far sums of products may be off: n eps sum(|a b|) for all their n terms, row by row."""
    terms = sum(a.shape[-1] for a, _ in products) + 1
    return np.asarray(terms * EPS * sum(np.abs(a) @ np.abs(b).T for a, b in products))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_rnn(activation: str | None, backend: str) -> None:
    for sizes in RNNS:
        x, w, r, bias, h = rnn_operands(*sizes)
        allowed = ATOL + rounding((x, w), (h, r))
        attrs = {"activation": activation}
        state, y = check("rnn", [x, w, r, bias, h], attrs, backend=backend, atol=allowed)
        np.testing.assert_array_equal(state, y)


def test_rnn_of_generated_shapes(backend: str) -> None:
    generator = np.random.default_rng(5)
    for _ in range(15):
        x, w, r, bias, h = rnn_operands(*(int(n) for n in generator.integers(1, 80, 3)))
        check("rnn", [x, w, r, bias, h], backend=backend, atol=ATOL + rounding((x, w), (h, r)))


def test_rnn_by_hand(backend: str) -> None:
    operands = [np.array(v, np.float32) for v in ([[1, 2]], [[3, -4]], [[0.5]], [0.25], [[-2]])]
    for activation, expected in ((None, -5.75), ("relu", 0.0), ("relu1", -1.0)):
        state, y = check("rnn", operands, {"activation": activation}, backend=backend)
        assert y.tolist() == state.tolist() == [[expected]]


def test_rnn_keeps_its_state_on_the_device(gpu: str) -> None:
    """Three steps in one model equal three runs of one step, with weights as constants or as inputs."""
    x, *weights, h = rnn_operands(2, 5, 7)
    attrs = {"activation": "tanh"}
    model = model_of("rnn", [x, *weights, h], attrs, constants=(1, 2, 3))
    operand, (state, _) = model.inputs[0], model.operations[0].outputs
    constants = model.operations[0].inputs[1:4]
    for _ in range(2):
        state, y = model.add("rnn", [operand, *constants, state], attrs)
    model.output(y)
    with model.compile(backend=gpu) as compilation:
        assert {p.backend for p in compilation.placement} == {"webgpu"}
        (*_, found) = compilation(x, h)
    with model_of("rnn", [x, *weights, h], attrs).compile(backend=gpu) as step:
        for _ in range(3):
            h, _ = step(x, *weights, h)
    np.testing.assert_array_equal(found, h)


# Batch, features, units, rank, memory.
SVDFS = (
    (1, 1, 1, 1, 1),
    (2, 3, 4, 1, 10),
    (3, 5, 2, 2, 4),
    (2, 70, 3, 3, 7),
    (1, 4, 65, 1, 130),
    (0, 3, 2, 1, 4),
)


def svdf_operands(batch: int, depth: int, units: int, rank: int, memory: int) -> list[Array | None]:
    filters = units * rank
    shapes = ((batch, depth), (filters, depth), (filters, memory), (units,), (batch, filters * memory))
    return [random(seed, *shape, low=-1, high=1) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_svdf(activation: str | None, backend: str) -> None:
    for sizes in SVDFS:
        (batch, depth, units, rank, memory) = sizes
        operands = svdf_operands(*sizes)
        x, feature, time, _, state = (np.zeros(0) if o is None else o for o in operands)
        newest = np.abs(x) @ np.abs(feature).T
        kept = np.abs(state.reshape(batch, units * rank, memory)) * np.abs(time)
        # The newest entry is a sum itself; its weight scales the error that it passes on.
        size = kept.sum(2) + newest * np.abs(time).max(initial=1)
        allowed = (rank * memory + depth + 1) * EPS * size.reshape(batch, units, rank).sum(2)
        attrs = {"rank": rank, "activation": activation}
        for bias in (operands[3], None):
            inputs = [*operands[:3], bias, operands[4]]
            # One bound for both results: the larger one, which the state's newest entry needs too.
            bound = ATOL + float(allowed.max(initial=0.0))
            moved, _ = check("svdf", inputs, attrs, backend=backend, atol=bound)
            moved = moved.reshape(batch, units * rank, memory)
            old = state.reshape(moved.shape)
            np.testing.assert_array_equal(moved[:, :, : memory - 2], old[:, :, 1 : memory - 1])
            assert not moved[:, :, -1].any()


def test_svdf_by_hand(backend: str) -> None:
    """Two units of rank 1 that remember three entries; the value at the newest place must not count."""
    x, feature = [[2.0]], [[1.0], [-1.0]]
    time = [[1.0, 10.0, 100.0], [1.0, 1.0, 1.0]]
    state = [[1.0, 2.0, 99.0, 3.0, 4.0, 99.0]]
    operands = [np.array(v, np.float32) for v in (x, feature, time, [0.5, 0.0], state)]
    moved, y = check("svdf", operands, {"rank": 1}, backend=backend)
    assert y.tolist() == [[1 + 20 + 200 + 0.5, 3 + 4 - 2]]
    assert moved.tolist() == [[2, 2, 0, 4, -2, 0]]


STATES = {
    "int16": (quantized(DType.INT16, (1,), 2e-5), quantized(DType.INT16, (1,), 0.0005)),
    "int8": (quantized(DType.INT8, (1,), 0.005), quantized(DType.INT8, (1,), 0.1, -9)),
}


def svdf_types(
    sizes: tuple[int, int, int, int, int], kinds: tuple[TensorType, TensorType]
) -> list[TensorType]:
    """Return types of quantised operands; `kinds` are those of the time weights and of the state."""
    batch, depth, units, rank, memory = sizes
    filters = units * rank
    return [
        quantized(DType.INT8, (batch, depth), 0.02, -3),
        quantized(DType.INT8, (filters, depth), 0.01),
        kinds[0].with_shape((filters, memory)),
        TensorType(DType.INT32, (units,)),
        kinds[1].with_shape((batch, filters * memory)),
    ]


@pytest.mark.parametrize("activation", [None, "relu", "relu6"])
@pytest.mark.parametrize("step", [1e-6, 2e-4, 0.05])
@pytest.mark.parametrize("kinds", STATES.values(), ids=STATES)
def test_integer_svdf(
    kinds: tuple[TensorType, TensorType], step: float, activation: str | None, backend: str
) -> None:
    """Many, some or none of the results are clamped; sums of extremes wrap around."""
    for seed, sizes in enumerate(SVDFS):
        types = svdf_types(sizes, kinds)
        inputs = [stored(seed + k, t) for k, t in enumerate(types)]
        if seed % 2:
            inputs = [
                np.full_like(v, LIMITS[t.dtype][seed // 2 % 2]) for v, t in zip(inputs, types, strict=True)
            ]
        y = Quantization((float(np.float32(step)),), (5,))
        attrs = {"rank": sizes[3], "activation": activation}
        for bias in (inputs[3], None):
            with_bias = [*inputs[:3], bias, inputs[4]]
            check_integer("svdf", with_bias, types, attrs, [types[4].quantization, y], backend=backend)


def test_integer_svdf_with_a_state_of_int8_by_hand(backend: str) -> None:
    """All factors are 1. Entries are sums plus the state's zero point 7, within int8: 127, 7 - 60 = -53."""
    types = [
        quantized(DType.INT8, (1, 2), 0.5, 2),
        quantized(DType.INT8, (2, 2), 0.5),
        quantized(DType.INT8, (2, 3), 0.5),
        TensorType(DType.INT32, (2,)),
        quantized(DType.INT8, (1, 6), 0.25, 7),
    ]
    weights = [[10, -10], [-2, 4]], [[1, 2, -1], [3, 1, 1]]
    values = ([[12, -8]], *weights, [5, -20], [[8, 6, 99, 127, -128, 99]])
    inputs = [np.array(v, t.dtype.numpy) for v, t in zip(values, types, strict=True)]
    y = Quantization((0.125,), (-3,))
    moved, result = check_integer(
        "svdf", inputs, types, {"rank": 1}, [types[4].quantization, y], backend=backend
    )
    assert moved.tolist() == [[6, 127, 7, -128, -53, 7]]
    sums = [1 * 1 + 2 * -1 - 1 * 120 + 5, 3 * 120 - 135 - 60 - 20]
    assert result.tolist() == [[sums[0] - 3, 127]]
    assert sums[1] - 3 > 127


# Batch, steps, units: one invocation for each unit, or for several units.
RECURRENCES = ((1, 1, 1), (2, 5, 7), (3, 4, 64), (1, 6, 300), (2, 2, 1021), (0, 3, 2), (2, 0, 3))


def recurrence_operands(batch: int, steps: int, units: int) -> list[Array]:
    """Return operands with weights so small that errors of the state shrink from step to step."""
    x, h = (
        random(k, *shape, low=-1, high=1) for k, shape in enumerate(((batch, steps, units), (batch, units)))
    )
    return [x, random(2, units, units, low=-1 / max(units, 1), high=1 / max(units, 1)), h]


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_recurrence(activation: str | None, hardware: str) -> None:
    for sizes in RECURRENCES:
        x, r, h = recurrence_operands(*sizes)
        for time_major in (False, True):
            for reverse in (False, True):
                operands = [x.swapaxes(0, 1).copy() if time_major else x, r, h]
                attrs = {"activation": activation, "time_major": time_major, "reverse": reverse}
                # A state of up to 2 or so: its products are sums of numbers up to 2 / units.
                state, y = check("recurrence", operands, attrs, backend=hardware, constants=(1,))
                if sizes[1]:
                    steps = y if time_major else y.swapaxes(0, 1)
                    np.testing.assert_array_equal(state, steps[0 if reverse else -1])
                else:
                    np.testing.assert_array_equal(state, h)


def test_recurrence_by_hand(backend: str) -> None:
    """Each step adds its input to twice the state: 1, 3, 7; in reverse order 2, 5, 20."""
    x, r, h = (np.array(v, np.float32) for v in ([[[1], [1], [1]], [[10], [1], [2]]], [[2]], [[0], [0]]))
    state, y = check("recurrence", [x, r, h], backend=backend, constants=(1,))
    assert (y[0, :, 0].tolist(), state[:, 0].tolist()) == ([1, 3, 7], [7, 44])
    state, y = check("recurrence", [x, r, h], {"reverse": True}, backend=backend, constants=(1,))
    assert (y[1, :, 0].tolist(), state[:, 0].tolist()) == ([20, 5, 2], [7, 20])


def test_large_states_and_computed_weights_run_on_the_host(gpu: str) -> None:
    x, r, h = (np.zeros(shape, np.float32) for shape in ((1, 2, 1025), (1025, 1025), (1, 1025)))
    host = "a state of 1025 units is over the 1024"
    check("recurrence", [x, r, h], backend=gpu, constants=(1,), host=host)
    check("recurrence", recurrence_operands(2, 3, 4), backend=gpu, host="the weights are no constant")


def test_conformance(backend: str) -> None:
    def rnn(*operands: Array | None) -> Any:
        return operands[:5], {"activation": FUSED[_number(operands[5])]}

    def svdf(*operands: Array | None) -> Any:
        rank, activation = map(_number, operands[5:])
        return operands[:5], {"rank": rank, "activation": FUSED[activation]}

    check_cases("RNN", "rnn", rnn, backend)
    check_cases("SVDF", "svdf", svdf, backend)


def _number(operand: Array | None) -> int:
    assert operand is not None
    return int(operand)


RNN = rnn_operands(2, 3, 4)
SVDF = svdf_operands(2, 3, 4, 2, 5)
RECURRENCE = recurrence_operands(2, 3, 4)


def changed(operands: Sequence[Array | None], index: int, value: Array | None) -> list[Array | None]:
    """Return the operands with another one at `index`."""
    return [*operands[:index], value, *operands[index + 1 :]]


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "message"),
    [
        ("rnn", changed(RNN, 0, RNN[0][0]), {}, "input 0 must have rank 2"),
        ("rnn", changed(RNN, 1, RNN[1][:, :2]), {}, r"input 1 \(w\) must have shape \[4, 3\], got \[4, 2\]"),
        ("rnn", changed(RNN, 2, RNN[1]), {}, r"input 2 \(r\) must have shape \[4, 4\]"),
        ("rnn", changed(RNN, 3, RNN[3][:2]), {}, r"input 3 \(bias\) must have shape \[4\]"),
        ("rnn", changed(RNN, 4, RNN[4][:1]), {}, r"input 4 \(h\) must have shape \[2, 4\]"),
        ("rnn", changed(RNN, 3, None), {}, "input 3 must not be absent"),
        ("rnn", changed(RNN, 1, RNN[1].astype(np.float16)), {}, "input 1 must be float32, got float16"),
        ("rnn", [r.astype(np.int32) for r in RNN], {}, "input 0 must be float32 or float16"),
        ("rnn", RNN, {"activation": "gelu"}, "activation must be one of .*, got 'gelu'"),
        ("svdf", SVDF, {}, "needs attribute rank"),
        ("svdf", SVDF, {"rank": 0}, "rank must be >= 1, got 0"),
        ("svdf", SVDF, {"rank": 3}, "divisible by rank 3, got 8"),
        ("svdf", SVDF, {"rank": 4}, r"input 3 \(bias\) must have shape \[2\], got \[4\]"),
        ("svdf", SVDF[:4], {"rank": 2}, r"input 4 \(state\) must not be absent"),
        ("svdf", changed(SVDF, 2, None), {"rank": 2}, r"input 2 \(weights_time\) must not be absent"),
        (
            "svdf",
            changed(SVDF, 4, SVDF[0]),
            {"rank": 2},
            r"\(state\) must have shape \[2, 40\], got \[2, 3\]",
        ),
        ("svdf", changed(SVDF, 2, np.zeros((8, 0), np.float32)), {"rank": 2}, "a memory of 1 or more"),
        ("recurrence", changed(RECURRENCE, 0, RECURRENCE[2]), {}, "input 0 must have rank 3"),
        ("recurrence", changed(RECURRENCE, 1, RECURRENCE[2]), {}, r"input 1 \(r\) must have shape \[4, 4\]"),
        ("recurrence", RECURRENCE, {"time_major": True}, r"input 2 \(h\) must have shape \[3, 4\]"),
        ("recurrence", RECURRENCE, {"time_major": 1}, "time_major must be True or False, got 1"),
        ("recurrence", RECURRENCE, {"reverse": "no"}, "reverse must be True or False, got 'no'"),
        ("recurrence", RECURRENCE, {"activation": "gelu"}, "activation must be one of"),
    ],
)
def test_errors(op: str, operands: list[Array | None], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: .*{message}"):
        model_of(op, operands, attrs)


def test_references_keep_dtype() -> None:
    for dtype in (np.float32, np.float64):
        for op, operands, attrs in (
            ("rnn", RNN, {}),
            ("svdf", SVDF, {"rank": 2}),
            ("recurrence", RECURRENCE, {}),
        ):
            operation = model_of(op, operands, attrs).operations[0]
            cast = [None if o is None else o.astype(dtype) for o in operands]
            assert {y.dtype for y in operation.evaluate(cast)} == {np.dtype(dtype)}
