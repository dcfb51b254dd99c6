"""The compiled loops as plain functions of Python, and what tests of them have in common."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpunn.ops import compiled
from gpunn.ops.compiled import channel_products, dot_products, gates, loops, real_products, rows
from gpunn.ops.compiled.vectors import Sizes

PLAIN = compiled.Loops(
    loops.finish,
    partial(gates.gated, 2),
    loops.hard_swish,
    loops.requantize,
    loops.floors,
    loops.pair_sums,
    partial(rows.lines, 2),
    rows.look_up,
    loops.depthwise,
    compiled.OfBytes(dot_products.dot_products, channel_products.channel_products, Sizes(2, 3)),
    compiled.OfReals(real_products.real_products, Sizes(2, 3)),
)
Case = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]  # op, shape, filter, attributes
