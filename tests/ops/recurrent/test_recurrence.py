"""Recurrences of GRU and LSTM over the products of a sequence; activations and clips of all recurrences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.comparison.sides import Arithmetic
from gpunn.comparison.tolerance import bounds
from gpunn.errors import ModelError
from gpunn.graph.exact import evaluate
from gpunn.types import Array
from tests.ops.harness import assert_close, check, limit_device, model_of, random
from tests.ops.recurrent.slow import (
    ACTIVATIONS,
    gated_operands,
    gru_operands,
    slow_gru,
    slow_gru_reset_after,
    slow_lstm,
)
from tests.ops.recurrent.test_lstm import lstm_operands, sequence_operands
from tests.ops.recurrent.test_rnn import changed, recurrence_operands

# Batch, steps, units: no multiples of 4, one invocation for a column or several, two rounds of columns.
SIZES = ((1, 1, 1), (2, 5, 7), (3, 4, 64), (1, 6, 130), (2, 2, 301), (0, 3, 2), (2, 0, 3))


@pytest.mark.sample(2)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
def test_gru(time_major: bool, reverse: bool, hardware: str) -> None:
    for sizes in SIZES:
        x, r, h = gru_operands(*sizes)
        given = [x.swapaxes(0, 1).copy() if time_major else x, r, h]
        attrs = {"time_major": time_major, "reverse": reverse}
        state, y = check("gru_recurrence", given, attrs, backend=hardware, constants=(1,))
        last, steps = slow_gru([x, r, h], ("logistic", "tanh"), reverse=reverse)
        assert_close(state, last)
        assert_close(y.swapaxes(0, 1) if time_major else y, steps)


@pytest.mark.sample(2)
@pytest.mark.parametrize("first", ACTIVATIONS, ids=str)
def test_gru_activations_and_clip(first: Any, hardware: str) -> None:
    """Each activation three times in each place, every second time with a clip."""
    place = [*ACTIVATIONS].index(first)
    for k, second in enumerate(([*ACTIVATIONS] * 2)[place : place + 3], place):
        operands, clip = gru_operands(2, 3, 5), (0.0, 0.3)[k % 2]
        attrs = {"activations": (first, second), "clip": clip}
        state, y = check("gru_recurrence", operands, attrs, backend=hardware, constants=(1,))
        last, steps = slow_gru(operands, (first, second), clip)
        assert_close(state, last)
        assert_close(y, steps)


def test_gru_by_hand(hardware: str) -> None:
    """Gates without activation: update is 0.5, reset is 2 h, and the candidate is 1 + 3 (2 h) h."""
    operands = [np.array(v, np.float32) for v in ([[[0.5, 0, 1]] * 2], [[0], [2], [3]], [[1]])]
    attrs = {"activations": (None, None)}
    state, y = check("gru_recurrence", operands, attrs, backend=hardware, constants=(1,))
    assert y[0, :, 0].tolist() == [4.0, 0.5 * (1 + 6 * 16) + 0.5 * 4]
    assert state.tolist() == [[50.5]]
    attrs = {**attrs, "clip": 2.0}
    state, y = check("gru_recurrence", operands, attrs, backend=hardware, constants=(1,))
    assert y[0, :, 0].tolist() == [1.5, 0.5 * 2 + 0.5 * 1.5]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
def test_gru_with_the_reset_behind_the_product(
    time_major: bool, reverse: bool, biased: bool, hardware: str
) -> None:
    for sizes in SIZES:
        x, r, h = gru_operands(*sizes)
        bias = random(9, sizes[2], low=-0.5, high=0.5) if biased else None
        given = [x.swapaxes(0, 1).copy() if time_major else x, r, h, bias]
        attrs = {"time_major": time_major, "reverse": reverse}
        state, y = check("gru_reset_after", given, attrs, backend=hardware, constants=(1,))
        last, steps = slow_gru_reset_after([x, r, h], bias, reverse)
        assert_close(state, last)
        assert_close(y.swapaxes(0, 1) if time_major else y, steps)


def test_gru_with_the_reset_behind_the_product_by_hand(hardware: str) -> None:
    """Gates without activation: reset is 2 h, update is 0.5, and the candidate is 1 + 2 h (3 h + 4)."""
    operands = [np.array(v, np.float32) for v in ([[[0, 0.5, 1]] * 2], [[2], [0], [3]], [[1]], [4])]
    attrs = {"activations": (None, None)}
    state, y = check("gru_reset_after", operands, attrs, backend=hardware, constants=(1,))
    first = 0.5 * (1 + 2 * 7) + 0.5
    assert y[0, :, 0].tolist() == [first, 0.5 * (1 + 2 * first * (3 * first + 4)) + 0.5 * first]
    assert state.tolist() == [[y[0, 1, 0]]]


@pytest.mark.sample(2)
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("seeing", [False, True])
def test_lstm(coupled: bool, seeing: bool, hardware: str) -> None:
    activations = (("hard_sigmoid", 0.2, 0.5), "tanh", "tanh")
    for sizes in SIZES:
        operands = gated_operands(*sizes, gates=3 if coupled else 4)
        count = (2 if coupled else 3) * sizes[2]
        peepholes = random(9, count, low=-0.1, high=0.1) if seeing else None
        for clip, cell_clip in ((0.0, 0.0), (0.7, 0.2)):
            attrs = {"coupled": coupled, "clip": clip, "cell_clip": cell_clip}
            full = [*operands, peepholes]
            found = check(
                "lstm_recurrence",
                full,
                {"activations": activations, **attrs},
                backend=hardware,
                constants=(1, 4),
            )
            for result, expected in zip(
                found, slow_lstm(operands, peepholes, activations, **attrs), strict=True
            ):
                assert_close(result, expected)


@pytest.mark.sample(4)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize(("clip", "cell_clip"), [(0.0, 0.0), (50.0, 500.0), (0.0, 0.2), (20.0, 3.0)])
def test_lstm_with_the_usual_gates(
    clip: float, cell_clip: float, time_major: bool, reverse: bool, hardware: str
) -> None:
    """The host prepares these, also those that are clipped as in Core ML."""
    for sizes in SIZES:
        x, r, h, c = gated_operands(*sizes)
        x = x * np.float32(30 if clip else 1)
        given = [x.swapaxes(0, 1).copy() if time_major else x, r, h, c]
        clips = {"clip": clip, "cell_clip": cell_clip}
        attrs = {"time_major": time_major, "reverse": reverse, **clips}
        state, cell, y = check("lstm_recurrence", given, attrs, backend=hardware, constants=(1,))
        turned = x[:, ::-1] if reverse else x
        last, cells, steps = slow_lstm([turned, r, h, c], None, ("logistic", "tanh", "tanh"), **clips)
        assert_close(state, last)
        assert_close(cell, cells)
        assert_close(y.swapaxes(0, 1) if time_major else y, steps[:, ::-1] if reverse else steps)


@pytest.mark.sample(2)
@pytest.mark.parametrize("outer", ACTIVATIONS, ids=str)
def test_lstm_activations(outer: Any, hardware: str) -> None:
    """Each of them three times in each place, with all gates."""
    gates, place = ("logistic", "tanh", ("scaled_tanh", 1.7159, 2 / 3)), [*ACTIVATIONS].index(outer)
    for k, inner in enumerate(([*ACTIVATIONS] * 2)[place : place + 3]):
        operands, activations = gated_operands(2, 3, 5), (gates[k % 3], inner, outer)
        attrs = {"activations": activations}
        found = check("lstm_recurrence", operands, attrs, backend=hardware, constants=(1,))
        for result, expected in zip(found, slow_lstm(operands, None, activations), strict=True):
            assert_close(result, expected)


def test_lstm_by_hand(hardware: str) -> None:
    """Gates without activation, old cell state 2: each gate's peephole reads the right cell state."""
    x, r, peepholes = [[[1, 2, 3, 4]]], [[0], [0], [0], [0]], [10, 20, 30]
    operands = [np.array(v, np.float32) for v in (x, r, [[5]], [[2]], peepholes)]
    attrs = {"activations": (None, None, None)}
    h, c, y = check("lstm_recurrence", operands, attrs, backend=hardware, constants=(1, 4))
    assert c.tolist() == [[(2 + 20 * 2) * 2 + (1 + 10 * 2) * 3]]
    assert h.tolist() == [[(4 + 30 * 147) * 147]] == y[0].tolist()
    x, r = [[[1, 3, 4]]], [[0], [2], [0]]
    operands = [np.array(v, np.float32) for v in (x, r, [[5]], [[2]], [10, 30])]
    attrs |= {"coupled": True, "cell_clip": 230.0}
    h, c, _ = check("lstm_recurrence", operands, attrs, backend=hardware, constants=(1, 4))
    assert (1 - 21) * 2 + 21 * (3 + 2 * 5) == 233  # the state before it is clipped
    assert (c.tolist(), h.tolist()) == ([[230]], [[(4 + 30 * 230) * 230]])


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_agrees_with_the_lstm_of_nnapi(time_major: bool, reverse: bool, hardware: str) -> None:
    """That op is another implementation, compared with NNAPI's examples and with LiteRT."""
    full = sequence_operands(lstm_operands(2, 3, 4, peephole=True), 5)
    attrs = {"time_major": time_major, "reverse": reverse}
    if time_major:
        full = changed(full, 0, np.ascontiguousarray(full[0].swapaxes(0, 1)))  # type: ignore[union-attr]
    (operation,) = model_of("lstm", full, {**attrs, "cell_clip": 0.4}).operations
    _, *expected = operation.evaluate([None if o is None else o.astype(np.float64) for o in full])
    x, *weights = (o for o in full if o is not None)
    sums = x @ np.concatenate(weights[:4]).T + np.concatenate(weights[11:15])
    operands = [sums, np.concatenate(weights[4:8]), *weights[15:17], np.concatenate(weights[8:11])]
    attrs["cell_clip"] = 0.4
    found = check("lstm_recurrence", operands, attrs, backend=hardware, constants=(1, 4))
    for result, wanted in zip(found, expected, strict=True):
        assert_close(result, wanted)


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_a_recurrence_takes_all_activations(activation: Any, hardware: str) -> None:
    x, r, h = recurrence_operands(2, 4, 7)
    for clip in (0.0, 0.5):
        attrs = {"activation": activation, "clip": clip}
        state, y = check("recurrence", [x, r, h], attrs, backend=hardware, constants=(1,))
        expected = h.astype(np.float64)
        for t in range(4):
            sums = np.clip(x[:, t] + expected @ r.T, -clip or -np.inf, clip or np.inf)
            expected = np.vectorize(ACTIVATIONS[activation])(sums)
            assert_close(y[:, t], expected)
        assert_close(state, expected)


def test_nan_stays_nan(hardware: str) -> None:
    """Clips and activations keep NaN."""
    for activation in ACTIVATIONS:
        x = np.full((1, 1, 1), np.nan, np.float32)
        one = np.ones((1, 1), np.float32)
        attrs = {"activation": activation, "clip": 50.0}
        state, _ = check("recurrence", [x, one, one], attrs, backend=hardware, constants=(1,))
        assert np.isnan(state).all()


@pytest.mark.parametrize("op", ["gru_recurrence", "lstm_recurrence"])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_sequences(op: str, reverse: bool, hardware: str) -> None:
    """A sequence of more steps than one invocation may take is several dispatches; all numbers are whole.

    The gates are 0 or 1, so that a step moves the state on by one unit and adds whole numbers to it.
    """
    values = [0, 1, None] if op == "gru_recurrence" else [1, 0, None, 1]
    shape = (2, 6000, 5)
    whole = np.random.default_rng(0).integers(-1, 2, shape)
    x = np.concatenate([whole if v is None else np.full(shape, v) for v in values], axis=2)
    turn = np.roll(np.eye(5), 1, axis=0)
    r = np.concatenate([turn if v is None else np.zeros((5, 5)) for v in values])
    operands = [v.astype(np.float32) for v in (x, r, *[np.ones((2, 5))] * (len(values) - 2))]
    attrs: dict[str, Any] = {"activations": (None,) * (len(values) - 1), "reverse": reverse}
    *_, y = check(op, operands, attrs, backend=hardware, constants=(1,), atol=0, rtol=0)
    h = np.ones((2, 5))
    for t in reversed(range(6000)) if reverse else range(6000):
        h = whole[:, t] + h @ turn.T
        np.testing.assert_array_equal(y[:, t], h)


def test_float16_is_stored_and_computed_in_float32(hardware: str) -> None:
    for op, operands in (
        ("gru_recurrence", gru_operands(2, 4, 6)),
        ("lstm_recurrence", gated_operands(2, 4, 6)),
    ):
        halves = [o.astype(np.float16) for o in operands]
        found = check(op, halves, backend=hardware, constants=(1,), atol=2e-5, rtol=2.0**-10)
        assert {y.dtype for y in found} == {np.dtype(np.float16)}


@pytest.mark.parametrize(("op", "gates"), [("gru_recurrence", 3), ("lstm_recurrence", 4)])
def test_long_sums_are_within_the_stated_accuracy(op: str, gates: int, hardware: str) -> None:
    """With weights as in trained models: products are about as large as the inputs."""
    for units in (16, 100):
        shapes = (2, 30, gates * units), (gates * units, units), *[(2, units)] * (gates - 2)
        operands = [np.random.default_rng(k).normal(size=s).astype(np.float32) for k, s in enumerate(shapes)]
        operands[1] /= math.sqrt(units)
        model = model_of(op, operands, {}, (1,))
        (operation,) = model.operations
        reals = {o: v.astype(np.float64) for o, v in zip(operation.inputs, operands, strict=True) if o}
        expected = evaluate(operation, reals)
        allowed = bounds(operation, reals, expected, Arithmetic.FLOAT32)
        with model.compile(hardware) as compiled:
            found = compiled(operands[0], *operands[2:])
        for result, wanted, bound in zip(found, expected, allowed, strict=True):
            assert (np.abs(result - wanted) <= bound.limit).all()
            assert float(bound.limit.max()) < 0.1  # small beside results up to 1


@pytest.mark.parametrize(
    ("op", "gates"),
    [("lstm_recurrence", 4), ("gru_recurrence", 3), ("gru_reset_after", 3), ("recurrence", 1)],
)
def test_software_leaves_large_states_to_numpy(
    op: str, gates: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has small workgroups."""
    limit_device(monkeypatch, software=True)
    for units in (1, 5, 64, 65):
        shapes = (2, 3, gates * units), (gates * units, units), *[(2, units)] * (2 if gates == 4 else 1)
        operands = [random(k, *shape, low=-0.5, high=0.5) for k, shape in enumerate(shapes)]
        attrs = {"activation": "tanh"} if gates == 1 else {}
        large = "a state of 65 units, for which a device that is software takes longer"
        check(op, operands, attrs, backend=gpu, constants=(1,), host=large if units > 64 else "")


def test_references_keep_dtype() -> None:
    for dtype in (np.float32, np.float64):
        for op, operands in (("gru_recurrence", GRU), ("lstm_recurrence", LSTM)):
            operation = model_of(op, operands, {}).operations[0]
            found = operation.evaluate([o.astype(dtype) for o in operands])
            assert {y.dtype for y in found} == {np.dtype(dtype)}


RNN, GRU, LSTM = recurrence_operands(2, 3, 4), gru_operands(2, 3, 4), gated_operands(2, 3, 4)
GATES = ("logistic", "tanh")


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "message"),
    [
        ("gru", changed(GRU, 0, GRU[2]), {}, "input 0 must have rank 3"),
        (
            "gru",
            changed(GRU, 0, LSTM[0]),
            {},
            r"input 0 \(x\) must have 12 sums for 4 units, got \[2, 3, 16\]",
        ),
        ("gru", changed(GRU, 1, LSTM[1]), {}, r"input 1 \(r\) must have shape \[12, 4\], got \[16, 4\]"),
        ("gru", changed(GRU, 2, GRU[2][:1]), {}, r"input 2 \(h\) must have shape \[2, 4\]"),
        ("gru", changed(GRU, 2, GRU[2].astype(np.float16)), {}, "input 2 must be float32, got float16"),
        ("gru", GRU, {"activations": ("logistic",)}, "activations must have 2 entries"),
        ("gru", GRU, {"activations": "tanh"}, "activations must be a sequence"),
        ("gru", GRU, {"activations": ("logistic", "gelu")}, "activations must be one of .* got 'gelu'"),
        (
            "gru",
            GRU,
            {"activations": ("tanh", ("affine", 1.0))},
            "affine, hard_sigmoid, scaled_tanh with two",
        ),
        ("gru", GRU, {"activations": ("tanh", ("elu", 1.0, 1.0))}, "got .'elu', 1.0, 1.0"),
        ("gru", GRU, {"activations": ("tanh", ("affine", math.nan, 1.0))}, "with two numbers"),
        ("gru", GRU, {"clip": -1.0}, "clip must be >= 0, got -1.0"),
        ("gru", GRU, {"time_major": 1}, "time_major must be True or False"),
        ("lstm", changed(LSTM, 0, GRU[0]), {}, "must have 16 sums for 4 units"),
        ("lstm", LSTM, {"coupled": True}, r"input 1 \(r\) must have shape \[12, 4\]"),
        ("lstm", LSTM, {"coupled": 0}, "coupled must be True or False"),
        ("lstm", changed(LSTM, 3, LSTM[3][:, 1:]), {}, r"input 3 \(c\) must have shape \[2, 4\]"),
        ("lstm", [*LSTM, np.zeros(8, np.float32)], {}, r"\(peepholes\) must have shape \[12\], got \[8\]"),
        ("lstm", LSTM, {"activations": GATES}, "activations must have 3 entries"),
        ("lstm", LSTM, {"cell_clip": math.nan}, "cell_clip must be >= 0, got nan"),
        ("lstm", LSTM[:3], {}, r"takes inputs \(x, r, h, c, peepholes\), got 3"),
    ],
)
def test_errors(op: str, operands: list[Array], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}_recurrence: .*{message}"):
        model_of(f"{op}_recurrence", operands, attrs)


def test_a_wrong_activation_of_a_recurrence_is_refused() -> None:
    with pytest.raises(ModelError, match=r"recurrence: activation must be one of .* got .'affine', 'a', 1"):
        model_of("recurrence", RNN, {"activation": ("affine", "a", 1)})
    with pytest.raises(ModelError, match="recurrence: clip must be >= 0"):
        model_of("recurrence", RNN, {"clip": -0.5})
