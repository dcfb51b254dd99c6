"""Recurrent operations: steps of RNN and SVDF, and what operations on sequences share.

The state is an operand before and a result after. dtype: float32 or float16, the same for all operands.
`activation` names one of unary.ACTIVATIONS, or is None; it is part of these ops' meaning, so they take no
fused activation. Accuracy: the general promise (atol 1e-5, rtol 5 eps of float32), plus n eps sum(|w x|) for
each product of n terms, because sums round at every term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gpunn.kernel import Kernel, Read, Write, ceil_div
from gpunn.ops.accuracy import matrix_terms, sums
from gpunn.ops.call import Call
from gpunn.ops.check import FLOATS, expect_bool, expect_int, expect_stored, expect_unquantised
from gpunn.ops.elementwise.unary import activation_function, apply_activation, check_activation
from gpunn.ops.gradient import formula
from gpunn.ops.kernels.chain import member_sums
from gpunn.ops.kernels.cooperative import cooperative_group
from gpunn.ops.op import Op, matrices, op
from gpunn.ops.recurrent import formulas
from gpunn.ops.recurrent.svdf_integer import INTEGER, dtypes, of_integers
from gpunn.ops.recurrent.svdf_kernel import svdf_kernels
from gpunn.types import Array, Shape, TensorType

# Python takes no mandatory parameter after an optional one; infer sees to it that these are there.
THERE: Any = None


def expect_floats(call: Call, *ranks: int) -> TensorType:
    """Return the type of x, which must have one of these ranks; all other operands must have its dtype."""
    x = expect_unquantised(call, 0, *FLOATS)
    call.expect_rank(0, *ranks)
    for index in range(1, len(call.inputs)):
        if call.has(index):
            expect_unquantised(call, index, x.dtype)
    return x


def expect_types(call: Call, *ranks: int) -> TensorType:
    """Return the type of x as expect_floats() does; the attribute `activation` must be one, too."""
    x = expect_floats(call, *ranks)
    check_activation(call)
    return x


def expect_shapes(call: Call, names: Mapping[int, str], shapes: Mapping[int, Shape]) -> None:
    """Raise ModelError unless each operand of `shapes` that is there has that shape."""
    for index, shape in shapes.items():
        if call.has(index) and call.input(index).shape != shape:
            found = list(call.input(index).shape)
            call.fail(f"input {index} ({names[index]}) must have shape {list(shape)}, got {found}")


def expect_operands(call: Call, names: Mapping[int, str], indices: tuple[int, ...]) -> None:
    """Raise ModelError unless these operands are there."""
    for index in indices:
        if not call.has(index):
            call.fail(f"input {index} ({names[index]}) must not be absent")


def widened(x: Array) -> Array:
    """Convert float16 to float32; wider dtypes stay as they are."""
    return x.astype(np.result_type(x, np.float32), copy=False)


def product(x: Array, w: Array) -> Array:
    """Compute x . w^T in float32 or a wider dtype."""
    return np.asarray(widened(x) @ widened(w).T)


def limited(x: Array, bound: float) -> Array:
    """Clip to -bound ... bound, unless the bound is 0."""
    return np.clip(x, x.dtype.type(-bound), x.dtype.type(bound)) if bound > 0 else x


def _gate(x: Array, w: Array, h: Array, r: Array, bias: Array) -> Array:
    return product(x, w) + product(h, r) + bias


_RNN = dict(enumerate(("x", "w", "r", "bias", "h")))


def _infer_rnn(call: Call) -> tuple[TensorType, ...]:
    x = expect_types(call, 2)
    batch, depth = x.shape
    units = call.expect_rank(1, 2).shape[0]
    shapes: dict[int, Shape] = {1: (units, depth), 2: (units, units), 3: (units,), 4: (batch, units)}
    expect_shapes(call, _RNN, shapes)
    return (x.with_shape((batch, units)),) * 2


def _rnn_kernels(call: Call) -> list[Kernel]:
    depth, units, count = call.x.shape[1], call.y.shape[1], call.y.size
    group = cooperative_group(count, depth + units, call.device)
    kernel = Kernel(
        body="rnn",
        threads=group.threads,
        workgroup=group.workgroup,
        reads=tuple(Read(name, index) for index, name in _RNN.items()),
        writes=(Write("h_out", 0), Write("y", 1)),
        params={"count": count, "units": units, "depth": depth},
        constants=group.constants,
        functions=activation_function(call),
        reason=group.reason,
    )
    rounds = ceil_div(depth, group.size) + ceil_div(units, group.size)
    return member_sums(call, kernel, group, (rounds,))


@op(
    _infer_rnn,
    _rnn_kernels,
    precise=True,
    unbounded=True,
    flops=matrices(1, 2),
    accuracy=sums(matrix_terms),
    formula=formula(formulas.rnn),
)
def rnn(
    x: Array, w: Array, r: Array, bias: Array, h: Array, *, activation: str | None = None
) -> tuple[Array, Array]:
    """Compute activation(x . w^T + h . r^T + bias), and return it twice: as the new state and as the result.

    x [B, I], w [U, I], r [U, U], bias [U], state h [B, U]; results [B, U]. Raises ModelError for other
    shapes, mixed dtypes and an unknown activation. NeuralNetworks.h, ANEURALNETWORKS_RNN; TFLite schema,
    RNNOptions.
    """
    y = apply_activation(_gate(x, w, h, r, bias), activation).astype(x.dtype)
    return y, y


_SVDF = dict(enumerate(("x", "weights_feature", "weights_time", "bias", "state")))


def _infer_svdf(call: Call) -> tuple[TensorType, ...]:
    expect_operands(call, _SVDF, (1, 2, 4))
    if call.x.quantization is None:
        x = expect_types(call, 2)
    else:
        x = call.expect_rank(0, 2)
        expect_stored(call, dtypes(call))
        check_activation(call)
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
    expect_shapes(call, _SVDF, {**shapes, 4: (batch, filters * memory)})
    return call.input(4), x.with_shape((batch, units))


@op(
    _infer_svdf,
    svdf_kernels,
    quantized=replace(INTEGER, kernel=lambda call: of_integers(call, svdf_kernels(call))),
    precise=True,
    unbounded=True,
    accuracy=sums(matrix_terms),
    flops=matrices(1, 2),
    formula=formula(formulas.svdf),
)
def svdf(
    x: Array,
    weights_feature: Array = THERE,
    weights_time: Array = THERE,
    bias: Array | None = None,
    state: Array = THERE,
    *,
    rank: int,
    activation: str | None = None,
) -> tuple[Array, Array]:
    """Apply weights that are a sum of `rank` products of a filter over features and a filter over time.

    Each of the F = U * rank filters (those of a unit one after another) has a memory of M entries. The newest
    entry becomes weights_feature . x. The result is activation(bias + sum over a unit's filters and their
    memories of memory * weights_time). The new state is the memory moved on by one, with its newest place 0.
    x [B, I], weights_feature [F, I], weights_time [F, M], bias [U] (the only optional operand), state [B, F *
    M] (the documents say (M - 1), all implementations M; the old content of the newest place is not used);
    results: state [B, F * M], y [B, U]. Raises ModelError for other shapes, mixed dtypes, a rank that does
    not divide F, and an unknown activation. Quantised: x, weights_feature and y int8, weights_time and state
    both int16 or both int8, bias int32. NeuralNetworks.h, ANEURALNETWORKS_SVDF; TFLite schema, SVDFOptions.
    """
    batch, (filters, memory) = x.shape[0], weights_time.shape
    newest = product(x, weights_feature)[:, :, None]
    kept = np.concatenate([state.reshape(batch, filters, memory)[:, :, :-1], newest], axis=2)
    y = np.sum(kept * weights_time, axis=2).reshape(batch, filters // rank, rank).sum(axis=2)
    if bias is not None:
        y = y + bias
    moved = np.concatenate([kept[:, :, 1:], np.zeros_like(kept[:, :, :1])], axis=2)
    return moved.reshape(state.shape).astype(x.dtype), apply_activation(y, activation).astype(x.dtype)


def expect_sequence(call: Call) -> int:
    """Return the batch of x, a step [B, ...] or a sequence [B, T, ...] or, with time_major, [T, B, ...]."""
    expect_bool(call, "reverse")
    return call.x.shape[1 if expect_bool(call, "time_major") and call.x.rank == 3 else 0]


def in_time(x: Array, time_major: bool, reverse: bool) -> Array:
    """Convert a step or a sequence to steps [T, B, ...] in the order in which they run."""
    steps = x[None] if x.ndim == 2 else x if time_major else x.swapaxes(0, 1)
    return steps[::-1] if reverse else steps


def out_of_time(steps: Array, x: Array, time_major: bool, reverse: bool) -> Array:
    """Convert steps [T, B, ...] in the order in which they run to a step or a sequence like x."""
    steps = steps[::-1] if reverse else steps
    return steps[0] if x.ndim == 2 else steps if time_major else steps.swapaxes(0, 1)


OPS: tuple[Op, ...] = (rnn, svdf)
