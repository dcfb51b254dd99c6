"""Recurrent layers, one time step each: RNN, SVDF, LSTM.

The state comes in as an operand and goes out as a result.
dtype: float32 or float16, the same for all operands. `activation` names one of unary.ACTIVATIONS, or is
None; it is part of these ops' meaning, so they take no fused one. Accuracy: the general promise (atol
1e-5, rtol 5 eps of float32), and n eps sum(|w x|) beside it for each product of n terms, since sums
round at every term.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpunn.kernel import Kernel, Read, Write
from gpunn.ops.check import FLOATS, expect_float, expect_int, expect_unquantised
from gpunn.ops.op import Call, Op, op
from gpunn.ops.team import teams
from gpunn.ops.unary import activation_function, apply_activation, check_activation
from gpunn.types import Array, Shape, TensorType

# Python takes no mandatory parameter after an optional one; infer sees to it that these are there.
_THERE: Any = None


def _expect_types(call: Call) -> TensorType:
    """The type of x [B, I]; every operand that is there has its dtype."""
    x = expect_unquantised(call, 0, *FLOATS)
    call.expect_rank(0, 2)
    for index in range(1, len(call.inputs)):
        if call.has(index):
            expect_unquantised(call, index, x.dtype)
    check_activation(call)
    return x


def _expect_shapes(call: Call, names: Mapping[int, str], shapes: Mapping[int, Shape]) -> None:
    """ModelError unless each operand of `shapes` that is there has that shape."""
    for index, shape in shapes.items():
        if call.has(index) and call.input(index).shape != shape:
            found = list(call.input(index).shape)
            call.fail(f"input {index} ({names[index]}) must have shape {list(shape)}, got {found}")


def _expect_there(call: Call, names: Mapping[int, str], indices: tuple[int, ...]) -> None:
    for index in indices:
        if not call.has(index):
            call.fail(f"input {index} ({names[index]}) must not be absent")


def _product(x: Array, w: Array) -> Array:
    """x . w^T in float32 or wider."""
    wide = np.result_type(x, np.float32)
    return np.asarray(x.astype(wide) @ w.astype(wide).T)


def _gate(x: Array, w: Array, h: Array, r: Array, bias: Array) -> Array:
    return _product(x, w) + _product(h, r) + bias


_RNN = dict(enumerate(("x", "w", "r", "bias", "h")))


def _infer_rnn(call: Call) -> tuple[TensorType, ...]:
    x = _expect_types(call)
    batch, depth = x.shape
    units = call.expect_rank(1, 2).shape[0]
    shapes: dict[int, Shape] = {1: (units, depth), 2: (units, units), 3: (units,), 4: (batch, units)}
    _expect_shapes(call, _RNN, shapes)
    return (x.with_shape((batch, units)),) * 2


def _rnn_kernel(call: Call) -> Kernel:
    depth, units, count = call.x.shape[1], call.y.shape[1], call.y.size
    threads, workgroup, reason = teams(count, depth + units)
    return Kernel(
        body="rnn",
        threads=threads,
        workgroup=workgroup,
        reads=tuple(Read(name, index) for index, name in _RNN.items()),
        writes=(Write("h_out", 0), Write("y", 1)),
        params={"count": count, "units": units, "depth": depth},
        functions=activation_function(call),
        reason=reason,
    )


@op(_infer_rnn, _rnn_kernel)
def rnn(
    x: Array, w: Array, r: Array, bias: Array, h: Array, *, activation: str | None = None
) -> tuple[Array, Array]:
    """activation(x . w^T + h . r^T + bias), twice: as the new state and as the result.

    x [B, I], w [U, I], r [U, U], bias [U], state h [B, U]; results [B, U]. Raises ModelError for other
    shapes, mixed dtypes and an unknown activation. NeuralNetworks.h, ANEURALNETWORKS_RNN; TFLite schema,
    RNNOptions.
    """
    y = apply_activation(_gate(x, w, h, r, bias), activation).astype(x.dtype)
    return y, y


_SVDF = dict(enumerate(("x", "weights_feature", "weights_time", "bias", "state")))


def _infer_svdf(call: Call) -> tuple[TensorType, ...]:
    x = _expect_types(call)
    _expect_there(call, _SVDF, (1, 2, 4))
    rank = expect_int(call, "rank", call["rank"])
    if rank < 1:
        call.fail(f"rank must be >= 1, got {rank}")
    batch, depth = x.shape
    filters, memory = call.expect_rank(1, 2).shape[0], call.expect_rank(2, 2).shape[1]
    if filters % rank:
        call.fail(f"the number of filters must be divisible by rank {rank}, got {filters}")
    if memory < 1:
        call.fail(f"input 2 ({_SVDF[2]}) must have a memory of 1 or more, got {list(call.input(2).shape)}")
    units = filters // rank
    shapes: dict[int, Shape] = {1: (filters, depth), 2: (filters, memory), 3: (units,)}
    _expect_shapes(call, _SVDF, {**shapes, 4: (batch, filters * memory)})
    return call.input(4), x.with_shape((batch, units))


def _svdf_kernel(call: Call) -> Kernel:
    depth, memory, units = call.x.shape[1], call.input(2).shape[1], call.outputs[1].shape[1]
    count = call.outputs[1].size
    threads, workgroup, reason = teams(count, max(depth, memory))
    names = ("x", "feature", "time", "bias", "state")
    return Kernel(
        body="svdf",
        threads=threads,
        workgroup=workgroup,
        reads=tuple(Read(n, i if call.has(i) else None) for i, n in enumerate(names)),
        writes=(Write("state_out", 0), Write("y", 1)),
        params={"count": count, "units": units, "rank": call["rank"], "depth": depth, "memory": memory},
        functions=activation_function(call),
        reason=reason,
    )


@op(_infer_svdf, _svdf_kernel)
def svdf(
    x: Array,
    weights_feature: Array = _THERE,
    weights_time: Array = _THERE,
    bias: Array | None = None,
    state: Array = _THERE,
    *,
    rank: int,
    activation: str | None = None,
) -> tuple[Array, Array]:
    """A layer whose weights are a sum of `rank` products of a filter over features and one over time.

    Each of the F = U * rank filters (those of a unit one after another) has a memory of M entries, whose
    newest becomes weights_feature . x; the result is activation(bias + sum over a unit's filters and their
    memories of memory * weights_time). The new state is the memory moved on by one, its newest place 0.
    x [B, I], weights_feature [F, I], weights_time [F, M], bias [U] (may be absent, nothing else may), state
    [B, F * M] (the documents say (M - 1), all implementations M; the newest place's old content is not
    used); results: state [B, F * M], y [B, U]. Raises ModelError for other shapes, mixed dtypes, a rank
    that does not divide F, and an unknown activation. NeuralNetworks.h, ANEURALNETWORKS_SVDF; TFLite schema,
    SVDFOptions.
    """
    batch, (filters, memory) = x.shape[0], weights_time.shape
    newest = _product(x, weights_feature)[:, :, None]
    kept = np.concatenate([state.reshape(batch, filters, memory)[:, :, :-1], newest], axis=2)
    y = np.sum(kept * weights_time, axis=2).reshape(batch, filters // rank, rank).sum(axis=2)
    if bias is not None:
        y = y + bias
    moved = np.concatenate([kept[:, :, 1:], np.zeros_like(kept[:, :, :1])], axis=2)
    return moved.reshape(state.shape).astype(x.dtype), apply_activation(y, activation).astype(x.dtype)


_LSTM = dict(
    enumerate(
        (
            "x",
            *(f"input_to_{gate}_weights" for gate in ("input", "forget", "cell", "output")),
            *(f"recurrent_to_{gate}_weights" for gate in ("input", "forget", "cell", "output")),
            *(f"cell_to_{gate}_weights" for gate in ("input", "forget", "output")),
            *(f"{gate}_bias" for gate in ("input", "forget", "cell", "output")),
            "projection_weights",
            "projection_bias",
            "output_state",
            "cell_state",
        )
    )
)
_INPUT_GATE = (1, 5, 12)
_PEEPHOLES = (10, 11)
_MANDATORY = (2, 3, 4, 6, 7, 8, 13, 14, 15, 18, 19)


def _expect_optional(call: Call) -> None:
    """ModelError unless the optional operands of an LSTM are there in one of the documented combinations."""
    _expect_there(call, _LSTM, _MANDATORY)
    gate = {call.has(index) for index in _INPUT_GATE}
    if len(gate) > 1:
        call.fail(f"{', '.join(_LSTM[i] for i in _INPUT_GATE)} must be all there or all absent")
    peepholes = {call.has(index) for index in _PEEPHOLES}
    if len(peepholes) > 1 or call.has(9) != (peepholes == {True} and gate == {True}):
        call.fail(
            "cell_to_forget_weights and cell_to_output_weights must both be there or both absent, and "
            "cell_to_input_weights be there with them unless there is no input gate"
        )
    if call.has(17) and not call.has(16):
        call.fail("projection_bias must be absent where projection_weights are")


def _infer_lstm(call: Call) -> tuple[TensorType, ...]:
    x = _expect_types(call)
    _expect_optional(call)
    for attr in ("cell_clip", "proj_clip"):
        if not expect_float(call, attr) >= 0:
            call.fail(f"{attr} must be >= 0, got {call[attr]}")
    batch, depth = x.shape
    units = call.expect_rank(2, 2).shape[0]
    width = call.expect_rank(16, 2).shape[0] if call.has(16) else units
    shapes: dict[int, Shape] = {k: (units, depth) for k in range(1, 5)}
    shapes |= {k: (units, width) for k in range(5, 9)} | {k: (units,) for k in range(9, 16)}
    shapes |= {16: (width, units), 17: (width,), 18: (batch, width), 19: (batch, units)}
    _expect_shapes(call, _LSTM, shapes)
    gates = 4 if call.has(1) else 3
    return tuple(x.with_shape((batch, n)) for n in (gates * units, width, units, width))


def _clip(x: Array, bound: float) -> Array:
    return np.clip(x, x.dtype.type(-bound), x.dtype.type(bound)) if bound > 0 else x


@op(_infer_lstm, host_reason="LSTM runs on the numpy backend")
def lstm(
    x: Array,
    input_to_input_weights: Array | None = None,
    input_to_forget_weights: Array = _THERE,
    input_to_cell_weights: Array = _THERE,
    input_to_output_weights: Array = _THERE,
    recurrent_to_input_weights: Array | None = None,
    recurrent_to_forget_weights: Array = _THERE,
    recurrent_to_cell_weights: Array = _THERE,
    recurrent_to_output_weights: Array = _THERE,
    cell_to_input_weights: Array | None = None,
    cell_to_forget_weights: Array | None = None,
    cell_to_output_weights: Array | None = None,
    input_bias: Array | None = None,
    forget_bias: Array = _THERE,
    cell_bias: Array = _THERE,
    output_bias: Array = _THERE,
    projection_weights: Array | None = None,
    projection_bias: Array | None = None,
    output_state: Array = _THERE,
    cell_state: Array = _THERE,
    *,
    activation: str | None = "tanh",
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
) -> tuple[Array, Array, Array, Array]:
    """One step of a long short-term memory: (scratch, output state, cell state, output).

    x [B, I], input_to_* [U, I], recurrent_to_* [U, O], cell_to_* [U], biases [U], projection_weights
    [O, U] (O = U without), projection_bias [O], output_state [B, O], cell_state [B, U]; results [B, 4 U]
    ([B, 3 U] without input gate), [B, O], [B, U], [B, O]. The scratch result holds the gates and means
    nothing. Without the input gate's three operands its value is 1 - forget gate. The cell_to_* weights are
    peepholes, the output gate's onto the new cell state. Clips of 0 are off. Raises ModelError for other
    shapes, mixed dtypes, optional operands in combinations that are not documented, an unknown
    activation and negative clips. NeuralNetworks.h, ANEURALNETWORKS_LSTM; TFLite schema, LSTMOptions.
    """
    h, c = output_state, cell_state
    forget = _gate(x, input_to_forget_weights, h, recurrent_to_forget_weights, forget_bias)
    forget = _sigmoid(forget, cell_to_forget_weights, c)
    if input_to_input_weights is None or recurrent_to_input_weights is None or input_bias is None:
        enter = 1 - forget
    else:
        enter = _gate(x, input_to_input_weights, h, recurrent_to_input_weights, input_bias)
        enter = _sigmoid(enter, cell_to_input_weights, c)
    cell = _gate(x, input_to_cell_weights, h, recurrent_to_cell_weights, cell_bias)
    cell = apply_activation(cell, activation)
    c = _clip(forget * c + enter * cell, cell_clip)
    leave = _gate(x, input_to_output_weights, h, recurrent_to_output_weights, output_bias)
    leave = _sigmoid(leave, cell_to_output_weights, c)
    y = leave * apply_activation(c, activation)
    if projection_weights is not None:
        y = _product(y, projection_weights)
        y = _clip(y if projection_bias is None else y + projection_bias, proj_clip)
    gates = [cell, forget, leave] if input_to_input_weights is None else [enter, cell, forget, leave]
    scratch, y, c = (result.astype(x.dtype) for result in (np.concatenate(gates, axis=1), y, c))
    return scratch, y, c, y


def _sigmoid(gate: Array, peephole: Array | None, c: Array) -> Array:
    return apply_activation(gate if peephole is None else gate + peephole * c, "logistic")


OPS: tuple[Op, ...] = (rnn, svdf, lstm)
