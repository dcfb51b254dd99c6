"""Recurrences of float32 on the host, for many runs: few calls of numpy's for each step.

A logistic function is (1 + tanh(x / 2)) / 2. So one tanh computes all gates, of sums whose halves come from
halved weights; numpy takes longer for each call than for the numbers of a small layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.recurrent.rnn import in_time, out_of_time
from gpunn.types import Array, DType

_LSTM = "logistic", "tanh", "tanh"  # the activations that are prepared
_GRU = "logistic", "tanh"
_FLAT = 20.0  # from here on these are 1, or -1 or 0, in float32: to clip what is farther away changes nothing

Run = Callable[..., tuple[Array, ...]]


def prepare_lstm(call: Call) -> Run | None:
    """Return lstm_recurrence of a call as a function of dense arrays; None for other gates than usual."""
    unusual = call.has(4) or call["coupled"] or 0 < call["clip"] < _FLAT
    if unusual or not _usual(call, _LSTM):
        return None
    order, limit = (call["time_major"], call["reverse"]), call["cell_clip"]

    def run(x: Array, r: Array, h: Array, c: Array, *absent: Any) -> tuple[Array, ...]:
        units = r.shape[1]
        shares, rest = _gates(units, 0.5, 0.5, 1, 0.5), _gates(units, 0.5, 0.5, 0, 0.5)
        weights, sums, c = _halved(r, shares), in_time(x, *order) * shares, c.copy()
        y, gates = np.empty((*sums.shape[:2], units), np.float32), np.empty(sums.shape[1:], np.float32)
        entry, forget, cell, output = (gates[:, k * units : (k + 1) * units] for k in range(4))
        clips = limit > 0 and not np.abs(c).max() + len(sums) <= limit  # a step adds 1 at most
        for of_step, state in zip(sums, y, strict=True):
            np.dot(h, weights, out=gates)
            gates += of_step
            np.tanh(gates, out=gates)
            gates *= shares
            gates += rest
            c *= forget
            cell *= entry
            c += cell
            if clips:
                np.clip(c, -limit, limit, out=c)
            h = np.multiply(np.tanh(c, out=cell), output, out=state)
        return h.copy(), c, out_of_time(y, x, *order)

    return run


def prepare_rnn(call: Call) -> Run | None:
    """Return recurrence of a call as a function of dense arrays; None for other activations than tanh."""
    usual = call.x.dtype is DType.FLOAT32 and call.x.size and call["activation"] == "tanh"
    if not usual or 0 < call["clip"] < _FLAT:
        return None
    order = call["time_major"], call["reverse"]

    def run(x: Array, r: Array, h: Array) -> tuple[Array, ...]:
        weights, sums = np.ascontiguousarray(r.T), in_time(x, *order)
        y = np.empty(sums.shape, np.float32)
        for of_step, state in zip(sums, y, strict=True):
            np.dot(h, weights, out=state)
            state += of_step
            h = np.tanh(state, out=state)
        return h.copy(), out_of_time(y, x, *order)

    return run


def prepare_gru(call: Call) -> Run | None:
    """Return gru_recurrence of a call as a function of dense arrays; None for other gates than usual."""
    if 0 < call["clip"] < _FLAT or not _usual(call, _GRU):
        return None
    order = call["time_major"], call["reverse"]

    def run(x: Array, r: Array, h: Array) -> tuple[Array, ...]:
        units = r.shape[1]
        shares = _gates(units, 0.5, 0.5, 1)
        weights, sums = _halved(r, shares), in_time(x, *order) * shares
        early, late = (np.ascontiguousarray(w) for w in np.split(weights, [2 * units], axis=1))
        y, gates = np.empty((*sums.shape[:2], units), np.float32), np.empty((len(h), 2 * units), np.float32)
        candidate, (update, reset) = np.empty_like(h), np.split(gates, 2, axis=1)
        for of_step, state in zip(sums, y, strict=True):
            np.dot(h, early, out=gates)
            _open(gates, of_step[:, : 2 * units])
            reset *= h
            np.dot(reset, late, out=candidate)
            candidate += of_step[:, 2 * units :]
            h = _mixed(h, candidate, update, state)
        return h.copy(), out_of_time(y, x, *order)

    return run


def prepare_gru_reset_after(call: Call) -> Run | None:
    """Return gru_reset_after of a call as a function of dense arrays; None for other gates than usual."""
    if not _usual(call, _GRU):
        return None
    order = call["time_major"], call["reverse"]

    def run(x: Array, r: Array, h: Array, bias: Array | None = None) -> tuple[Array, ...]:
        units = r.shape[1]
        shares = _gates(units, 0.5, 0.5, 1)
        weights, sums = _halved(r, shares), in_time(x, *order) * shares
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
        return h.copy(), out_of_time(y, x, *order)

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


def _gates(units: int, *numbers: float) -> Array:
    """Return a number for each unit of each gate."""
    return np.repeat(np.array(numbers, np.float32), units)


def _halved(r: Array, shares: Array) -> Array:
    """Return weights for products with a state, each gate's times its share."""
    return np.ascontiguousarray((r * shares[:, None]).T)
