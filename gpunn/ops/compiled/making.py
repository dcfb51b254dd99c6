"""The loops as machine code, and the Maker of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from gpunn.ops.compiled import (
    channel_products,
    depthwise,
    dot_products,
    gates,
    loops,
    pools,
    real_products,
    row_norms,
    rows,
    softmax,
    steps,
    turn,
)
from gpunn.ops.compiled.tiles import boxes, tile_code
from gpunn.ops.compiled.vectors import OF_BYTES, OF_REALS, Sizes, Write, teach_numba, vector_sizes

FOLDER = Path(__file__).parent

Loop = Callable[..., None]


class OfBytes(NamedTuple):
    """Loops over bytes, for a CPU with instructions for them; `sizes` are those of its vectors."""

    dot_products: Loop
    channel_products: Loop
    sizes: Sizes


class OfReals(NamedTuple):
    """The loop of products of float32, for a CPU that adds a product with one rounding."""

    products: Loop
    sizes: Sizes


class RealLoops(NamedTuple):
    """The loops for float32; of_tiles: None where the CPU has no instructions for them."""

    finish: Loop
    scaled: Loop
    added: Loop
    gated: Loop
    softmax: Loop
    row_norms: Loop
    depthwise: Loop
    pools: Loop
    turn: Loop
    of_tiles: OfReals | None


class IntegerLoops(NamedTuple):
    """The loops for stored integers of 8 bits; of_bytes: None where the CPU has no instructions for them."""

    requantize: Loop
    floors: Loop
    sums: Loop
    pools: Loop  # maxima
    pair_sums: Loop
    lines: Loop
    look_up: Loop
    depthwise: Loop  # of sums in float32
    turn: Loop
    of_bytes: OfBytes | None


class StepLoops(NamedTuple):
    """The loops for steps of recurrent layers of float32; `lanes` are those of their vectors."""

    rnn: Loop
    lstm: Loop
    gru: Loop
    gru_after: Loop
    lanes: int


class Maker:
    """The loops for a CPU with these features, as LLVM lists them."""

    def __init__(self, numba: Any, features: str) -> None:
        self._numba, self._features, self._types = numba, features, numba.types
        self._jitable = numba.extending.register_jitable
        self._stored = numba.types.int8, numba.types.uint8
        self._single, self._double, self._index = numba.types.float32, numba.types.float64, numba.types.int64
        self._of_bytes, self._of_reals = (vector_sizes(features, sizes) for sizes in (OF_BYTES, OF_REALS))
        self._lanes = rows.LANES if self._of_reals is None else self._of_reals.lanes
        self._jitable(boxes)
        self._taught: set[Loop] = set()

    @cached_property
    def reals(self) -> RealLoops:
        """Compile the loops for float32, or load them."""
        single, given, result, types = self._single, self._given, self._result, self._types
        numbers, bounds = given(single), self._pair(single)
        return RealLoops(
            self._compiled(loops.finish, (result(single), numbers, single, single)),
            self._compiled(loops.scaled, (given(single, 2), given(single, 2), bounds, result(single))),
            self._compiled(loops.added, (given(single, 2), given(single, 2), bounds, result(single))),
            self._gated(),
            self._softmax(),
            self._row_norms(),
            self.depthwise,
            self._pools(single),
            self._turn(types.uint32),
            self.of_tiles,
        )

    @cached_property
    def integers(self) -> IntegerLoops:
        """Compile the loops for stored integers, or load them."""
        single, double, index, stored = self._single, self._double, self._index, self._stored
        given, result, pair, line = self._given, self._result, self._pair, self._line
        steps = (*(given(index) for _ in range(5)), self._types.UniTuple(index, 3))
        added = self._types.UniTuple(single, 3), pair(single), index
        return IntegerLoops(
            self._compiled(loops.requantize, *((given(single, 2), *steps, result(s)) for s in stored)),
            self._compiled(
                loops.floors,
                *((given(single, 2), *line(r), result(s)) for r in (double, single) for s in stored),
            ),
            self._compiled(loops.sums, *((given(s, 3), result(self._types.int32)) for s in stored)),
            self._pools(self._types.uint8),
            self._compiled(loops.pair_sums, *((given(s), given(s), *added, result(s, 1)) for s in stored)),
            self._lines(),
            self._look_up(),
            self.depthwise,
            self._turn(self._types.uint8),
            self.of_bytes,
        )

    @cached_property
    def steps(self) -> StepLoops:
        """Compile the loops for steps of recurrent layers, or load them."""
        for function in (steps.add_product, steps.tanh_of, steps.tanh_of_sums):
            self._jitable(function)
        teach_numba(steps.tanh_of_vector, steps.tanh_code, self._lanes)
        single, given = self._single, self._given
        x, weights = given(single, 3), given(single, 2)
        state, numbers, y = self._result(single), self._result(single, 1), self._result(single, 3)

        def compiled(function: Loop, *operands: Any) -> Loop:
            return partial(self._compiled(function, (self._index, x, *operands, y)), self._lanes)

        return StepLoops(
            compiled(steps.rnn_steps, weights, state, numbers),
            compiled(steps.lstm_steps, weights, state, state, single, numbers, numbers, state),
            compiled(steps.gru_steps, weights, weights, state, numbers, numbers),
            compiled(steps.gru_after_steps, weights, given(single), state, numbers, numbers),
            self._lanes,
        )

    def _lines(self) -> Loop:
        lanes = rows.LANES if self._of_bytes is None else self._of_bytes.lanes
        teach_numba(rows.lines_of_vector, rows.lines_code, lanes)
        byte, single = self._types.uint8, self._single
        operands = self._given(byte, 2), self._given(single, 2), self._pair(single), self._index
        return partial(self._compiled(rows.lines, (self._index, *operands, self._result(byte))), lanes)

    def _gated(self) -> Loop:
        teach_numba(gates.gated_vector, gates.gated_code, self._lanes)
        x, out = self._given(self._single), self._result(self._single, 1)
        return partial(self._compiled(gates.gated, (self._index, x, x, out)), self._lanes)

    def _softmax(self) -> Loop:
        teach_numba(softmax.softmax_row, softmax.softmax_code, self._lanes)
        x, out = self._given(self._single, 2), self._result(self._single)
        found: Loop = self._compiled(softmax.softmax, (x, self._single, out))
        return found

    def _row_norms(self) -> Loop:
        teach_numba(row_norms.normalize_row, row_norms.normalize_row_code, self._lanes)
        x, spreads, out = (
            self._given(self._single, 2),
            self._result(self._single, 1),
            self._result(self._single),
        )
        numbers = self._index, self._single, self._single
        found: Loop = self._compiled(row_norms.row_norms, (x, *numbers, spreads, out))
        return found

    def _look_up(self) -> Loop:
        if rows.TABLES in self._features.split(","):
            teach_numba(rows.look_up_vector, rows.look_up_code, rows.ENTRIES)
        else:
            self._jitable(rows.look_up_vector)
        byte = self._types.uint8
        found: Loop = self._compiled(
            rows.look_up, (self._given(byte), self._given(byte), self._result(byte, 1))
        )
        return found

    @cached_property
    def depthwise(self) -> Loop:
        """Compile the loop of depthwise convolutions, or load it."""
        teach_numba(depthwise.part_sums, depthwise.part_sums_code, self._lanes)
        reals, places = (self._given(self._single),) * 3, (self._given(self._index, 2),) * 2
        steps, sizes = (self._types.UniTuple(self._index, count) for count in (5, 3))
        operands = *reals, self._pair(self._single), self._index, *places, steps, sizes
        found: Loop = self._compiled(depthwise.depthwise, (*operands, self._result(self._single, 1)))
        return found

    def _pools(self, kind: Any) -> Loop:
        self._teach(pools.part_pool, pools.part_pool_code)
        places, numbers = (self._given(self._index, 2),) * 2, (self._types.UniTuple(self._index, 3),) * 2
        operands = self._given(kind), self._index, *places, *numbers
        found: Loop = self._compiled(pools.pools, (*operands, self._result(kind, 1)))
        return found

    def _turn(self, kind: Any) -> Loop:
        self._jitable(turn.turn_by_ones)
        self._teach(turn.turn_tile, turn.turn_tile_code)
        self._teach(turn.turn_pair, turn.turn_pair_code)
        places, sizes = (self._given(self._index),) * 2, (self._pair(self._index),) * 2
        operands = self._index, self._given(kind), *places, *sizes, self._result(kind, 1)
        return partial(self._compiled(turn.turn, operands), self._lanes)

    def _teach(self, function: Loop, write: Write) -> None:
        """Let numba compile a function, of which loops of several kinds of numbers have use."""
        if function not in self._taught:
            teach_numba(function, write, self._lanes)
            self._taught.add(function)

    @cached_property
    def of_bytes(self) -> OfBytes | None:
        """Compile the loops over bytes, or load them; None where the CPU has no instructions for them."""
        sizes = self._of_bytes
        if sizes is None:
            return None
        self._jitable(dot_products.sum_of_bytes)
        of_box = tile_code(sizes.pixels, dot_products.ByteArithmetic)
        teach_numba(dot_products.tiles_of_bytes, of_box, sizes.lanes)
        teach_numba(channel_products.strip, channel_products.strip_code, sizes.lanes)
        byte, word, places = self._types.uint8, self._types.int32, self._given(self._index)
        pairs, numbers = self._given(word, 2), self._given(word)

        def signatures(seen: tuple[Any, Any], weights: Any, shape: int) -> Iterator[tuple[Any, ...]]:
            for real in (self._double, self._single):
                shapes = self._types.UniTuple(self._index, shape), self._pair(real)
                operands = self._given(byte), *seen, weights, numbers, self._given(real, 2)
                yield *operands, *shapes, self._result(byte)

        of_filters = signatures((pairs, pairs), self._given(self._types.int8), 6)
        of_channels = signatures((places, places), pairs, 2)
        return OfBytes(
            self._compiled(dot_products.dot_products, *of_filters),
            self._compiled(channel_products.channel_products, *of_channels),
            sizes,
        )

    @cached_property
    def of_tiles(self) -> OfReals | None:
        """Compile the loop of products of float32, or load it; None where the CPU has no instructions."""
        sizes = self._of_reals
        if sizes is None:
            return None
        of_box = tile_code(sizes.pixels, real_products.RealArithmetic)
        teach_numba(real_products.tiles_of_reals, of_box, sizes.lanes)
        single, places = self._given(self._single), self._given(self._types.int32, 2)
        operands = single, places, places, self._given(self._index, 2), single, single
        shape = self._types.UniTuple(self._index, 5), self._pair(self._single), self._index
        signature = *operands, *shape, self._result(self._single)
        return OfReals(self._compiled(real_products.real_products, signature), sizes)

    def _compiled(self, function: Loop, *signatures: Any) -> Any:
        own = named(function)
        try:
            return self._numba.njit([*signatures], nogil=True, error_model="numpy", cache=True)(own)
        except RuntimeError:  # there is no folder that it may keep the code in
            return self._numba.njit([*signatures], nogil=True, error_model="numpy")(own)

    def _given(self, dtype: Any, rank: int = 1) -> Any:
        return self._types.Array(dtype, rank, "C", readonly=True)

    def _result(self, dtype: Any, rank: int = 2) -> Any:
        return self._types.Array(dtype, rank, "C")

    def _pair(self, dtype: Any) -> Any:
        return self._types.UniTuple(dtype, 2)

    def _line(self, real: Any) -> tuple[Any, ...]:
        return self._given(real), self._given(real), self._pair(real), self._index


def named(function: Loop) -> Loop:
    """Return a function whose name tells of the code in this package.

    numba keeps machine code by the name of a function and the date of its file.
    """
    code: Any = function
    digest = zlib.crc32(b"".join(path.read_bytes() for path in sorted(FOLDER.glob("*.py"))))
    copy = FunctionType(code.__code__, code.__globals__, code.__name__)
    copy.__qualname__ = f"{code.__name__}_{digest:x}"
    return copy
