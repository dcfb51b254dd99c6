"""The recurrence of a sequence: all steps of an RNN after their products with x; dtypes as in rnn.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpunn.kernel import (
    Grid,
    Kernel,
    Loop,
    Pack,
    Read,
    Scratch,
    Unsupported,
    Write,
    ceil_div,
    flat_threads,
    halving,
    spans,
)
from gpunn.ops.call import Call
from gpunn.ops.elementwise.unary import activation_function, apply_activation
from gpunn.ops.op import Op, matrices, op
from gpunn.ops.recurrent.rnn import (
    expect_sequence,
    expect_shapes,
    expect_types,
    in_time,
    out_of_time,
    product,
)
from gpunn.types import Array, DType, TensorType

_RECURRENCE = dict(enumerate(("x", "r", "h")))
MAX_UNITS = 1024  # of a state that a workgroup keeps twice over in the 16 KiB that every device has
_THREADS = 256  # of a workgroup, at most: likewise


def _infer_recurrence(call: Call) -> tuple[TensorType, ...]:
    x = expect_types(call, 3)
    batch, units = expect_sequence(call), x.shape[-1]
    expect_shapes(call, _RECURRENCE, {1: (units, units), 2: (batch, units)})
    return x.with_shape((batch, units)), x


def _recurrence_kernels(call: Call) -> list[Kernel]:
    """Make one kernel for all steps, or several that pass the state on if the device limits loop rounds."""
    batch, units = call.outputs[0].shape
    if units > MAX_UNITS:
        raise Unsupported(f"a state of {units} units is over the {MAX_UNITS} that a workgroup keeps")
    if not call.constant[1]:
        raise Unsupported("the weights are no constant")
    columns, room = ceil_div(units, 4), max(4, _power_of_two(units))
    across = min(_power_of_two(columns), _THREADS)
    down = min(_THREADS // across, room // 4)
    rows = ceil_div(units, 4 * down) * 4 * down
    total = call.x.shape[0 if call["time_major"] else 1]
    kernel = Kernel(
        body="recurrence",
        threads=_of_workgroups(batch, across, down),
        workgroup=(across, down, 1),
        reads=(Read("x", 0), Read("r", 1, 4, Pack(_pack_rows, (rows,))), Read("h", 2)),
        writes=(Write("h_out", 0), Write("y", 1)),
        params={
            "batch": batch,
            "units": units,
            "rows": rows,
            "columns": columns,
            "along": (batch if call["time_major"] else 1) * units,
            "across": (1 if call["time_major"] else total) * units,
            "reverse": int(call["reverse"]),
        },
        constants={"UNITS": room},
        functions=activation_function(call),
        workgroup_bytes=2 * room * 4 + across * down * 16,
        reason="one workgroup for a row of the batch",
    )
    store, zero = Loop(ceil_div(4, down)), Loop(ceil_div(rows, across * down))
    step = Loop(ceil_div(columns, across), (Loop(ceil_div(rows, 4 * down)), halving(down), store))
    beside = 2 * zero.iterations + 1 + step.ending
    limit, each = call.device.max_loop_iterations, 1 + step.iterations
    parts = spans(total, None if limit is None else (limit - beside) // each)
    return _in_parts(kernel, TensorType(DType.FLOAT32, (batch, units)), parts, each, beside)


def _in_parts(
    kernel: Kernel, state: TensorType, parts: Sequence[range], each: int, beside: int
) -> list[Kernel]:
    """Make kernels for parts of a sequence, which pass a state on.

    Its loops take `each` rounds for each step, and `beside` further rounds.
    """
    kernels: list[Kernel] = []
    h, total = kernel.reads[2], parts[-1].stop
    for part in parts:
        last = part is parts[-1]
        after = Write("h_out", 0 if last else Scratch(state))
        begin = max(total - 1 - part.start, 0) if kernel.params["reverse"] else part.start
        kernels.append(
            replace(
                kernel,
                reads=(*kernel.reads[:2], h),
                writes=(after, kernel.writes[1]),
                params={**kernel.params, "steps": len(part), "first": begin},
                loop_iterations=beside + len(part) * each,
            )
        )
        h = Read("h", None if last else after.output)
    return kernels


def _power_of_two(n: int) -> int:
    """Return the smallest power of two from n on, at least 1."""
    return 1 << max(n - 1, 0).bit_length()


def _of_workgroups(count: int, across: int, down: int) -> Grid:
    """Return the threads of that many workgroups."""
    x, y, _ = flat_threads(count * across, across)
    return x, y * down, 1


def _pack_rows(r: Array, rows: int) -> Array:
    """Pack weights [U, U] with the units of an input side by side: `rows` inputs, whole vec4s of units."""
    units = len(r)
    return np.pad(r.T, ((0, rows - units), (0, -units % 4)))


@op(_infer_recurrence, _recurrence_kernels, precise=True, unbounded=True, flops=matrices(1))
def recurrence(
    x: Array,
    r: Array,
    h: Array,
    *,
    activation: str | None = None,
    time_major: bool = False,
    reverse: bool = False,
) -> tuple[Array, Array]:
    """Compute activation(x[t] + h . r^T) for each step of a sequence, with h from the step before: (state,
    y).

    x and y [B, T, U], or [T, B, U] with time_major; r [U, U]; the state h is [B, U] before and after.
    `reverse` begins at the end of the sequence. After a product of all steps at once, this is a sequence of
    RNN. Raises ModelError for other shapes, mixed dtypes and an unknown activation. On the GPU up to 1024
    units and with constant weights. Accuracy: that of one step; its errors go on to the next steps. TFLite
    schema, SequenceRNNOptions.
    """
    steps, state = in_time(x, time_major, reverse), h
    results = np.empty_like(steps)
    for number, step in enumerate(steps):
        state = apply_activation(step + product(state, r), activation).astype(x.dtype)
        results[number] = state
    return state, out_of_time(results, x, time_major, reverse)


OPS: tuple[Op, ...] = (recurrence,)
