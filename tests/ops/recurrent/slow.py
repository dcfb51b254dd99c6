"""GRU and LSTM over the products of a sequence, computed unit by unit from the documented formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.types import Array
from tests.ops.harness import random

ACTIVATIONS: dict[Any, Callable[[float], float]] = {
    None: lambda v: v,
    "relu": lambda v: max(v, 0.0),
    "tanh": math.tanh,
    "logistic": lambda v: 1 / (1 + math.exp(-v)),
    ("affine", 0.5, 0.25): lambda v: 0.5 * v + 0.25,
    ("hard_sigmoid", 0.2, 0.5): lambda v: min(max(0.2 * v + 0.5, 0.0), 1.0),
    ("scaled_tanh", 1.7159, 2 / 3): lambda v: 1.7159 * math.tanh(2 / 3 * v),
}


def gru_operands(batch: int, steps: int, units: int) -> list[Array]:
    """Return operands with weights so small that errors of the state shrink from step to step."""
    return _operands(3, 1, batch, steps, units)


def gated_operands(batch: int, steps: int, units: int, gates: int = 4) -> list[Array]:
    """Return the same for an LSTM; with hard sigmoids, each step keeps at most half of the cell state."""
    return _operands(gates, 2, batch, steps, units)


def _operands(gates: int, states: int, batch: int, steps: int, units: int) -> list[Array]:
    small = 1 / max(units, 1)
    x = random(0, batch, steps, gates * units, low=-1, high=1)
    r = random(1, gates * units, units, low=-small, high=small)
    return [x, r, *(random(2 + k, batch, units, low=-1, high=1) for k in range(states))]


def limited(value: float, bound: float) -> float:
    return min(max(value, -bound), bound) if bound else value


def slow_gru(
    operands: Sequence[Array], activations: Sequence[Any], clip: float = 0, reverse: bool = False
) -> tuple[Array, Array]:
    """Return the output of each step, and the last one, by the documented formulas, unit by unit."""
    x, r, h = (o.astype(np.float64) for o in operands)
    f, g = (ACTIVATIONS[a] for a in activations)
    units, y = r.shape[1], np.zeros((*x.shape[:2], r.shape[1]))
    for b in range(len(x)):
        state = h[b]
        for t in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):

            def total(gate: int, u: int, seen: Array, row: Array = x[b, t]) -> float:
                at = gate * units + u
                return limited(row[at] + r[at] @ seen, clip)

            update = np.array([f(total(0, u, state)) for u in range(units)])
            reset = np.array([f(total(1, u, state)) for u in range(units)])
            fresh = np.array([g(total(2, u, reset * state)) for u in range(units)])
            y[b, t] = state = (1 - update) * fresh + update * state
        h[b] = state
    return h, y


def slow_gru_reset_after(
    operands: Sequence[Array], bias: Array | None, reverse: bool = False
) -> tuple[Array, Array]:
    """Return the same with the reset gate behind the product, unit by unit; the first gate is the reset."""
    x, r, h = (o.astype(np.float64) for o in operands)
    f, g = ACTIVATIONS["logistic"], ACTIVATIONS["tanh"]
    units, y = r.shape[1], np.zeros((*x.shape[:2], r.shape[1]))
    for b in range(len(x)):
        state = h[b]
        for t in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
            new = state.copy()
            for u in range(units):
                reset = f(x[b, t, u] + r[u] @ state)
                update = f(x[b, t, units + u] + r[units + u] @ state)
                product = r[2 * units + u] @ state + (0 if bias is None else bias[u])
                new[u] = (1 - update) * g(x[b, t, 2 * units + u] + reset * product) + update * state[u]
            y[b, t] = state = new
        h[b] = state
    return h, y


def slow_lstm(
    operands: Sequence[Array],
    peepholes: Array | None,
    activations: Sequence[Any],
    *,
    coupled: bool = False,
    clip: float = 0,
    cell_clip: float = 0,
) -> tuple[Array, Array, Array]:
    """Return the last output, the cell state and the output of each step, by the documented formulas."""
    x, r, h, c = (o.astype(np.float64) for o in operands)
    f, g, k = (ACTIVATIONS[a] for a in activations)
    units, y = r.shape[1], np.zeros((*x.shape[:2], r.shape[1]))
    gates = ("input", "cell", "output") if coupled else ("input", "forget", "cell", "output")
    seeing = [gate for gate in gates if gate != "cell"]
    weights = np.zeros((len(seeing), units)) if peepholes is None else peepholes.reshape(-1, units)
    for b in range(len(x)):
        for t in range(x.shape[1]):
            old, cells = h[b].copy(), c[b].copy()
            for u in range(units):

                def total(
                    gate: str, cell: float, u: int = u, old: Array = old, row: Array = x[b, t]
                ) -> float:
                    at = gates.index(gate) * units + u
                    peephole = 0.0 if gate == "cell" else weights[seeing.index(gate), u] * cell
                    return limited(row[at] + r[at] @ old + peephole, clip)

                entry = f(total("input", cells[u]))
                forget = 1 - entry if coupled else f(total("forget", cells[u]))
                c[b, u] = limited(forget * cells[u] + entry * g(total("cell", 0)), cell_clip)
                y[b, t, u] = h[b, u] = f(total("output", c[b, u])) * k(c[b, u])
    return h, c, y
