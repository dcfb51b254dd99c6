"""The loops that there are, by the kinds of numbers that they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpunn.ops.compiled.sharing import Shared
from gpunn.ops.compiled.vectors import Sizes
from gpunn.types import Array

Loop = Callable[..., None]
# Of the memory of a team, calls, and whether some have several parts
Replay = Callable[[Array, Array, bool], int]


class OfBytes(NamedTuple):
    """Loops over bytes, for a CPU with instructions for them; `sizes` are those of its vectors."""

    dot_products: Shared
    channel_products: Shared
    sizes: Sizes


class OfReals(NamedTuple):
    """The loop of products of float32, for a CPU that adds a product with one rounding."""

    products: Shared
    sizes: Sizes


class RealLoops(NamedTuple):
    """The loops for float32; of_tiles: None where the CPU has no instructions for them."""

    finish: Shared
    scaled: Shared
    added: Shared
    multiplied: Shared
    blended: Shared
    leaky: Shared
    gated: Shared
    softmax: Shared
    row_norms: Shared
    depthwise: Shared
    pools: Shared
    turn: Shared
    copy_rows: Shared
    place_rows: Shared
    channel_means: Shared
    of_tiles: OfReals | None


class IntegerLoops(NamedTuple):
    """The loops for stored integers of 8 bits; of_bytes: None where the CPU has no instructions for them."""

    requantize: Shared
    floors: Shared
    stored_means: Shared
    pools: Shared  # maxima
    mean_pools: Shared
    pair_sums: Shared
    lines: Shared
    channel_rows: Shared
    look_up: Shared
    row_look_up: Shared
    softmax: Shared
    depthwise: Shared  # of sums in float32
    turn: Shared
    copy_rows: Shared
    place_rows: Shared
    place_numbers: Shared
    flipped: Shared
    of_bytes: OfBytes | None


class StepLoops(NamedTuple):
    """The loops for steps of recurrent layers of float32; `lanes` are those of their vectors."""

    rnn: Loop
    lstm: Loop
    gru: Loop
    gru_after: Loop
    lanes: int
