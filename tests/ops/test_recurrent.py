"""Recurrent layers: one step each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops import recurrent
from gpunn.types import Array, float32
from tests.ops.harness import ATOL, EPS, assert_close, check, model_of, random, reference
from tests.ops.nnapi_cases import FUSED, check_cases
from tests.tflite_builder import ABSENT, Graph, litert_run

ACTIVATIONS = (None, "relu", "relu1", "relu6", "tanh", "logistic")  # none is steeper than 1

# Batch, features, units: a team is one invocation or 64 of them.
RNNS = ((1, 1, 1), (2, 8, 16), (3, 5, 7), (2, 70, 3), (1, 3, 130), (5, 64, 65), (0, 4, 3), (2, 0, 3))


def rnn_operands(batch: int, depth: int, units: int) -> list[Array]:
    shapes = ((batch, depth), (units, depth), (units, units), (units,), (batch, units))
    return [random(seed, *shape, low=-1, high=1) for seed, shape in enumerate(shapes)]


def rounding(*products: tuple[Array, Array]) -> Array:
    """How far sums of products may be off: n eps sum(|a b|) for all their n terms, row by row."""
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
        # The newest entry is a sum itself, and as much of its error goes on as its weight lets through.
        size = kept.sum(2) + newest * np.abs(time).max(initial=1)
        allowed = (rank * memory + depth + 1) * EPS * size.reshape(batch, units, rank).sum(2)
        attrs = {"rank": rank, "activation": activation}
        for bias in (operands[3], None):
            inputs = [*operands[:3], bias, operands[4]]
            # One bound for both results: the larger, on which the state's newest entry lies too.
            bound = ATOL + float(allowed.max(initial=0.0))
            moved, _ = check("svdf", inputs, attrs, backend=backend, atol=bound)
            moved = moved.reshape(batch, units * rank, memory)
            old = state.reshape(moved.shape)
            np.testing.assert_array_equal(moved[:, :, : memory - 2], old[:, :, 1 : memory - 1])
            assert not moved[:, :, -1].any()


def test_svdf_by_hand(backend: str) -> None:
    """Two units of rank 1 that remember three entries; the newest place holds what must not count."""
    x, feature = [[2.0]], [[1.0], [-1.0]]
    time = [[1.0, 10.0, 100.0], [1.0, 1.0, 1.0]]
    state = [[1.0, 2.0, 99.0, 3.0, 4.0, 99.0]]
    operands = [np.array(v, np.float32) for v in (x, feature, time, [0.5, 0.0], state)]
    moved, y = check("svdf", operands, {"rank": 1}, backend=backend)
    assert y.tolist() == [[1 + 20 + 200 + 0.5, 3 + 4 - 2]]
    assert moved.tolist() == [[2, 2, 0, 4, -2, 0]]


def lstm_operands(
    batch: int,
    depth: int,
    units: int,
    width: int | None = None,
    *,
    cifg: bool = False,
    peephole: bool = False,
) -> list[Array | None]:
    """Random operands; `width`: of the projection, None without."""
    out = width or units
    shapes: list[tuple[int, ...] | None] = [(batch, depth), *[(units, depth)] * 4, *[(units, out)] * 4]
    shapes += [*[(units,) if peephole else None] * 3, *[(units,)] * 4]
    shapes += [(width, units), (width,)] if width else [None, None]
    shapes += [(batch, out), (batch, units)]
    for index in (1, 5, 9, 12):
        shapes[index] = None if cifg else shapes[index]
    return [None if s is None else random(k, *s, low=-1, high=1) for k, s in enumerate(shapes)]


def slow_lstm(operands: Sequence[Array | None], cell_clip: float, proj_clip: float) -> tuple[Array, Array]:
    """Output and cell state by the documented formulas, unit by unit, with tanh."""
    x, wi, wf, wc, wo, ri, rf, rc, ro, pi, pf, po, bi, bf, bc, bo, wp, bp, h, c = (
        None if o is None else o.astype(np.float64) for o in operands
    )
    assert x is not None and h is not None and c is not None

    def total(b: int, u: int, w: Any, r: Any, bias: Any, peephole: Any = None, cell: float = 0) -> float:
        value = sum(w[u, k] * x[b, k] for k in range(x.shape[1])) + bias[u]
        value += sum(r[u, k] * h[b, k] for k in range(h.shape[1]))
        return float(value if peephole is None else value + peephole[u] * cell)

    def sigma(value: float) -> float:
        return float(1 / (1 + np.exp(-value)))

    cells, hidden = np.zeros_like(c), np.zeros_like(c)
    for b, u in np.ndindex(*c.shape):
        f = sigma(total(b, u, wf, rf, bf, pf, c[b, u]))
        i = 1 - f if wi is None else sigma(total(b, u, wi, ri, bi, pi, c[b, u]))
        new = f * c[b, u] + i * np.tanh(total(b, u, wc, rc, bc))
        cells[b, u] = max(-cell_clip, min(cell_clip, new)) if cell_clip else new
        o = sigma(total(b, u, wo, ro, bo, po, cells[b, u]))
        hidden[b, u] = o * np.tanh(cells[b, u])
    if wp is None:
        return hidden, cells
    projected = hidden @ wp.T + (0 if bp is None else bp)
    return (np.clip(projected, -proj_clip, proj_clip) if proj_clip else projected), cells


@pytest.mark.parametrize("cifg", [False, True])
@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("width", [None, 2])
def test_lstm(cifg: bool, peephole: bool, width: int | None, backend: str) -> None:
    for clips in ((0.0, 0.0), (0.3, 0.1)):
        operands = lstm_operands(2, 3, 4, width, cifg=cifg, peephole=peephole)
        attrs = {"activation": "tanh", "cell_clip": clips[0], "proj_clip": clips[1]}
        results = check("lstm", operands, attrs, backend=backend, host="LSTM runs on the numpy backend")
        scratch, state, cell, y = results
        assert scratch.shape == (2, 12 if cifg else 16)
        np.testing.assert_array_equal(state, y)
        hidden, cells = slow_lstm(operands, *clips)
        assert_close(y, hidden)
        assert_close(cell, cells)


@pytest.mark.parametrize("activation", [None, "relu", "relu6", "tanh", "logistic"])
def test_lstm_activations_and_empty_batch(activation: str | None, backend: str) -> None:
    for batch in (0, 3):
        operands = lstm_operands(batch, 5, 3, 2, peephole=True)
        operands[17] = None
        check("lstm", operands, {"activation": activation}, backend=backend, host="LSTM")


def litert_step(operator: str, operands: Sequence[Array | None], options: Mapping[str, Any]) -> Array:
    """LiteRT's last output for one step; its states are variables that start as zeros."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    graph = Graph()
    x = operands[0]
    assert x is not None
    numbers = [graph.input(float32(*x.shape))]
    states = {"RNN": 1, "SVDF": 1, "LSTM": 2}[operator]
    for operand in operands[1:-states]:
        numbers.append(ABSENT if operand is None else graph.constant(operand))
    for state in operands[-states:]:
        assert state is not None
        numbers.append(graph.tensor(float32(*state.shape), is_variable=True))
    width = {"RNN": 1, "SVDF": 3, "LSTM": 18}[operator]
    last = operands[width]
    assert last is not None
    shape = (x.shape[0], last.shape[-1] if operator == "LSTM" else last.shape[0])
    (y,) = litert_run(graph.build(graph.add(operator, numbers, [float32(*shape)], options)), [x])
    return y


def test_agrees_with_litert_from_a_state_of_zeros() -> None:
    operands: list[Array | None]
    for options, name in (({"fusedActivationFunction": "TANH"}, "tanh"), ({}, None)):
        operands = [*rnn_operands(2, 5, 7)[:4], np.zeros((2, 7), np.float32)]
        operation = model_of("rnn", operands, {"activation": name}).operations[0]
        assert_close(litert_step("RNN", operands, options), reference(operation, operands)[1])
        operands = [*svdf_operands(2, 5, 3, 2, 4)[:4], np.zeros((2, 24), np.float32)]
        attrs = {"rank": 2, "activation": None}
        operation = model_of("svdf", operands, attrs).operations[0]
        assert_close(litert_step("SVDF", operands, {"rank": 2}), reference(operation, operands)[1])
    for cifg in (False, True):
        for width in (None, 2):
            operands = lstm_operands(2, 3, 4, width, cifg=cifg, peephole=True)
            operands[18:] = [np.zeros_like(o) for o in operands[18:] if o is not None]
            clips = {"cell_clip": 0.5, "proj_clip": 0.2}
            operation = model_of("lstm", operands, clips).operations[0]
            options = {"fusedActivationFunction": "TANH", "cellClip": 0.5, "projClip": 0.2}
            assert_close(litert_step("LSTM", operands, options), reference(operation, operands)[3])


def test_conformance(backend: str) -> None:
    def rnn(*operands: Array | None) -> Any:
        return operands[:5], {"activation": FUSED[_number(operands[5])]}

    def svdf(*operands: Array | None) -> Any:
        rank, activation = map(_number, operands[5:])
        return operands[:5], {"rank": rank, "activation": FUSED[activation]}

    def lstm(*operands: Array | None) -> Any:
        cell, projection = (float(o) for o in operands[21:] if o is not None)
        attrs = {"cell_clip": cell, "proj_clip": projection}
        return operands[:20], {"activation": FUSED[_number(operands[20])], **attrs}

    check_cases("RNN", "rnn", rnn, backend)
    check_cases("SVDF", "svdf", svdf, backend)
    check_cases("LSTM", "lstm", lstm, backend)


def _number(operand: Array | None) -> int:
    assert operand is not None
    return int(operand)


RNN = rnn_operands(2, 3, 4)
SVDF = svdf_operands(2, 3, 4, 2, 5)


def changed(operands: Sequence[Array | None], index: int, value: Array | None) -> list[Array | None]:
    """The operands with another one at `index`."""
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
    ],
)
def test_errors(op: str, operands: list[Array | None], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: .*{message}"):
        model_of(op, operands, attrs)


FULL = lstm_operands(2, 3, 4, 2, peephole=True)
PLAIN = lstm_operands(2, 3, 4)


@pytest.mark.parametrize("index", recurrent._MANDATORY)
def test_lstm_needs_its_mandatory_operands(index: int) -> None:
    name = recurrent._LSTM[index]
    with pytest.raises(ModelError, match=rf"lstm: input {index} \({name}\) must not be absent"):
        model_of("lstm", changed(FULL, index, None), {})


@pytest.mark.parametrize("index", [k for k in range(1, 20)])
def test_lstm_operands_must_have_their_shapes(index: int) -> None:
    found = FULL[index]
    assert found is not None
    wrong = np.zeros((*found.shape[:-1], found.shape[-1] + 1), np.float32)
    with pytest.raises(ModelError, match=r"lstm: input .* must have shape"):
        model_of("lstm", changed(FULL, index, wrong), {})


@pytest.mark.parametrize(
    ("operands", "attrs", "message"),
    [
        (changed(FULL, 1, None), {}, "input_to_input_weights, .* all there or all absent"),
        (changed(FULL, 5, None), {}, "all there or all absent"),
        (changed(FULL, 12, None), {}, "all there or all absent"),
        (changed(FULL, 9, None), {}, "cell_to_input_weights be there with them"),
        (changed(FULL, 10, None), {}, "both be there or both absent"),
        (changed(PLAIN, 11, FULL[11]), {}, "both be there or both absent"),
        (changed(PLAIN, 9, FULL[9]), {}, "cell_to_input_weights be there with them"),
        (changed(PLAIN, 17, FULL[17]), {}, "projection_bias must be absent where projection_weights are"),
        (PLAIN, {"cell_clip": -1.0}, "cell_clip must be >= 0, got -1.0"),
        (PLAIN, {"proj_clip": float("nan")}, "proj_clip must be >= 0, got nan"),
        (PLAIN, {"activation": "sigmoid"}, "activation must be one of"),
    ],
)
def test_lstm_errors(operands: list[Array | None], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"lstm: .*{message}"):
        model_of("lstm", operands, attrs)


def test_references_keep_dtype() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        for op, operands, attrs in (("rnn", RNN, {}), ("svdf", SVDF, {"rank": 2}), ("lstm", FULL, {})):
            operation = model_of(op, operands, attrs).operations[0]
            cast = [None if o is None else o.astype(dtype) for o in operands]
            assert {y.dtype for y in operation.evaluate(cast)} == {np.dtype(dtype)}
