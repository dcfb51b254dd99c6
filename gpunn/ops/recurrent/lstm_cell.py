"""The steps of a long short-term memory on real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpunn.ops.elementwise.unary import apply_activation
from gpunn.ops.recurrent import formulas
from gpunn.ops.recurrent.rnn import limited, product, widened
from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class Gate:
    """One of the four gates: `share` is the part of its sums that comes from the inputs of all steps [T, B,
    U].
    """

    share: Array
    recurrent: Array
    bias: Array
    peephole: Array | None
    norm: Array | None
    activation: str | None

    def __call__(self, step: int, h: Array, c: Array) -> Array:
        total = self.share[step] + product(h, self.recurrent)
        if self.peephole is not None:
            total = total + self.peephole * c
        if self.norm is not None:
            centred = total - np.mean(total, axis=1, keepdims=True)
            variance = np.mean(centred * centred, axis=1, keepdims=True)
            total = centred / np.sqrt(variance + total.dtype.type(formulas.EPSILON)) * self.norm
        return apply_activation(total + self.bias, self.activation)


@dataclass(frozen=True, slots=True)
class Cell:
    """The constants of all steps. Without an input gate its value is 1 - forget gate."""

    input_gate: Gate | None
    forget_gate: Gate
    cell_gate: Gate
    output_gate: Gate
    projection: Array | None
    projection_bias: Array | None
    clips: tuple[float, float]

    def __call__(self, step: int, h: Array, c: Array) -> tuple[list[Array], Array, Array]:
        """Compute one step: the gates, the output and the cell state."""
        forget_gate = self.forget_gate(step, h, c)
        input_gate = 1 - forget_gate if self.input_gate is None else self.input_gate(step, h, c)
        cell_gate = self.cell_gate(step, h, c)
        c = limited(forget_gate * c + input_gate * cell_gate, self.clips[0])
        output_gate = self.output_gate(step, h, c)
        y = self.project(output_gate * apply_activation(c, self.cell_gate.activation))
        return [*([] if self.input_gate is None else [input_gate]), cell_gate, forget_gate, output_gate], y, c

    def project(self, y: Array) -> Array:
        """Compute the output from the gated cell state."""
        if self.projection is None:
            return y
        y = product(y, self.projection)
        return limited(y if self.projection_bias is None else y + self.projection_bias, self.clips[1])


class PlainCell:
    """The gates of a cell in one product, where all four are there without peepholes and normalisations."""

    def __init__(self, cell: Cell, gates: Sequence[Gate]) -> None:
        """Take the three gates with a logistic function first, then the cell gate."""
        self._cell, self._units = cell, len(gates[0].bias)
        self._share = np.concatenate([gate.share for gate in gates], axis=2)
        self._recurrent = widened(np.concatenate([gate.recurrent for gate in gates])).T
        self._bias = np.concatenate([gate.bias for gate in gates])

    @classmethod
    def of(cls, cell: Cell) -> PlainCell | None:
        """Return the same cell with its gates in one; None if they do not compute alike."""
        gates = cell.input_gate, cell.forget_gate, cell.output_gate, cell.cell_gate
        plain = [g for g in gates if g is not None and g.peephole is None and g.norm is None]
        return cls(cell, plain) if len(plain) == len(gates) else None

    def __call__(self, step: int, h: Array, c: Array) -> tuple[list[Array], Array, Array]:
        """Compute one step: the gates, the output and the cell state."""
        total = self._share[step] + widened(h).dot(self._recurrent) + self._bias
        units, activation = self._units, self._cell.cell_gate.activation
        logistic = apply_activation(total[:, : 3 * units], "logistic")
        input_gate, forget_gate = logistic[:, :units], logistic[:, units : 2 * units]
        output_gate, cell_gate = logistic[:, 2 * units :], apply_activation(total[:, 3 * units :], activation)
        c = limited(forget_gate * c + input_gate * cell_gate, self._cell.clips[0])
        y = self._cell.project(output_gate * apply_activation(c, activation))
        return [input_gate, cell_gate, forget_gate, output_gate], y, c
