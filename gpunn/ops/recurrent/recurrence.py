"""Recurrences: all steps of a sequence after their products with x; dtypes as in rnn.py.

The sums of all steps are one matrix product: fully_connected with the input weights and the bias of all
gates, one gate after the other. The recurrence adds what comes from the step before. The state is an operand
before and a result after. An activation is what gate_activation.py has. A `clip` limits the sums of gates to
-clip ... clip; 0 is off. Sequences are [B, T, ...], or [T, B, ...] with `time_major`; `reverse` begins at the
end. On the GPU states have up to 1024 units, and the weights are constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpunn.kernel import Kernel
from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import expect_bool, expect_entries, expect_float
from gpunn.ops.gradient import formula
from gpunn.ops.op import Op, matrices, op
from gpunn.ops.recurrent import formulas
from gpunn.ops.recurrent.gate_activation import GateActivation, apply_gate, check_gate, slope_of
from gpunn.ops.recurrent.host_steps import prepare_gru, prepare_lstm, prepare_rnn
from gpunn.ops.recurrent.rnn import (
    expect_floats,
    expect_sequence,
    expect_shapes,
    in_time,
    limited,
    out_of_time,
    widened,
)
from gpunn.ops.recurrent.sequence_kernel import Cell, sequence_kernels
from gpunn.types import Array, Shape, TensorType

_GRU = Cell("gru_recurrence", 3, 2, 2, ("h",))
_RNN = Cell("recurrence", 1, 1, 1, ("h",))


def _lstm_cell(call: Call) -> Cell:
    return Cell("lstm_recurrence", _lstm_gates(call), 1, 2, ("h", "c"), ("peepholes",))


def _lstm_gates(call: Call) -> int:
    return 3 if expect_bool(call, "coupled") else 4


def infer_states(
    call: Call, gates: int, *states: str, more: tuple[str, int] = ("", 0)
) -> tuple[TensorType, ...]:
    """Check the operands of a recurrence; return the types of its states, and of y.

    more: the name of an operand behind the states, and for how many gates it has a number for each unit.
    """
    x = expect_floats(call, 3)
    batch, units = expect_sequence(call), call.expect_rank(1, 2).shape[1]
    names = dict(enumerate(("x", "r", *states, more[0])))
    shapes: dict[int, Shape] = {1: (gates * units, units), 2 + len(states): (more[1] * units,)}
    expect_shapes(call, names, {**shapes, **{k: (batch, units) for k in range(2, 2 + len(states))}})
    if x.shape[2] != gates * units:
        call.fail(f"input 0 (x) must have {gates * units} sums for {units} units, got {list(x.shape)}")
    for attr in ("clip", "cell_clip"):
        if attr in call.attrs and not expect_float(call, attr) >= 0:
            call.fail(f"{attr} must be >= 0, got {call[attr]}")
    return (*[x.with_shape((batch, units))] * len(states), x.with_shape((*x.shape[:2], units)))


def _infer_rnn(call: Call) -> tuple[TensorType, ...]:
    check_gate(call, "activation", call["activation"])
    return infer_states(call, 1, "h")


def _infer_gru(call: Call) -> tuple[TensorType, ...]:
    for entry in expect_entries(call, "activations", 2):
        check_gate(call, "activations", entry)
    return infer_states(call, 3, "h")


def _infer_lstm(call: Call) -> tuple[TensorType, ...]:
    for entry in expect_entries(call, "activations", 3):
        check_gate(call, "activations", entry)
    gates = _lstm_gates(call)
    return infer_states(call, gates, "h", "c", more=("peepholes", gates - 1))


def _rnn_kernels(call: Call) -> list[Kernel]:
    return sequence_kernels(call, _RNN, {"apply": call["activation"]}, {"bounded": call["clip"]})


def _gru_kernels(call: Call) -> list[Kernel]:
    roles = dict(zip(("gate", "inner"), call["activations"], strict=True))
    return sequence_kernels(call, _GRU, roles, {"bounded": call["clip"]})


def _lstm_kernels(call: Call) -> list[Kernel]:
    roles = dict(zip(("gate", "inner", "outer"), call["activations"], strict=True))
    bounds = {"bounded": call["clip"], "clipped": call["cell_clip"]}
    return sequence_kernels(call, _lstm_cell(call), roles, bounds)


def gated_error(evaluation: Evaluation) -> Array:
    """Bound the error of a step of gates; as in lstm.py, a state that is off goes on to the next step.

    The sum of a gate has n products and x, whose magnitudes add up to s at most, so it is off by d = n eps s.
    With activations of slopes up to a and values up to b, a gate is off by a d, and (1 + a s) as much if it
    reads what another gate has changed. A new state is a sum of two products of a gate and of a state c or
    another gate: off by (c + 2 b) times that.
    """
    x, r, h = (np.abs(evaluation.input(k)) for k in range(3))
    states = [np.abs(s) for s in (*evaluation.inputs[2:4], *evaluation.results) if s is not None]
    activations = evaluation.call["activations"]
    seen = np.concatenate([h, states[-1].reshape(-1, len(r[0]))])
    sums = float(x.max(initial=0.0)) + float((seen @ r.T).max(initial=0.0))
    ends = np.array([-sums, sums])
    value = max(1.0, *(float(np.abs(apply_gate(ends, f)).max()) for f in activations))
    slope = max(1.0, *map(slope_of, activations))
    state = max(float(s.max(initial=0.0)) for s in states)
    return np.asarray(
        4 * (len(r[0]) + 2) * EPS * sums * slope * (1 + slope_of(activations[0]) * sums) * (state + 2 * value)
    )


_GATED = Accuracy(formula=gated_error)


def run_steps(
    x: Array, states: tuple[Array, ...], step: Callable[..., tuple[Array, ...]], order: tuple[bool, bool]
) -> tuple[Array, ...]:
    """Run step(x[t], *states) -> states for all steps; return the last states, and the first of each step."""
    sums = in_time(x, *order)
    results = np.empty((*sums.shape[:2], states[0].shape[1]), x.dtype)
    for number, of_step in enumerate(sums):
        states = step(of_step, *states)
        results[number] = states[0]
    return (*(s.astype(x.dtype, copy=False) for s in states), out_of_time(results, x, *order))


@op(
    _infer_rnn,
    _rnn_kernels,
    precise=True,
    unbounded=True,
    flops=matrices(1),
    prepare=prepare_rnn,
    formula=formula(formulas.recurrence),
)
def recurrence(
    x: Array,
    r: Array,
    h: Array,
    *,
    activation: GateActivation = None,
    clip: float = 0.0,
    time_major: bool = False,
    reverse: bool = False,
) -> tuple[Array, ...]:
    """Compute activation(x[t] + h . r^T) for each step of a sequence, with h from the step before: (state,
    y).

    x and y [B, T, U], or [T, B, U] with time_major; r [U, U]; the state h is [B, U] before and after.
    After a product of all steps at once, this is a sequence of RNN. Raises ModelError for other shapes, mixed
    dtypes, an unknown activation and a negative clip. Accuracy: that of one step; its errors go on to the
    next steps. TFLite schema, SequenceRNNOptions; NeuralNetwork.proto, SimpleRecurrentLayerParams.
    """

    weights = widened(r).T

    def step(of_step: Array, h: Array) -> tuple[Array, ...]:
        sums = of_step + h.astype(weights.dtype, copy=False) @ weights
        return (apply_gate(limited(sums, clip), activation).astype(x.dtype, copy=False),)

    return run_steps(x, (h,), step, (time_major, reverse))


@op(
    _infer_gru,
    _gru_kernels,
    precise=True,
    unbounded=True,
    flops=matrices(1),
    accuracy=_GATED,
    prepare=prepare_gru,
    formula=formula(formulas.gru),
)
def gru_recurrence(
    x: Array,
    r: Array,
    h: Array,
    *,
    activations: Sequence[GateActivation] = ("logistic", "tanh"),
    clip: float = 0.0,
    time_major: bool = False,
    reverse: bool = False,
) -> tuple[Array, ...]:
    """Run a gated recurrent unit over the sums of a sequence: (state, y).

    x [B, T, 3 U], or [T, B, 3 U] with time_major: the sums of the update, the reset and the candidate gate;
    r [3 U, U] likewise; the state h is [B, U] before and after; y [B, T, U] or [T, B, U]. With f and g the
    `activations`: update = f(x0 + h . r0^T), reset = f(x1 + h . r1^T), candidate = g(x2 + (reset h) . r2^T),
    and the new h = (1 - update) candidate + update h. Raises ModelError for other shapes, mixed dtypes,
    unknown activations and a negative clip. NeuralNetwork.proto, GRULayerParams.
    """
    (gate, inner), units, weights = activations, r.shape[1], widened(r).T

    def step(of_step: Array, h: Array) -> tuple[Array, ...]:
        sums = of_step[:, : 2 * units] + h @ weights[:, : 2 * units]
        gates = apply_gate(limited(sums, clip), gate)
        update, reset = gates[:, :units], gates[:, units:]
        sums = of_step[:, 2 * units :] + (reset * h) @ weights[:, 2 * units :]
        return ((1 - update) * apply_gate(limited(sums, clip), inner) + update * h,)

    return run_steps(x, (widened(h),), step, (time_major, reverse))


@op(
    _infer_lstm,
    _lstm_kernels,
    precise=True,
    unbounded=True,
    flops=matrices(1),
    accuracy=_GATED,
    prepare=prepare_lstm,
    formula=formula(formulas.lstm_recurrence),
)
def lstm_recurrence(
    x: Array,
    r: Array,
    h: Array,
    c: Array,
    peepholes: Array | None = None,
    *,
    activations: Sequence[GateActivation] = ("logistic", "tanh", "tanh"),
    coupled: bool = False,
    clip: float = 0.0,
    cell_clip: float = 0.0,
    time_major: bool = False,
    reverse: bool = False,
) -> tuple[Array, ...]:
    """Run a long short-term memory over the sums of a sequence: (output state, cell state, y).

    x [B, T, 4 U], or [T, B, 4 U] with time_major: the sums of the input, the forget, the cell and the output
    gate; r [4 U, U] likewise; states h and c are [B, U] before and after; peepholes [3 U] of the input, the
    forget and the output gate; y [B, T, U] or [T, B, U]. If the input and the forget gate are `coupled`, the
    forget gate is 1 - input gate, and has no sums, weights and peepholes. With f, g and k the `activations`
    of gates, of the cell gate and of the cell state: input, forget, output = f(x + h . r^T + peephole c),
    cell = g(x + h . r^T), the new c = forget c + input cell, limited to `cell_clip` if that is not 0, and the
    new h = output k(c); the output gate's peephole reads the new c. Raises ModelError for other shapes, mixed
    dtypes, unknown activations and negative clips. NeuralNetwork.proto, LSTMParams.
    """
    (gate, inner, outer), weights, units = activations, widened(r).T, r.shape[1]
    early = 1 if coupled else 2  # gates that see the old cell state
    diagonal = None if peepholes is None else peepholes.reshape(early + 1, units)

    def step(of_step: Array, h: Array, c: Array) -> tuple[Array, ...]:
        sums = (of_step + h @ weights).reshape(len(h), early + 2, units)
        if diagonal is not None:
            sums[:, :early] += diagonal[:early] * c[:, None]
        gates = apply_gate(limited(sums[:, :early], clip), gate)
        entry, forget = gates[:, 0], 1 - gates[:, 0] if coupled else gates[:, 1]
        c = limited(forget * c + entry * apply_gate(limited(sums[:, -2], clip), inner), cell_clip)
        last = sums[:, -1] if diagonal is None else sums[:, -1] + diagonal[-1] * c
        return apply_gate(limited(last, clip), gate) * apply_gate(c, outer), c

    return run_steps(x, (widened(h), widened(c)), step, (time_major, reverse))


OPS: tuple[Op, ...] = (recurrence, gru_recurrence, lstm_recurrence)
