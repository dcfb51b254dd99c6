"""The gated recurrent unit whose reset gate multiplies a product, as in cuDNN, PyTorch and Keras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpunn.kernel import Kernel
from gpunn.ops.accuracy import Accuracy, Evaluation
from gpunn.ops.call import Call
from gpunn.ops.check import expect_entries
from gpunn.ops.gradient import formula
from gpunn.ops.op import Op, matrices, op
from gpunn.ops.recurrent import formulas
from gpunn.ops.recurrent.gate_activation import GateActivation, apply_gate, check_gate
from gpunn.ops.recurrent.host_steps import prepare_gru_reset_after
from gpunn.ops.recurrent.recurrence import gated_error, infer_states, run_steps
from gpunn.ops.recurrent.rnn import widened
from gpunn.ops.recurrent.sequence_kernel import Cell, sequence_kernels
from gpunn.types import Array, TensorType

_CELL = Cell("gru_reset_after", 3, 1, 1, ("h",), ("bias",))


def _infer(call: Call) -> tuple[TensorType, ...]:
    for entry in expect_entries(call, "activations", 2):
        check_gate(call, "activations", entry)
    return infer_states(call, 3, "h", more=("bias", 1))


def _kernels(call: Call) -> list[Kernel]:
    return sequence_kernels(call, _CELL, dict(zip(("gate", "inner"), call["activations"], strict=True)), {})


def _error(evaluation: Evaluation) -> Array:
    """Bound the error as that of another recurrence, whose sums of x have the bias in them."""
    x, r, h = (np.abs(evaluation.input(number)) for number in range(3))
    bias = evaluation.inputs[3] if len(evaluation.inputs) > 3 else None
    most = 0.0 if bias is None else np.abs(bias).max(initial=0.0)
    return gated_error(replace(evaluation, inputs=(x + most, r, h)))


@op(
    _infer,
    _kernels,
    precise=True,
    unbounded=True,
    flops=matrices(1),
    accuracy=Accuracy(formula=_error),
    prepare=prepare_gru_reset_after,
    formula=formula(formulas.gru_reset_after),
)
def gru_reset_after(
    x: Array,
    r: Array,
    h: Array,
    bias: Array | None = None,
    *,
    activations: Sequence[GateActivation] = ("logistic", "tanh"),
    time_major: bool = False,
    reverse: bool = False,
) -> tuple[Array, ...]:
    """Run a gated recurrent unit over the sums of a sequence, with the product before the reset: (state, y).

    x [B, T, 3 U], or [T, B, 3 U] with time_major: the sums of the reset, the update and the candidate gate;
    r [3 U, U] likewise; the state h is [B, U] before and after; bias [U]; y [B, T, U] or [T, B, U]. With f
    and g the `activations`: reset = f(x0 + h . r0^T), update = f(x1 + h . r1^T), candidate = g(x2 + reset
    (h . r2^T + bias)), and the new h = (1 - update) candidate + update h. Raises ModelError for other shapes,
    mixed dtypes and unknown activations. Chung et al. 2014, Empirical Evaluation of Gated Recurrent Neural
    Networks on Sequence Modeling, section 3.2, with the product first. TFLite schema, FULLY_CONNECTED,
    LOGISTIC, TANH and MUL, in which LiteRT Torch writes torch.nn.GRU (gpunn/passes/unrolled_gru.py).
    """
    (gate, inner), units, weights = activations, r.shape[1], widened(r).T

    def step(of_step: Array, h: Array) -> tuple[Array, ...]:
        products = h @ weights
        gates = apply_gate(of_step[:, : 2 * units] + products[:, : 2 * units], gate)
        reset, update = gates[:, :units], gates[:, units:]
        inside = products[:, 2 * units :] if bias is None else products[:, 2 * units :] + bias
        candidate = apply_gate(of_step[:, 2 * units :] + reset * inside, inner)
        return ((1 - update) * candidate + update * h,)

    return run_steps(x, (widened(h),), step, (time_major, reverse))


OPS: tuple[Op, ...] = (gru_reset_after,)
