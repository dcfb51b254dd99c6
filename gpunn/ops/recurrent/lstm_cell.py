"""The steps of a long short-term memory on real numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpunn.ops.elementwise.unary import apply_activation
from gpunn.ops.recurrent import formulas
from gpunn.ops.recurrent.rnn import limited, product, widened
from gpunn.types import Array

FEW = 1 << 16  # weights for each step, which are copied in less time than the gates take to begin one by one

# From the number of a step, the output and the cell state before it: gates, output and cell state.
Advance = Callable[[int, Array, Array], tuple[list[Array], Array, Array]]


class Gate(NamedTuple):
    """The operands of one of the four gates."""

    weights: Array
    recurrent: Array
    bias: Array
    peephole: Array | None
    norm: Array | None
    activation: str | None


class Cell(NamedTuple):
    """The constants of all steps. Without an input gate its value is 1 - forget gate."""

    input_gate: Gate | None
    forget_gate: Gate
    cell_gate: Gate
    output_gate: Gate
    projection: Array | None
    projection_bias: Array | None
    clips: tuple[float, float]

    def over(self, steps: Array) -> Advance:
        """Return what computes each of these steps [T, B, I]."""
        gates = self.input_gate, self.forget_gate, self.output_gate, self.cell_gate
        plain = [g for g in gates if g is not None and g.peephole is None and g.norm is None]
        size = sum(g.weights.size + g.recurrent.size for g in plain)
        if len(plain) == len(gates) and size <= FEW * len(steps):
            return _Together(self, plain, steps)
        return _GateByGate(self, steps)

    def project(self, y: Array) -> Array:
        """Compute the output from the gated cell state."""
        if self.projection is None:
            return y
        y = product(y, self.projection)
        return limited(y if self.projection_bias is None else y + self.projection_bias, self.clips[1])


def _over_time(steps: Array, weights: Array) -> Array:
    """Compute the part of sums that comes from the inputs of all steps [T, B, I], in one product."""
    count, batch, depth = steps.shape
    return product(steps.reshape(count * batch, depth), weights).reshape(count, batch, len(weights))


class _GateByGate:
    """Steps whose gates are computed one after the other."""

    def __init__(self, cell: Cell, steps: Array) -> None:
        self._cell = cell
        self._shares = [None if gate is None else _over_time(steps, gate.weights) for gate in cell[:4]]

    def __call__(self, step: int, h: Array, c: Array) -> tuple[list[Array], Array, Array]:
        cell = self._cell
        shares = [h if share is None else share[step] for share in self._shares]
        forget_gate = _apply(cell.forget_gate, shares[1], h, c)
        input_gate = None if cell.input_gate is None else _apply(cell.input_gate, shares[0], h, c)
        cell_gate = _apply(cell.cell_gate, shares[2], h, c)
        c = limited(
            forget_gate * c + (1 - forget_gate if input_gate is None else input_gate) * cell_gate,
            cell.clips[0],
        )
        output_gate = _apply(cell.output_gate, shares[3], h, c)
        y = cell.project(output_gate * apply_activation(c, cell.cell_gate.activation))
        return [*([] if input_gate is None else [input_gate]), cell_gate, forget_gate, output_gate], y, c


def _apply(gate: Gate, share: Array, h: Array, c: Array) -> Array:
    """Compute a gate; `share` is the part of its sums that comes from the input [B, U]."""
    total = share + product(h, gate.recurrent)
    if gate.peephole is not None:
        total = total + gate.peephole * c
    if gate.norm is not None:
        centred = total - np.mean(total, axis=1, keepdims=True)
        variance = np.mean(centred * centred, axis=1, keepdims=True)
        total = centred / np.sqrt(variance + total.dtype.type(formulas.EPSILON)) * gate.norm
    return apply_activation(total + gate.bias, gate.activation)


class _Together:
    """Steps with all four gates in one product, where these have no peepholes and normalisations.

    Each step writes to the same arrays, as numpy takes longer to begin than for a few numbers. The three
    gates with a logistic function, 1 / (1 + e^-x), come first, from negative weights.
    """

    def __init__(self, cell: Cell, gates: list[Gate], steps: Array) -> None:
        """Take the three gates with a logistic function first, then the cell gate."""
        self._cell, self._activation = cell, cell.cell_gate.activation
        weights = widened(np.concatenate([gate.recurrent for gate in gates]))
        self._share = _over_time(steps, np.concatenate([gate.weights for gate in gates]))
        self._share += np.concatenate([gate.bias for gate in gates])
        units = len(gates[0].bias)
        for part in weights[: 3 * units], self._share[:, :, : 3 * units]:
            np.negative(part, out=part)
        self._recurrent = weights.T
        batch, kind = steps.shape[1], self._share.dtype
        self._sums = sums = np.empty((batch, 4 * units), kind)
        self._logistic = sums[:, : 3 * units]
        self._input, self._forget = sums[:, :units], sums[:, units : 2 * units]
        self._output, self._cell_gate = sums[:, 2 * units : 3 * units], sums[:, 3 * units :]
        self._added, self._state = np.empty((2, batch, units), kind)
        self._gates = [self._input, self._cell_gate, self._forget, self._output]

    def __call__(self, step: int, h: Array, c: Array) -> tuple[list[Array], Array, Array]:
        """Compute a step; the next one overwrites its gates and its cell state."""
        logistic, added = self._logistic, self._added
        np.dot(widened(h), self._recurrent, out=self._sums)
        np.add(self._sums, self._share[step], out=self._sums)
        np.exp(logistic, out=logistic)  # infinite far below 0, where the gate is 0
        np.add(logistic, 1, out=logistic)
        np.divide(1, logistic, out=logistic)
        self._activate(self._cell_gate, self._cell_gate)
        np.multiply(self._input, self._cell_gate, out=added)
        c = np.multiply(self._forget, c, out=self._state)
        c += added
        c = limited(c, self._cell.clips[0])
        self._activate(c, added)
        return self._gates, self._cell.project(self._output * added), c

    def _activate(self, x: Array, out: Array) -> None:
        if self._activation == "tanh":
            np.tanh(x, out=out)
        else:
            out[...] = apply_activation(x, self._activation)
