"""Recurrent ops written in other ops, through which gradients go back; their kernels run everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpunn.kernel import Unsupported
from gpunn.ops.call import Call
from gpunn.ops.gradient import Symbol
from gpunn.ops.recurrent.gate_activation import GateActivation

EPSILON = 1e-8  # of layer normalisation: TensorFlow Lite, kernels/internal, MeanStddevNormalization

Step = Callable[[Symbol, Sequence[Symbol]], Sequence[Symbol]]
Symbols = tuple[Symbol, ...]


def _activated(x: Symbol, activation: GateActivation) -> Symbol:
    if not isinstance(activation, tuple):
        return x if activation is None else x.of(activation)
    name, alpha, beta = activation
    if name == "scaled_tanh":
        return (x * beta).of("tanh") * alpha
    line = x * alpha + beta
    return line.of("relu01") if name == "hard_sigmoid" else line


def _limited(x: Symbol, bound: float) -> Symbol:
    return x.of("clamp", -bound, bound) if bound > 0 else x


def _product(x: Symbol, w: Symbol, bias: Symbol | None = None) -> Symbol:
    """Return x . w^T + bias."""
    return x.of("fully_connected", w, bias)


def _copy(x: Symbol) -> Symbol:
    """Return the same elements as a result of their own."""
    return x.of("reshape", shape=x.shape)


def _parts(x: Symbol, axis: int, *sizes: int) -> list[Symbol]:
    found = x.to.results("split", x.tensor, axis=axis, sizes=sizes)
    return [Symbol(x.to, part) for part in found]


def _over_time(call: Call, x: Symbol, states: Sequence[Symbol], step: Step) -> Symbols:
    """Run step(x[t], states) -> states for all steps; return the last states, and the first of each step."""
    axis = 0 if call["time_major"] else 1
    if len(x.shape) == 2:
        states = step(x, states)
        return (*map(_copy, states), _copy(states[0]))
    if not x.shape[axis]:
        raise Unsupported("a sequence without a step")
    found: list[Symbol] = []
    steps = [Symbol(x.to, part) for part in x.to.results("unstack", x.tensor, axis=axis)]
    for of_step in reversed(steps) if call["reverse"] else steps:
        states = step(of_step, states)
        found.append(states[0])
    if call["reverse"]:
        found.reverse()
    return (*map(_copy, states), found[0].of("stack", *found[1:], axis=axis))


def rnn(call: Call, x: Symbol, w: Symbol, r: Symbol, bias: Symbol, h: Symbol) -> Symbols:
    y = _activated(_product(x, w, bias) + _product(h, r), call["activation"])
    return _copy(y), _copy(y)


def svdf(call: Call, x: Symbol, feature: Symbol, time: Symbol, bias: Symbol | None, state: Symbol) -> Symbols:
    batch, (filters, memory), rank = x.shape[0], time.shape, call["rank"]
    newest = _product(x, feature).reshaped((batch, filters, 1))
    kept, older = newest, state.reshaped((batch, filters, memory))
    if memory > 1:
        recent, _ = _parts(older, 2, memory - 1, 1)
        kept = recent.of("concat", newest, axis=2)
    y = (kept * time).summed([2]).reshaped((batch, filters // rank, rank)).summed([2])
    zeros = x.constant(np.zeros((batch, filters, 1)))
    moved = zeros if memory == 1 else _parts(kept, 2, 1, memory - 1)[1].of("concat", zeros, axis=2)
    y = y if bias is None else y + bias
    return moved.of("reshape", shape=state.shape), _copy(_activated(y, call["activation"]))


def recurrence(call: Call, x: Symbol, r: Symbol, h: Symbol) -> Symbols:
    def step(sums: Symbol, states: Sequence[Symbol]) -> Symbols:
        total = _limited(sums + _product(states[0], r), call["clip"])
        return (_activated(total, call["activation"]),)

    return _over_time(call, x, [h], step)


def gru(call: Call, x: Symbol, r: Symbol, h: Symbol) -> Symbols:
    units, (gate, inner), clip = r.shape[1], call["activations"], call["clip"]
    early, late = _parts(r, 0, 2 * units, units)

    def step(sums: Symbol, states: Sequence[Symbol]) -> Symbols:
        (h,) = states
        first, last = _parts(sums, 1, 2 * units, units)
        gates = _activated(_limited(first + _product(h, early), clip), gate)
        update, reset = _parts(gates, 1, units, units)
        candidate = _activated(_limited(last + _product(reset * h, late), clip), inner)
        return ((1.0 - update) * candidate + update * h,)

    return _over_time(call, x, [h], step)


def gru_reset_after(call: Call, x: Symbol, r: Symbol, h: Symbol, bias: Symbol | None = None) -> Symbols:
    units, (gate, inner) = r.shape[1], call["activations"]

    def step(sums: Symbol, states: Sequence[Symbol]) -> Symbols:
        (h,) = states
        first, last = _parts(sums, 1, 2 * units, units)
        early, late = _parts(_product(h, r), 1, 2 * units, units)
        reset, update = _parts(_activated(first + early, gate), 1, units, units)
        inside = late if bias is None else late + bias
        candidate = _activated(last + reset * inside, inner)
        return ((1.0 - update) * candidate + update * h,)

    return _over_time(call, x, [h], step)


def lstm_recurrence(
    call: Call, x: Symbol, r: Symbol, h: Symbol, c: Symbol, peepholes: Symbol | None = None
) -> Symbols:
    units, (gate, inner, outer), clip = r.shape[1], call["activations"], call["clip"]
    early = 1 if call["coupled"] else 2  # gates that see the old cell state
    holes = None if peepholes is None else _parts(peepholes, 0, *[units] * (early + 1))

    def step(sums: Symbol, states: Sequence[Symbol]) -> Symbols:
        h, c = states
        *first, cell, last = _parts(sums + _product(h, r), 1, *[units] * (early + 2))
        if holes is not None:
            first = [total + hole * c for total, hole in zip(first, holes, strict=False)]
        gates = [_activated(_limited(total, clip), gate) for total in first]
        forget = 1.0 - gates[0] if call["coupled"] else gates[1]
        new = forget * c + gates[0] * _activated(_limited(cell, clip), inner)
        new = _limited(new, call["cell_clip"])
        last = last if holes is None else last + holes[-1] * new
        return _activated(_limited(last, clip), gate) * _activated(new, outer), new

    return _over_time(call, x, [h, c], step)


def basic_lstm(
    call: Call, x: Symbol, output_state: Symbol, weights: Symbol, bias: Symbol, cell_state: Symbol
) -> Symbols:
    operands = x.of("concat", output_state, axis=1)
    sums = _product(operands, weights, bias)
    entry, cell, forget, output = _parts(sums, 1, *[cell_state.shape[1]] * 4)
    c = entry.of("logistic") * cell.of("tanh") + forget.of("logistic") * cell_state
    return output.of("logistic") * c.of("tanh"), c, operands, sums


def lstm(call: Call, x: Symbol, *others: Symbol | None) -> Symbols:
    """Write lstm with the operands of its signature."""
    given = (x, *others, *[None] * (24 - 1 - len(others)))
    there = [index for index in range(4) if given[1 + index] is not None]
    activations = ("logistic", "logistic", call["activation"], "logistic")

    def operand(index: int) -> Symbol:
        found = given[index]
        assert found is not None
        return found

    def gate(index: int, sums: Symbol, h: Symbol, c: Symbol) -> Symbol:
        total = sums + _product(h, operand(5 + index))
        hole = None if index == 2 else given[9 + (index if index < 2 else 2)]
        total = total if hole is None else total + hole * c
        norm = given[20 + index]
        if norm is not None:
            centred = total - total.of("mean", axes=(1,), keep_dims=True)
            variance = (centred * centred).of("mean", axes=(1,), keep_dims=True)
            total = centred * (variance + EPSILON).of("rsqrt") * norm
        return _activated(total + operand(12 + index), activations[index])

    last: list[Symbol] = []

    def step(of_step: Symbol, states: Sequence[Symbol]) -> Symbols:
        h, c = states
        sums = {index: _product(of_step, operand(1 + index)) for index in there}
        forget = gate(1, sums[1], h, c)
        entry = gate(0, sums[0], h, c) if 0 in sums else 1.0 - forget
        cell = gate(2, sums[2], h, c)
        c = _limited(forget * c + entry * cell, call["cell_clip"])
        output = gate(3, sums[3], h, c)
        y = output * _activated(c, call["activation"])
        if given[16] is not None:
            y = _limited(_product(y, operand(16), given[17]), call["proj_clip"])
        last[:] = [*([entry] if 0 in sums else []), cell, forget, output]
        return y, c

    h, c, y = _over_time(call, x, [operand(18), operand(19)], step)
    return last[0].of("concat", *last[1:], axis=1), h, c, y
