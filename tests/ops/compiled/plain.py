"""The compiled loops as plain functions of Python, and what tests of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpunn import Model
from gpunn.ops import compiled
from gpunn.ops.compiled import (
    channel_products,
    depthwise,
    dot_products,
    gates,
    loops,
    pools,
    real_products,
    row_copies,
    row_norms,
    rows,
    softmax,
    steps,
    stored_rows,
    sums,
    turn,
)
from gpunn.ops.compiled.sharing import one_by_one
from gpunn.ops.compiled.vectors import Sizes
from gpunn.types import Array, float32

OF_TILES = compiled.OfReals(one_by_one(real_products.real_products), Sizes(2, 3))
OF_BYTES = compiled.OfBytes(
    dot_products=one_by_one(dot_products.dot_products),
    channel_products=one_by_one(channel_products.channel_products),
    sizes=Sizes(2, 3),
)


def _by_name(*functions: Callable[..., None]) -> dict[str, Any]:
    """Return plain loops by their names, which are those of the fields that they fill."""
    return {function.__name__: one_by_one(function) for function in functions}


OF_BOTH = {
    **_by_name(depthwise.depthwise, pools.pools, row_copies.copy_rows, row_copies.place_rows),
    "turn": one_by_one(turn.turn, 2),
}
REALS = compiled.RealLoops(
    **OF_BOTH,
    **_by_name(loops.finish, loops.scaled, loops.added, loops.multiplied, loops.blended, loops.leaky),
    **_by_name(softmax.softmax, row_norms.row_norms, sums.channel_means),
    gated=one_by_one(gates.gated, 2),
    of_tiles=OF_TILES,
)
INTEGERS = compiled.IntegerLoops(
    **OF_BOTH,
    **_by_name(loops.requantize, loops.floors, loops.pair_sums, sums.stored_means, pools.mean_pools),
    **_by_name(rows.channel_rows, rows.look_up, stored_rows.row_look_up),
    **_by_name(row_copies.place_numbers, row_copies.flipped),
    lines=one_by_one(rows.lines, 2),
    softmax=one_by_one(stored_rows.stored_softmax),
    of_bytes=OF_BYTES,
)
STEPS = compiled.StepLoops(
    rnn=partial(steps.rnn_steps, 2),
    lstm=partial(steps.lstm_steps, 2),
    gru=partial(steps.gru_steps, 2),
    gru_after=partial(steps.gru_after_steps, 2),
    lanes=2,
)
PLAIN = compiled.Loops(REALS, INTEGERS, STEPS)
Case = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]  # op, shape, filter, attributes
OF_CHANNELS: list[Case] = [
    ("depthwise_conv2d", (2, 5, 9, 3), (1, 3, 3, 3), {"padding": "same", "activation": "relu"}),
    ("depthwise_conv2d", (1, 6, 7, 2), (1, 3, 3, 2), {"padding": "same", "stride": (2, 2)}),
    ("depthwise_conv2d", (1, 5, 4, 3), (1, 3, 3, 3), {"padding": "same", "activation": "tanh"}),
    ("depthwise_conv2d", (3, 40, 30, 128), (1, 3, 3, 128), {"padding": "same", "stride": (2, 1)}),  # blocks
    ("depthwise_conv2d", (1, 6, 9, 2), (1, 2, 5, 2), {"dilation": (2, 2)}),
    ("depthwise_conv2d", (1, 3, 2, 4), (1, 3, 4, 4), {"padding": ((5, 1), (4, 3)), "stride": (2, 1)}),
    ("depthwise_conv2d", (1, 4, 5, 2), (1, 3, 3, 6), {"padding": "same"}),  # several channels of one
    ("depthwise_conv2d", (1, 4, 3, 150), (1, 1, 3, 150), {"padding": "same"}),
]


def real_layer(case: Case, x: Array, filter: Array, bias: Array) -> Array:
    """Compute a layer of reals as in many runs."""
    op, _, _, attrs = case
    model = Model(op)
    constants = [model.constant("w", filter), model.constant("b", bias)]
    model.output(*model.add(op, [model.input("x", float32(*x.shape)), *constants], attrs))
    with np.errstate(all="ignore"):  # as in a run
        (got,) = model.operations[0].prepared()([x, filter, bias])
    return np.asarray(got)
