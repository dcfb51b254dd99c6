"""Steps of recurrent layers as loops, whose functions of gates have machine code of their own.

    tanh(x) = x + x t P(t),   t = x^2,          for |x| < 5/8
            = 1 - 2 / (e^2x + 1),               for greater x, and likewise for lower ones

P is the polynomial that makes the largest relative error least, 7.3e-9 with coefficients of float32: least
squares in float64 at 4,001 places, weighted anew until the errors of all peaks were alike.

Sums come as those of x, [T, B, gates], and weights for products with a state from the left, [U, gates].
Logistic functions are (1 + tanh(x / 2)) / 2, of sums and weights that are halved before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.gates import exponential
from gpunn.ops.compiled.vectors import Code
from gpunn.types import Array

_P = (-0.3333328, 0.1333142, -0.05373778, 0.020632476, -0.0056973007)
_NEAR = 0.625
_NUMBER = 0x7FFFFFFF  # the bits of float32 without its sign


def lstm_steps(
    lanes: int,
    x: Array,
    weights: Array,
    h: Array,
    c: Array,
    clip: Any,
    sums: Array,
    cells: Array,
    gates: Array,
    y: Array,
) -> None:
    """Run the steps of an LSTM on x [T, B, 4 U]: of the input, the forget, the cell and the output gate.

    h, c [B, U]: states, which become the last ones; c stays within -clip ... clip. gates [B, 4 U]: those of
    the last step, the cell gate second. y [T, B, U]: the result. sums, cells: memory for 4 U and for U
    numbers in whole vectors, of so many lanes.
    """
    steps, batch, count = x.shape
    units, half = count // 4, np.float32(0.5)
    for t in range(steps):
        for b in range(batch):
            tanh_of_sums(lanes, x, (t, b, 0), h, weights, sums)
            for k in range(units):
                entry, forget = half * sums[k] + half, half * sums[units + k] + half
                cell = c[b, k] * forget + sums[2 * units + k] * entry
                cell = -clip if cell < -clip else cell
                cell = clip if cell > clip else cell
                c[b, k] = cell
                cells[k] = cell
                gates[b, k], gates[b, units + k], gates[b, 2 * units + k] = entry, sums[2 * units + k], forget
            tanh_of(lanes, cells)
            for k in range(units):
                output = half * sums[3 * units + k] + half
                gates[b, 3 * units + k] = output
                state = cells[k] * output
                h[b, k] = state
                y[t, b, k] = state


def rnn_steps(lanes: int, x: Array, weights: Array, h: Array, sums: Array, y: Array) -> None:
    """Run the steps of an RNN on x [T, B, U]; h, y, sums: as those of lstm_steps(), for U numbers."""
    steps, batch, units = x.shape
    for t in range(steps):
        for b in range(batch):
            tanh_of_sums(lanes, x, (t, b, 0), h, weights, sums)
            for k in range(units):
                h[b, k] = sums[k]
                y[t, b, k] = sums[k]


def gru_steps(
    lanes: int, x: Array, early: Array, late: Array, h: Array, sums: Array, cells: Array, y: Array
) -> None:
    """Run the steps of a GRU on x [T, B, 3 U]: of the update, the reset and the candidate gate.

    The reset gate multiplies the state. early: weights of the first two gates, late: those of the candidate.
    h, y, sums, cells: as those of lstm_steps(), for 2 U and for U numbers.
    """
    steps, batch, units = y.shape
    half = np.float32(0.5)
    for t in range(steps):
        for b in range(batch):
            tanh_of_sums(lanes, x, (t, b, 0), h, early, sums)
            for k in range(units):
                y[t, b, k] = (half * sums[units + k] + half) * h[b, k]
            tanh_of_sums(lanes, x, (t, b, 2 * units), y[t], late, cells)
            for k in range(units):
                update = half * sums[k] + half
                state = (h[b, k] - cells[k]) * update + cells[k]
                h[b, k] = state
                y[t, b, k] = state


def gru_after_steps(
    lanes: int, x: Array, weights: Array, bias: Array, h: Array, sums: Array, cells: Array, y: Array
) -> None:
    """Run the steps of a GRU on x [T, B, 3 U]: of the reset, the update and the candidate gate.

    The reset gate multiplies the product of the candidate and its bias [U]. h, y, sums, cells: as those of
    lstm_steps(), for 3 U and for U numbers.
    """
    steps, batch, count = x.shape
    units, half = count // 3, np.float32(0.5)
    for t in range(steps):
        for b in range(batch):
            for j in range(count):
                sums[j] = x[t, b, j] if j < 2 * units else bias[j - 2 * units]
            add_product(h, b, weights, sums)
            for k in range(units):
                cells[k] = sums[2 * units + k]
            tanh_of(lanes, sums)
            for k in range(units):
                reset = half * sums[k] + half
                cells[k] = cells[k] * reset + x[t, b, 2 * units + k]
            tanh_of(lanes, cells)
            for k in range(units):
                update = half * sums[units + k] + half
                state = (h[b, k] - cells[k]) * update + cells[k]
                h[b, k] = state
                y[t, b, k] = state


def tanh_of_sums(
    lanes: int, x: Array, place: tuple[int, int, int], states: Array, weights: Array, sums: Array
) -> None:
    """Write tanh(x + state . w) for weights [U, C]; place: of a step and a state, and of the first number."""
    step, number, first = place
    for j in range(weights.shape[1]):
        sums[j] = x[step, number, first + j]
    add_product(states, number, weights, sums)
    tanh_of(lanes, sums)


def add_product(states: Array, number: int, weights: Array, sums: Array) -> None:
    """Add one of the states [B, U] times weights [U, C] to sums, the first C of them."""
    units, count = weights.shape
    for k in range(units):
        factor, row = states[number, k], weights[k]
        for j in range(count):
            sums[j] += factor * row[j]


def tanh_of(lanes: int, x: Array) -> None:
    """Write tanh(x) in the place of x, whole vectors of so many lanes."""
    for k in range(0, len(x), lanes):
        tanh_of_vector(x, k, lanes)


def tanh_of_vector(x: Array, first: int, lanes: int) -> None:
    """Write what tanh_of() writes for a vector."""
    part = slice(first, first + lanes)
    x[part] = np.tanh(x[part])


def tanh_code(code: Code, operands: Sequence[Any]) -> None:
    """Write the code of tanh_of_vector()."""
    x, first, _ = operands
    of, place = code.builder, code.builder.gep(x.data, [first])
    kind, whole = code.of(x.data.type.pointee), code.vector
    numbers = code.load(place, kind)
    bits = of.bitcast(numbers, whole)
    size = of.bitcast(of.and_(bits, whole([_NUMBER] * code.lanes)), kind)
    square = of.fmul(numbers, numbers)
    near = kind([_P[-1]] * code.lanes)
    for coefficient in reversed(_P[:-1]):
        near = code.times_plus(near, square, kind([coefficient] * code.lanes))
    near = code.times_plus(of.fmul(numbers, square), near, numbers)
    one, two = kind([1.0] * code.lanes), kind([2.0] * code.lanes)
    below = of.fadd(exponential(code, of.fmul(size, two)), one)
    far = of.bitcast(of.fsub(one, of.fdiv(two, below)), whole)
    sign = of.and_(bits, whole([-_NUMBER - 1] * code.lanes))
    far = of.bitcast(of.or_(far, sign), kind)
    is_near = of.fcmp_ordered("<", size, kind([_NEAR] * code.lanes))
    code.store(of.select(is_near, near, far), place)
