"""LSTM: steps and sequences in all variants, and the cell with all weights in one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.recurrent import lstm_cell
from gpunn.ops.recurrent.lstm import HOST, MANDATORY, OPERANDS
from gpunn.types import Array
from tests.ops.harness import assert_close, check, model_of, random
from tests.ops.nnapi_cases import FUSED, check_cases
from tests.ops.recurrent.test_rnn import changed


def lstm_operands(
    batch: int,
    depth: int,
    units: int,
    width: int | None = None,
    *,
    cifg: bool = False,
    peephole: bool = False,
    norm: bool = False,
) -> list[Array | None]:
    """Return random operands; `width` is that of the projection, None without one."""
    out = width or units
    shapes: list[tuple[int, ...] | None] = [(batch, depth), *[(units, depth)] * 4, *[(units, out)] * 4]
    shapes += [*[(units,) if peephole else None] * 3, *[(units,)] * 4]
    shapes += [(width, units), (width,)] if width else [None, None]
    shapes += [(batch, out), (batch, units), *[(units,) if norm else None] * 4]
    for index in (1, 5, 9, 12, 20):
        shapes[index] = None if cifg else shapes[index]
    return [None if s is None else random(k, *s, low=-1, high=1) for k, s in enumerate(shapes)]


def sequence_operands(operands: Sequence[Array | None], steps: int) -> list[Array | None]:
    """Return the same operands with a sequence [B, T, I]."""
    (batch, depth), *_ = (o.shape for o in operands if o is not None)
    return [random(99, batch, steps, depth, low=-1, high=1), *operands[1:]]


def slow_lstm(
    operands: Sequence[Array | None], cell_clip: float = 0, proj_clip: float = 0
) -> tuple[Array, Array]:
    """Return output and cell state by the documented formulas, unit by unit, with tanh."""
    x, wi, wf, wc, wo, ri, rf, rc, ro, pi, pf, po, bi, bf, bc, bo, wp, bp, h, c, ni, nf, nc, no = (
        None if o is None else o.astype(np.float64) for o in operands
    )
    assert x is not None and h is not None and c is not None

    def gate(b: int, w: Any, r: Any, bias: Any, norm: Any, peephole: Any = None, cells: Any = c) -> Array:
        sums = np.zeros(c.shape[1])
        for u in range(c.shape[1]):
            sums[u] = sum(w[u, k] * x[b, k] for k in range(x.shape[1]))
            sums[u] += sum(r[u, k] * h[b, k] for k in range(h.shape[1]))
            sums[u] += 0 if peephole is None else peephole[u] * cells[b, u]
        if norm is not None:
            sums = (sums - sums.mean()) / (sums.var() + 1e-8) ** 0.5 * norm
        return np.asarray(sums + bias)

    def sigma(value: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-value)))

    cells, hidden = np.zeros_like(c), np.zeros_like(c)
    for b in range(len(c)):
        f = sigma(gate(b, wf, rf, bf, nf, pf))
        i = 1 - f if wi is None else sigma(gate(b, wi, ri, bi, ni, pi))
        new = f * c[b] + i * np.tanh(gate(b, wc, rc, bc, nc))
        cells[b] = np.maximum(-cell_clip, np.minimum(cell_clip, new)) if cell_clip else new
        hidden[b] = sigma(gate(b, wo, ro, bo, no, po, cells)) * np.tanh(cells[b])
    if wp is None:
        return hidden, cells
    projected = hidden @ wp.T + (0 if bp is None else bp)
    return (np.clip(projected, -proj_clip, proj_clip) if proj_clip else projected), cells


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("cifg", [False, True])
@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("width", [None, 2])
def test_lstm(norm: bool, cifg: bool, peephole: bool, width: int | None, backend: str) -> None:
    for clips in ((0.0, 0.0), (0.3, 0.1)):
        operands = lstm_operands(2, 3, 4, width, cifg=cifg, peephole=peephole, norm=norm)
        attrs = {"activation": "tanh", "cell_clip": clips[0], "proj_clip": clips[1]}
        results = check("lstm", operands, attrs, backend=backend, host=HOST)
        scratch, state, cell, y = results
        assert scratch.shape == (2, 12 if cifg else 16)
        np.testing.assert_array_equal(state, y)
        hidden, cells = slow_lstm(operands, *clips)
        assert_close(y, hidden)
        assert_close(cell, cells)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("width", [None, 2])
@pytest.mark.parametrize("plain", [False, True])
def test_sequences_equal_their_steps(
    time_major: bool, reverse: bool, width: int | None, plain: bool, backend: str
) -> None:
    operands = sequence_operands(lstm_operands(2, 3, 4, width, peephole=not plain, norm=not plain), 5)
    x = operands[0]
    assert x is not None
    attrs = {"time_major": time_major, "reverse": reverse}
    given = changed(operands, 0, x.swapaxes(0, 1).copy()) if time_major else operands
    _, state, cell, y = check("lstm", given, attrs, backend=backend, host=HOST)
    steps = y if time_major else y.swapaxes(0, 1)
    for step in reversed(range(5)) if reverse else range(5):
        operands[18], operands[19] = slow_lstm([x[:, step], *operands[1:]])
        assert_close(steps[step], operands[18])
    assert_close(state, operands[18])
    assert_close(cell, operands[19])


@pytest.mark.parametrize("few", [0, lstm_cell.FEW])
@pytest.mark.parametrize("width", [None, 2])
def test_plain_gates_one_by_one_and_together(
    few: int, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lstm_cell, "FEW", few)
    operands = lstm_operands(3, 5, 7, width)
    before = [None if o is None else o.copy() for o in operands]
    _, state, cell, y = check("lstm", operands, {"cell_clip": 0.3}, backend="cpu")
    hidden, cells = slow_lstm(operands, 0.3)
    assert_close(y, hidden)
    assert_close(state, hidden)
    assert_close(cell, cells)
    for given, kept in zip(operands, before, strict=True):
        np.testing.assert_array_equal(given, kept)


def test_empty_sequences_keep_the_state(backend: str) -> None:
    operands = sequence_operands(lstm_operands(2, 3, 4), 0)
    scratch, state, cell, y = check("lstm", operands, backend=backend, host=HOST)
    assert (scratch.shape, y.shape) == ((2, 16), (2, 0, 4))
    np.testing.assert_array_equal(state, operands[18])
    np.testing.assert_array_equal(cell, operands[19])


def test_basic_lstm(backend: str) -> None:
    """Its weights are those of an LSTM in one tensor: input gate, cell, forget gate, output gate."""
    full = lstm_operands(3, 5, 4)
    x, wi, wf, wc, wo, ri, rf, rc, ro, *_ = full
    h, c = full[18], full[19]
    assert x is not None and h is not None and c is not None
    weights = np.block([[w, r] for w, r in ((wi, ri), (wc, rc), (wf, rf), (wo, ro))])
    bias = np.concatenate([full[k] for k in (12, 14, 13, 15)])
    operands = [x, h, weights, bias, c]
    y, cell, joined, sums = check("basic_lstm", operands, backend=backend, host=HOST)
    hidden, cells = slow_lstm(full)
    assert_close(y, hidden)
    assert_close(cell, cells)
    np.testing.assert_array_equal(joined, np.hstack([x, h]))
    assert_close(sums, np.hstack([x, h]).astype(np.float64) @ weights.T + bias)
    with pytest.raises(ModelError, match=r"basic_lstm: input 2 \(weights\) must have shape \[16, 9\]"):
        model_of("basic_lstm", changed(operands, 2, weights[:, 1:]), {})


@pytest.mark.parametrize("activation", [None, "relu", "relu6", "tanh", "logistic"])
def test_lstm_activations_and_empty_batch(activation: str | None, backend: str) -> None:
    for batch, peephole in itertools.product((0, 3), (False, True)):
        operands = lstm_operands(batch, 5, 3, 2, peephole=peephole)
        operands[17] = None
        check("lstm", operands, {"activation": activation}, backend=backend, host=HOST)


def test_conformance(backend: str) -> None:
    def lstm(*operands: Array | None) -> Any:
        number, cell, projection = (o.item() for o in operands[20:] if o is not None)
        attrs = {"cell_clip": float(cell), "proj_clip": float(projection)}
        return operands[:20], {"activation": FUSED[int(number)], **attrs}

    check_cases("LSTM", "lstm", lstm, backend)


FULL = lstm_operands(2, 3, 4, 2, peephole=True, norm=True)
PLAIN = lstm_operands(2, 3, 4)


@pytest.mark.parametrize("index", MANDATORY)
def test_lstm_needs_its_mandatory_operands(index: int) -> None:
    name = OPERANDS[index]
    with pytest.raises(ModelError, match=rf"lstm: input {index} \({name}\) must not be absent"):
        model_of("lstm", changed(FULL, index, None), {})


@pytest.mark.parametrize("index", range(1, 24))
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
        (changed(FULL, 10, None), {}, "cell_to_output_weights must be all there or all absent"),
        (changed(PLAIN, 11, FULL[11]), {}, "cell_to_output_weights must be all there or all absent"),
        (changed(PLAIN, 9, FULL[9]), {}, "cell_to_input_weights be there with them"),
        (changed(PLAIN, 17, FULL[17]), {}, "projection_bias must be absent where projection_weights are"),
        (changed(FULL, 20, None), {}, "input_layer_norm_coefficients be there with them"),
        (changed(FULL, 22, None), {}, "output_layer_norm_coefficients must be all there or all absent"),
        (changed(PLAIN, 20, FULL[20]), {}, "input_layer_norm_coefficients be there with them"),
        (sequence_operands(PLAIN, 3), {"time_major": True}, r"\(output_state\) must have shape \[3, 4\]"),
        (PLAIN, {"reverse": None}, "reverse must be True or False"),
        (PLAIN, {"cell_clip": -1.0}, "cell_clip must be >= 0, got -1.0"),
        (PLAIN, {"proj_clip": float("nan")}, "proj_clip must be >= 0, got nan"),
        (PLAIN, {"activation": "sigmoid"}, "activation must be one of"),
    ],
)
def test_lstm_errors(operands: list[Array | None], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"lstm: .*{message}"):
        model_of("lstm", operands, attrs)


def test_references_keep_dtype() -> None:
    for dtype in (np.float32, np.float64):
        for operands in (FULL, sequence_operands(FULL, 3)):
            operation = model_of("lstm", operands, {}).operations[0]
            cast = [None if o is None else o.astype(dtype) for o in operands]
            assert {y.dtype for y in operation.evaluate(cast)} == {np.dtype(dtype)}
