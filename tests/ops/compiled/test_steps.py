"""The loops of recurrent layers: their errors, and which layers have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.ops import compiled
from gpunn.types import Array
from tests.ops.compiled.plain import STEPS
from tests.ops.harness import assert_close, model_of, reference
from tests.ops.recurrent.slow import gated_operands, gru_operands
from tests.ops.recurrent.test_lstm import lstm_operands, sequence_operands

EPS = 2.0**-23
ORDERS: list[dict[str, Any]] = [{}, {"reverse": True}, {"time_major": True}]
SIZES = [(1, 5, 1), (1, 7, 20), (3, 4, 5), (2, 3, 33)]  # batch, steps, units


def results(op: str, operands: Sequence[Array | None], attrs: dict[str, Any]) -> tuple[Array, ...]:
    """Compute an operation as in many runs: twice, with constants as the second operand and the last ones."""
    constants = [k for k, value in enumerate(operands) if k and value is not None]
    compute = model_of(op, operands, attrs, constants).operations[0].direct()
    assert compute is not None
    first = [np.array(found) for found in compute(*operands)]
    again = compute(*operands)
    for found, before in zip(again, first, strict=True):
        np.testing.assert_array_equal(found, before)
    return tuple(again)


def compare(op: str, operands: Sequence[Array | None], attrs: dict[str, Any]) -> None:
    """Compare an operation with its reference in float64."""
    (operation,) = model_of(op, operands, attrs).operations
    expected = reference(operation, operands)
    for found, exact in zip(results(op, operands, attrs), expected, strict=True):
        assert found.dtype == np.float32 and found.flags.c_contiguous
        assert_close(found, exact)


def turned(operands: Sequence[Array | None], attrs: dict[str, Any]) -> list[Array | None]:
    """Return operands with a sequence in the order of an attribute."""
    x, *others = operands
    assert x is not None
    return [np.ascontiguousarray(x.swapaxes(0, 1)) if attrs.get("time_major") else x, *others]


@pytest.mark.parametrize("clip", [0.0, 0.25])
@pytest.mark.parametrize("attrs", ORDERS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_lstm(size: tuple[int, int, int], attrs: dict[str, Any], clip: float, found: compiled.Loops) -> None:
    batch, steps, units = size
    attrs = {**attrs, "cell_clip": clip}
    compare("lstm_recurrence", turned(gated_operands(batch, steps, units), attrs), attrs)
    compare("lstm", turned(sequence_operands(lstm_operands(batch, 6, units), steps), attrs), attrs)


@pytest.mark.parametrize("attrs", ORDERS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_rnn_and_gru(size: tuple[int, int, int], attrs: dict[str, Any], found: compiled.Loops) -> None:
    compare("gru_recurrence", turned(gru_operands(*size), attrs), attrs)
    x, r, h = gru_operands(*size)
    rows = size[2]
    of_rnn = [np.ascontiguousarray(x[..., :rows]), r[:rows], h]
    compare("recurrence", turned(of_rnn, attrs), {**attrs, "activation": "tanh"})


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("attrs", ORDERS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gru(size: tuple[int, int, int], attrs: dict[str, Any], bias: bool, found: compiled.Loops) -> None:
    batch, steps, units = size
    operands: list[Array | None] = [*gru_operands(batch, steps, units)]
    compare("gru_reset_after", turned([*operands, *([operands[2][0]] if bias else [])], attrs), attrs)


def test_the_hyperbolic_tangent_is_off_by_less_than_three_roundings(found: compiled.Loops) -> None:
    # The input gate is 1, the forget gate 0: so the cell state is that of the cell gate.
    numbers = np.concatenate([np.linspace(-12, 12, 20_001), np.random.default_rng(0).normal(0, 0.1, 20_001)])
    numbers = np.concatenate([numbers, [np.nan, np.inf, -np.inf, 0, 1e-30, -1e-30, 0.625, -0.625, 1e30]])
    cell = numbers.astype(np.float32)[:: 1 if found.steps is not STEPS else 100]
    x = np.stack([np.full_like(cell, 40), np.full_like(cell, -40), cell, cell], axis=1)[None]
    h, c = np.zeros((2, len(cell), 1), np.float32)
    assert found.steps is not None
    memory = np.zeros(4 * found.steps.lanes, np.float32), np.zeros(found.steps.lanes, np.float32)
    y, weights = np.empty((1, len(cell), 1), np.float32), np.zeros((1, 4), np.float32)
    gates, clip = np.empty((len(cell), 4), np.float32), np.float32(np.inf)
    with np.errstate(all="ignore"):
        found.steps.lstm(x, weights, h, c, clip, *memory, gates, y)
        exact = np.tanh(cell.astype(np.float64))
    np.testing.assert_allclose(c[:, 0], exact, rtol=2.5 * EPS, atol=0)


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "asks"),
    [
        ("lstm", sequence_operands(lstm_operands(2, 3, 4), 3), {}, True),
        ("lstm", sequence_operands(lstm_operands(5, 3, 4), 3), {}, False),  # many states
        ("lstm", sequence_operands(lstm_operands(2, 3, 4, peephole=True), 3), {}, False),
        ("lstm", sequence_operands(lstm_operands(2, 3, 4, cifg=True), 3), {}, False),
        ("lstm", sequence_operands(lstm_operands(2, 3, 4, norm=True), 3), {}, False),
        ("lstm", sequence_operands(lstm_operands(2, 3, 4, 2), 3), {}, False),
        ("lstm", sequence_operands(lstm_operands(2, 3, 4), 3), {"activation": "relu"}, False),
        ("lstm", lstm_operands(2, 3, 4), {}, False),  # one step
        ("lstm_recurrence", gated_operands(2, 3, 4), {}, True),
        ("lstm_recurrence", gated_operands(5, 3, 4), {}, False),
        ("lstm_recurrence", gated_operands(1, 1, 257), {}, False),
        ("gru_recurrence", gru_operands(2, 3, 4), {}, True),
        ("gru_recurrence", gru_operands(2, 3, 4), {"clip": 1.0}, False),
        ("gru_reset_after", gru_operands(2, 3, 4), {}, True),
        ("gru_reset_after", gru_operands(5, 3, 4), {}, False),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value),
)
def test_other_layers_are_left_to_numpy(
    op: str, operands: list[Array | None], attrs: dict[str, Any], asks: bool
) -> None:
    asked: list[str] = []

    def counted(name: str) -> Any:
        return lambda *numbers: (asked.append(name), getattr(STEPS, name)(*numbers))

    own = STEPS._replace(**{name: counted(name) for name in ("rnn", "lstm", "gru", "gru_after")})
    with compiled.in_use(compiled.Loops(None, None, own)):
        operation = model_of(op, operands, attrs).operations[0]
        (operation.direct() or (lambda *given: operation.evaluate(given)))(*operands)
    assert bool(asked) == asks


@pytest.mark.parametrize(
    ("op", "operands", "weights"),
    [
        ("lstm", sequence_operands(lstm_operands(1, 3, 4), 3), 6),
        ("lstm_recurrence", gated_operands(1, 3, 4), 1),
        ("gru_recurrence", gru_operands(1, 3, 4), 1),
        ("gru_reset_after", gru_operands(1, 3, 4), 1),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value),
)
@pytest.mark.parametrize("loops", [None, compiled.Loops(None, None, STEPS)], ids=["numpy", "plain"])
def test_weights_that_are_no_constants_may_change_where_they_lie(
    op: str, operands: list[Array | None], weights: int, loops: compiled.Loops | None
) -> None:
    given = [None if value is None else value.copy() for value in operands]
    compute = model_of(op, given, {}).operations[0].direct()
    assert compute is not None
    with compiled.in_use(loops):
        before = [np.array(found) for found in compute(*given)]
        changed = given[weights]
        assert changed is not None
        changed *= 2
        after = compute(*given)
        again = model_of(op, given, {}).operations[0].direct()
        assert again is not None
        for found, fresh in zip(after, again(*given), strict=True):
            np.testing.assert_array_equal(found, fresh)
    assert any((found != old).any() for found, old in zip(after, before, strict=True))
