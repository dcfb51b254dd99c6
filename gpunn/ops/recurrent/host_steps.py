"""Recurrences of float32 on the host, for many runs: few calls of numpy's for each step.

A logistic function is (1 + tanh(x / 2)) / 2. So one tanh computes all gates, of sums whose halves come from
halved weights; numpy takes longer for each call than for the numbers of a small layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import StepLoops, step_loops
from gpunn.ops.contraction.pieces import remembered
from gpunn.ops.recurrent.rnn import in_time, out_of_time
from gpunn.types import Array, DType

# The ops that have loops
LOOPED = "lstm", "lstm_recurrence", "recurrence", "gru_recurrence", "gru_reset_after"
MOST_UNITS = 256  # of a layer whose weights the first caches hold
MOST_STATES = 4  # that a loop multiplies one after the other
_LSTM_SHARES = 0.5, 0.5, 1, 0.5  # of sums whose function is the hyperbolic tangent
_LSTM = "logistic", "tanh", "tanh"  # the activations that are prepared
_GRU = "logistic", "tanh"
_FLAT = 20.0  # from here on these are 1, or -1 or 0, in float32: to clip what is farther away changes nothing

_OF_GATES = (*range(1, 9), *range(12, 16))  # operands of `lstm`: weights and biases of all gates

Run = Callable[..., tuple[Array, ...]]
_Made = TypeVar("_Made")


def prepare_lstm(call: Call) -> Run | None:
    """Return lstm_recurrence of a call as a function of dense arrays; None for other gates than usual."""
    unusual = call.has(4) or call["coupled"] or 0 < call["clip"] < _FLAT
    if unusual or not _usual(call, _LSTM):
        return None
    order, limit = (call["time_major"], call["reverse"]), call["cell_clip"]

    units = call.input(1).shape[1]
    shares = _gates(units, *_LSTM_SHARES)
    weights_of = _kept(call, lambda r: _halved(r, shares))

    def run(x: Array, r: Array, h: Array, c: Array, *absent: Any) -> tuple[Array, ...]:
        h, c, y, _ = _lstm(in_time(x, *order) * shares, weights_of(r), h, c, limit)
        return h, c, np.ascontiguousarray(out_of_time(y, x, *order))

    return run


def prepare_whole_lstm(call: Call) -> Run | None:
    """Return an LSTM over a sequence, of the gates that are usual, as a function of its operands.

    None for single steps, for peepholes, projections, norms and other activations, and for large layers, of
    whose weights it would have a copy.
    """
    usual = (
        call.x.dtype is DType.FLOAT32 and call.x.size and call.x.rank == 3 and call["activation"] == "tanh"
    )
    if not usual or not call.has(1) or any(call.has(k) for k in (9, 10, 11, 16, 20, 21, 22, 23)):
        return None
    units = call.input(19).shape[1]
    if units > MOST_UNITS:
        return None
    order, limit = (call["time_major"], call["reverse"]), call["cell_clip"]
    shares = _gates(units, *_LSTM_SHARES)
    constant = all(call.constant[k] for k in _OF_GATES)
    known: tuple[Array, Array, Array] | None = None

    def weights_of(gates: Sequence[Array]) -> tuple[Array, Array, Array]:
        """Return the weights of x and of the state, and the bias of all gates."""
        of_x, of_state, bias = (np.concatenate(gates[k : k + 4]) for k in (0, 4, 8))
        return _halved(of_x, shares), _halved(of_state, shares), bias * shares

    def run(*operands: Array) -> tuple[Array, ...]:
        nonlocal known
        x, h, c = operands[0], operands[18], operands[19]
        found = known or weights_of([operands[k] for k in _OF_GATES])
        known = found if constant else None
        of_x, weights, bias = found
        steps = in_time(x, *order)
        sums = np.dot(steps.reshape(-1, steps.shape[2]), of_x)
        sums += bias
        h, c, y, gates = _lstm(sums.reshape(*steps.shape[:2], -1), weights, h, c, limit)
        return gates, h, c, np.ascontiguousarray(out_of_time(y, x, *order))

    return run


def _lstm(sums: Array, weights: Array, h: Array, c: Array, limit: float) -> tuple[Array, Array, Array, Array]:
    """Return the last states, all output states, and the gates of the last step, in the order of lstm().

    sums: those with x, each gate's times its share, as are the weights of the state.
    """
    units, loops, c = h.shape[1], step_loops(), c.copy()
    y, gates = np.empty((*sums.shape[:2], units), np.float32), np.empty(sums.shape[1:], np.float32)
    if loops is not None and _few(h):
        h, clip = h.copy(), np.float32(limit if limit > 0 else np.inf)
        memory = _memory(loops, 4 * units), _memory(loops, units)
        loops.lstm(np.ascontiguousarray(sums), weights, h, c, clip, *memory, gates, y)
        return h, c, y, gates
    shares, rest = _gates(units, *_LSTM_SHARES), _gates(units, 0.5, 0.5, 0, 0.5)
    entry, forget, cell, output = (gates[:, k * units : (k + 1) * units] for k in range(4))
    clips = limit > 0 and not np.abs(c).max() + len(sums) <= limit  # a step adds 1 at most
    added = np.empty_like(c)
    for of_step, state in zip(sums, y, strict=True):
        np.dot(h, weights, out=gates)
        gates += of_step
        np.tanh(gates, out=gates)
        gates *= shares
        gates += rest
        c *= forget
        c += np.multiply(cell, entry, out=added)
        if clips:
            np.clip(c, -limit, limit, out=c)
        h = np.multiply(np.tanh(c, out=added), output, out=state)
    return h.copy(), c, y, np.concatenate((entry, cell, forget, output), axis=1)


def _kept(call: Call, make: Callable[[Array], _Made]) -> Callable[[Array], _Made]:
    """Return what makes something of the weights of states, and keeps it for the next run of constants."""
    return remembered(make) if call.constant[1] else make


def _memory(loops: StepLoops, count: int) -> Array:
    """Return memory for so many numbers in whole vectors."""
    return np.zeros(-(-count // loops.lanes) * loops.lanes, np.float32)


def _few(h: Array) -> bool:
    """Tell whether a loop multiplies states [B, U] sooner than BLAS."""
    return len(h) <= MOST_STATES and h.shape[1] <= MOST_UNITS


def prepare_rnn(call: Call) -> Run | None:
    """Return recurrence of a call as a function of dense arrays; None for other activations than tanh."""
    usual = call.x.dtype is DType.FLOAT32 and call.x.size and call["activation"] == "tanh"
    if not usual or 0 < call["clip"] < _FLAT:
        return None
    order, weights_of = (
        (call["time_major"], call["reverse"]),
        _kept(call, lambda r: np.ascontiguousarray(r.T)),
    )

    def run(x: Array, r: Array, h: Array) -> tuple[Array, ...]:
        weights, sums, loops = weights_of(r), in_time(x, *order), step_loops()
        y = np.empty(sums.shape, np.float32)
        if loops is not None and _few(h):
            h = h.copy()
            loops.rnn(np.ascontiguousarray(sums), weights, h, _memory(loops, h.shape[1]), y)
            return h, np.ascontiguousarray(out_of_time(y, x, *order))
        for of_step, state in zip(sums, y, strict=True):
            np.dot(h, weights, out=state)
            state += of_step
            h = np.tanh(state, out=state)
        return h.copy(), np.ascontiguousarray(out_of_time(y, x, *order))

    return run


def prepare_gru(call: Call) -> Run | None:
    """Return gru_recurrence of a call as a function of dense arrays; None for other gates than usual."""
    if 0 < call["clip"] < _FLAT or not _usual(call, _GRU):
        return None
    order, units = (call["time_major"], call["reverse"]), call.input(1).shape[1]
    shares = _gates(units, 0.5, 0.5, 1)

    def both(r: Array) -> tuple[Array, Array]:
        early, late = np.split(_halved(r, shares), [2 * units], axis=1)
        return np.ascontiguousarray(early), np.ascontiguousarray(late)

    weights_of = _kept(call, both)

    def run(x: Array, r: Array, h: Array) -> tuple[Array, ...]:
        (early, late), sums, loops = weights_of(r), in_time(x, *order) * shares, step_loops()
        if loops is not None and _few(h):
            h, y = h.copy(), np.empty((*sums.shape[:2], units), np.float32)
            memory = _memory(loops, 2 * units), _memory(loops, units)
            loops.gru(np.ascontiguousarray(sums), early, late, h, *memory, y)
            return h, np.ascontiguousarray(out_of_time(y, x, *order))
        y, gates = np.empty((*sums.shape[:2], units), np.float32), np.empty((len(h), 2 * units), np.float32)
        candidate, (update, reset) = np.empty_like(h), np.split(gates, 2, axis=1)
        for of_step, state in zip(sums, y, strict=True):
            np.dot(h, early, out=gates)
            _open(gates, of_step[:, : 2 * units])
            reset *= h
            np.dot(reset, late, out=candidate)
            candidate += of_step[:, 2 * units :]
            h = _mixed(h, candidate, update, state)
        return h.copy(), np.ascontiguousarray(out_of_time(y, x, *order))

    return run


def prepare_gru_reset_after(call: Call) -> Run | None:
    """Return gru_reset_after of a call as a function of dense arrays; None for other gates than usual."""
    if not _usual(call, _GRU):
        return None
    order = call["time_major"], call["reverse"]

    units = call.input(1).shape[1]
    shares = _gates(units, 0.5, 0.5, 1)
    weights_of, no_bias = _kept(call, lambda r: _halved(r, shares)), np.zeros(units, np.float32)

    def run(x: Array, r: Array, h: Array, bias: Array | None = None) -> tuple[Array, ...]:
        weights, sums, loops = weights_of(r), in_time(x, *order) * shares, step_loops()
        if loops is not None and _few(h):
            h, y = h.copy(), np.empty((*sums.shape[:2], units), np.float32)
            memory = _memory(loops, 3 * units), _memory(loops, units)
            added = no_bias if bias is None else bias
            loops.gru_after(np.ascontiguousarray(sums), weights, added, h, *memory, y)
            return h, np.ascontiguousarray(out_of_time(y, x, *order))
        y, products = np.empty((*sums.shape[:2], units), np.float32), np.empty(sums.shape[1:], np.float32)
        gates, candidate = products[:, : 2 * units], products[:, 2 * units :]
        reset, update = gates[:, :units], gates[:, units:]
        for of_step, state in zip(sums, y, strict=True):
            np.dot(h, weights, out=products)
            _open(gates, of_step[:, : 2 * units])
            if bias is not None:
                candidate += bias
            candidate *= reset
            candidate += of_step[:, 2 * units :]
            h = _mixed(h, candidate, update, state)
        return h.copy(), np.ascontiguousarray(out_of_time(y, x, *order))

    return run


def _open(gates: Array, of_x: Array) -> None:
    """Turn halved sums of h into gates, with those of x."""
    gates += of_x
    np.tanh(gates, out=gates)
    gates += 1
    gates *= 0.5


def _mixed(h: Array, candidate: Array, update: Array, state: Array) -> Array:
    """Write the state behind a step of a GRU, from sums of the candidate, which are lost; return it."""
    np.tanh(candidate, out=candidate)
    np.subtract(h, candidate, out=state)
    state *= update
    state += candidate
    return state


def _usual(call: Call, activations: tuple[str, ...]) -> bool:
    """Tell whether a call has steps, of float32, and these activations."""
    return call.x.dtype is DType.FLOAT32 and call.x.size > 0 and tuple(call["activations"]) == activations


@lru_cache
def _gates(units: int, *numbers: float) -> Array:
    """Return a number for each unit of each gate, for all to read."""
    found = np.repeat(np.array(numbers, np.float32), units)
    found.setflags(write=False)
    return found


def _halved(r: Array, shares: Array) -> Array:
    """Return weights for products with a state, each gate's times its share."""
    return np.ascontiguousarray((r * shares[:, None]).T)
