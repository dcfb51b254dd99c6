"""Long short-term memory: steps and sequences in every documented variant, and the cell of BasicLSTM.

The state is an operand before and a result after. dtype: float32 or float16, the same for all operands.
`activation` names one of unary.ACTIVATIONS, or is None; it is part of these ops' meaning, so they take no
fused activation. Accuracy: as in rnn.py; in a sequence the error of a state goes on to the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpunn.ops.accuracy import EPS, Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import expect_float
from gpunn.ops.elementwise.unary import apply_activation
from gpunn.ops.gradient import formula
from gpunn.ops.op import Op, matrices, op
from gpunn.ops.recurrent import basic_lstm_integer, formulas
from gpunn.ops.recurrent.host_steps import prepare_whole_lstm
from gpunn.ops.recurrent.lstm_cell import Cell, Gate
from gpunn.ops.recurrent.lstm_integer import expect_integers, gates_type
from gpunn.ops.recurrent.lstm_integer8 import INTEGER
from gpunn.ops.recurrent.rnn import (
    THERE,
    expect_operands,
    expect_sequence,
    expect_shapes,
    expect_types,
    in_time,
    out_of_time,
    product,
)
from gpunn.types import Array, Shape, TensorType

HOST = "LSTM runs on the numpy backend"

_GATES = ("input", "forget", "cell", "output")
OPERANDS = dict(
    enumerate(
        (
            "x",
            *(f"input_to_{gate}_weights" for gate in _GATES),
            *(f"recurrent_to_{gate}_weights" for gate in _GATES),
            *(f"cell_to_{gate}_weights" for gate in ("input", "forget", "output")),
            *(f"{gate}_bias" for gate in _GATES),
            "projection_weights",
            "projection_bias",
            "output_state",
            "cell_state",
            *(f"{gate}_layer_norm_coefficients" for gate in _GATES),
        )
    )
)
BASIC = dict(enumerate(("x", "output_state", "weights", "bias", "cell_state")))
MANDATORY = (2, 3, 4, 6, 7, 8, 13, 14, 15, 18, 19)
_INPUT_GATE = (1, 5, 12)
_PEEPHOLES = (10, 11)
_NORMS = (21, 22, 23)  # beside these, 20 is there where the input gate is


def _expect_optional(call: Call) -> None:
    """Raise ModelError unless the optional operands of an LSTM form one of the documented combinations."""
    expect_operands(call, OPERANDS, MANDATORY)
    gate = {call.has(index) for index in _INPUT_GATE}
    if len(gate) > 1:
        call.fail(f"{', '.join(OPERANDS[i] for i in _INPUT_GATE)} must be all there or all absent")
    _expect_together(call, _PEEPHOLES, 9, gate == {True})
    if call.has(17) and not call.has(16):
        call.fail("projection_bias must be absent where projection_weights are")
    _expect_together(call, _NORMS, 20, gate == {True})


def _expect_together(call: Call, group: Sequence[int], of_input_gate: int, gate: bool) -> None:
    """Raise ModelError unless operands are all there, with that of the input gate, or all absent."""
    there = {call.has(index) for index in group}
    if len(there) > 1 or call.has(of_input_gate) != (there == {True} and gate):
        call.fail(
            f"{' and '.join(OPERANDS[i] for i in group)} must be all there or all absent, and "
            f"{OPERANDS[of_input_gate]} be there with them unless there is no input gate"
        )


def _infer_lstm(call: Call) -> tuple[TensorType, ...]:
    x = call.expect_rank(0, 2, 3)
    _expect_optional(call)
    if x.quantization is None:
        expect_types(call, 2, 3)
    else:
        expect_integers(call)
    for attr in ("cell_clip", "proj_clip"):
        if not expect_float(call, attr) >= 0:
            call.fail(f"{attr} must be >= 0, got {call[attr]}")
    batch, depth = expect_sequence(call), x.shape[-1]
    units = call.expect_rank(2, 2).shape[0]
    width = call.expect_rank(16, 2).shape[0] if call.has(16) else units
    shapes: dict[int, Shape] = {k: (units, depth) for k in range(1, 5)}
    shapes |= {k: (units, width) for k in range(5, 9)} | {k: (units,) for k in range(9, 24)}
    shapes |= {16: (width, units), 17: (width,), 18: (batch, width), 19: (batch, units)}
    expect_shapes(call, OPERANDS, shapes)
    gates = (batch, (4 if call.has(1) else 3) * units)
    scratch = x.with_shape(gates) if x.quantization is None else gates_type(gates)
    return scratch, call.input(18), call.input(19), call.input(18).with_shape((*x.shape[:-1], width))


def _error(evaluation: Evaluation) -> Array:
    """Bound the error of an LSTM.

    Gates are sums of n products in all, whose magnitudes add up to s at most: each is off by d = n eps s. A
    new cell f c + i g is off by (|c| + 2) d, as the gates have a slope of 1 at most and are no larger than 1,
    and a result is off by no more; a projection multiplies that by the sum of a row's magnitudes.
    """
    size, terms, cell, projection = 0.0, 1, 1.0, 1.0
    x, state = np.abs(evaluation.input(0)), np.abs(evaluation.input(18))
    for index, value in enumerate(evaluation.inputs[1:], 1):
        largest = 0.0 if value is None else float(np.abs(value).max(initial=0.0))
        if value is None or index in (0, 18):
            continue
        if index <= 8:
            size = max(size, float(((x if index <= 4 else state) @ np.abs(value).T).max(initial=0.0)))
            terms = max(terms, value.shape[1])
        elif index == 16:
            projection = max(1.0, float(np.abs(value).sum(1).max(initial=0.0)))
        elif index == 19:
            cell += largest
        else:
            size = max(size, largest)
    return np.asarray(4 * (2 * terms + 2) * EPS * size * (cell + 2) * projection)


@op(
    _infer_lstm,
    host_reason=HOST,
    precise=True,
    prepare=prepare_whole_lstm,
    quantized=INTEGER,
    flops=matrices(*range(1, 9), 16),
    accuracy=Accuracy(formula=_error),
    unbounded=True,
    formula=formula(formulas.lstm),
)
def lstm(
    x: Array,
    input_to_input_weights: Array | None = None,
    input_to_forget_weights: Array = THERE,
    input_to_cell_weights: Array = THERE,
    input_to_output_weights: Array = THERE,
    recurrent_to_input_weights: Array | None = None,
    recurrent_to_forget_weights: Array = THERE,
    recurrent_to_cell_weights: Array = THERE,
    recurrent_to_output_weights: Array = THERE,
    cell_to_input_weights: Array | None = None,
    cell_to_forget_weights: Array | None = None,
    cell_to_output_weights: Array | None = None,
    input_bias: Array | None = None,
    forget_bias: Array = THERE,
    cell_bias: Array = THERE,
    output_bias: Array = THERE,
    projection_weights: Array | None = None,
    projection_bias: Array | None = None,
    output_state: Array = THERE,
    cell_state: Array = THERE,
    input_layer_norm_coefficients: Array | None = None,
    forget_layer_norm_coefficients: Array | None = None,
    cell_layer_norm_coefficients: Array | None = None,
    output_layer_norm_coefficients: Array | None = None,
    *,
    activation: str | None = "tanh",
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    time_major: bool = False,
    reverse: bool = False,
    intermediates: tuple[tuple[float, int] | None, ...] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Run a step or a sequence of a long short-term memory: (scratch, output state, cell state, output).

    x [B, I], input_to_* [U, I], recurrent_to_* [U, O], cell_to_* [U], biases [U], projection_weights [O, U]
    (O = U without), projection_bias [O], output_state [B, O], cell_state [B, U], coefficients [U]; results
    [B, 4 U] ([B, 3 U] without input gate), [B, O], [B, U], [B, O]. A sequence x is [B, T, I], or [T, B, I]
    with time_major, and the last result has the same order; `reverse` begins at its end. The scratch result
    contains the gates of the last step; its content has no meaning. Without the operands of the input gate,
    its value is 1 - forget gate. The cell_to_* weights are peepholes; that of the output gate reads the new
    cell state. With coefficients, the sums of a gate are normalised to mean 0 and variance 1 and multiplied
    by them before the bias is added. Clips of 0 are off. Quantised: x, matrices, output state and y int8,
    peepholes, cell state and coefficients int16, biases int32; `intermediates` are scales and zero points of
    each gate's sums before normalisation, and of the projection's input, or the 12 of lstm_integer8.py.
    Raises ModelError for other shapes, mixed dtypes, undocumented combinations of optional operands, an
    unknown activation and negative clips. NeuralNetworks.h, ANEURALNETWORKS_LSTM; TFLite schema, LSTMOptions,
    UnidirectionalSequenceLSTMOptions.
    """
    steps = in_time(x, time_major, reverse)
    gates: list[tuple[Any, ...]] = list(
        zip(
            (input_to_input_weights, input_to_forget_weights, input_to_cell_weights, input_to_output_weights),
            (
                recurrent_to_input_weights,
                recurrent_to_forget_weights,
                recurrent_to_cell_weights,
                recurrent_to_output_weights,
            ),
            (input_bias, forget_bias, cell_bias, output_bias),
            (cell_to_input_weights, cell_to_forget_weights, None, cell_to_output_weights),
            (
                input_layer_norm_coefficients,
                forget_layer_norm_coefficients,
                cell_layer_norm_coefficients,
                output_layer_norm_coefficients,
            ),
            ("logistic", "logistic", activation, "logistic"),
            strict=True,
        )
    )
    input_gate = None if input_to_input_weights is None else Gate(*gates[0])
    forget_gate, cell_gate, output_gate = (Gate(*gate) for gate in gates[1:])
    clips = cell_clip, proj_clip
    cell = Cell(input_gate, forget_gate, cell_gate, output_gate, projection_weights, projection_bias, clips)
    advance = cell.over(steps)
    h, c, scratch = output_state, cell_state, [np.zeros_like(cell_state)] * (3 if input_gate is None else 4)
    found = np.empty((len(steps), *h.shape), steps.dtype)
    for step in range(len(steps)):
        scratch, h, c = advance(step, h, c)
        found[step] = h
    y = out_of_time(found, x, time_major, reverse)
    return np.concatenate(scratch, axis=1).astype(x.dtype), h.astype(x.dtype), c.astype(x.dtype), y


def _infer_basic(call: Call) -> tuple[TensorType, ...]:
    integer = call.x.quantization is not None
    types = basic_lstm_integer.expect_integers(call) if integer else (expect_types(call, 2),) * 4
    batch, depth = call.expect_rank(0, 2).shape
    units = call.expect_rank(1, 2).shape[1]
    shapes: dict[int, Shape] = {1: (batch, units), 2: (4 * units, depth + units), 3: (4 * units,)}
    expect_shapes(call, BASIC, {**shapes, 4: (batch, units)})
    depths = units, units, depth + units, 4 * units
    return tuple(type.with_shape((batch, n)) for type, n in zip(types, depths, strict=True))


@op(
    _infer_basic,
    host_reason=HOST,
    precise=True,
    quantized=basic_lstm_integer.INTEGER,
    flops=matrices(2),
    unbounded=True,
    formula=formula(formulas.basic_lstm),
)
def basic_lstm(
    x: Array, output_state: Array, weights: Array, bias: Array, cell_state: Array
) -> tuple[Array, Array, Array, Array]:
    """Run a step of a long short-term memory with all weights in one: (output, cell state, operands, sums).

    x [B, I], output_state and cell_state [B, U], weights [4 U, I + U] and bias [4 U] of the input, cell,
    forget and output gates, in this order; results [B, U], [B, U], [B, I + U], [B, 4 U]: output and cell
    state, x beside the old output, and the gates before their activations. Quantised: x, output states,
    weights and their results uint8, cell state and sums int16, bias int32. Raises ModelError for other
    shapes, mixed dtypes and, if quantised, for scales that TFLite's kernel does not have. TFLite schema,
    LSTMKernelType BASIC.
    """
    operands = np.concatenate([x, output_state], axis=1)
    sums = product(operands, weights) + bias
    input_gate, cell_gate, forget_gate, output_gate = np.split(sums, 4, axis=1)
    c = apply_activation(input_gate, "logistic") * np.tanh(cell_gate)
    c = c + apply_activation(forget_gate, "logistic") * cell_state
    y = apply_activation(output_gate, "logistic") * np.tanh(c)
    return y.astype(x.dtype), c.astype(x.dtype), operands, sums.astype(x.dtype)


OPS: tuple[Op, ...] = (lstm, basic_lstm)
