"""The loops as machine code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

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
from gpunn.ops.compiled.compiler import Compiler
from gpunn.ops.compiled.kinds import IntegerLoops, Loop, OfBytes, OfReals, RealLoops, StepLoops
from gpunn.ops.compiled.sharing import Shared
from gpunn.ops.compiled.tiles import tile_code
from gpunn.ops.compiled.vectors import by_feature


class Maker(Compiler):
    """The loops for a CPU with these features, as LLVM lists them."""

    @cached_property
    def reals(self) -> RealLoops:
        """Compile the loops for float32, or load them."""
        single, given, result, types = self._single, self._given, self._result, self._types
        numbers, matrix = given(single), given(single, 2)
        of_two = matrix, matrix, self._pair(single), result(single)
        return RealLoops(
            finish=self._shared(loops.finish, (result(single), numbers, single, single), now=True),
            scaled=self._shared(loops.scaled, of_two),
            added=self._shared(loops.added, of_two),
            multiplied=self._shared(loops.multiplied, of_two),
            blended=self._shared(
                loops.blended,
                (numbers, *(given(types.int64, d) for d in (1, 2)), given(single, 2), result(single)),
            ),
            leaky=self._shared(loops.leaky, (numbers, single, result(single, 1))),
            gated=self._gated(),
            softmax=self._softmax(),
            row_norms=self._row_norms(),
            depthwise=self.depthwise,
            pools=self._pools(single),
            turn=self._turn(types.uint32),
            copy_rows=self.copy_rows,
            place_rows=self.place_rows,
            channel_means=self._channel_means(),
            of_tiles=self.of_tiles,
        )

    @cached_property
    def integers(self) -> IntegerLoops:
        """Compile the loops for stored integers, or load them."""
        single, double, index, stored = self._single, self._double, self._index, self._stored
        given, result, pair, line = self._given, self._result, self._pair, self._line
        steps = (*(given(index) for _ in range(5)), self._types.UniTuple(index, 3))
        added = self._types.UniTuple(single, 3), pair(single), index
        return IntegerLoops(
            requantize=self._shared(
                loops.requantize, *((given(single, 2), *steps, result(s)) for s in stored)
            ),
            floors=self._shared(
                loops.floors,
                *((given(single, 2), *line(r), result(s)) for r in (double, single) for s in stored),
            ),
            stored_means=self._stored_means(),
            pools=self._pools(self._types.uint8),
            mean_pools=self._mean_pools(),
            pair_sums=self._shared(
                loops.pair_sums, *((given(s), given(s), *added, result(s, 1)) for s in stored)
            ),
            lines=self._lines(),
            channel_rows=self._shared(
                rows.channel_rows, (given(self._types.uint8), given(single, 2), result(single))
            ),
            look_up=self._look_up(),
            row_look_up=self._row_look_up(),
            softmax=self._stored_softmax(),
            depthwise=self.depthwise,
            turn=self._turn(self._types.uint8),
            copy_rows=self.copy_rows,
            place_rows=self.place_rows,
            place_numbers=self._place_numbers(),
            flipped=self._shared(
                row_copies.flipped, (given(self._types.uint8), index, result(self._types.uint8, 1))
            ),
            of_bytes=self.of_bytes,
        )

    def _channel_means(self) -> Shared:
        self._jitable(sums.add_up)
        operands = self._given(self._single, 3), self._single, self._result(self._single)
        return self._shared(sums.channel_means, operands)

    def _stored_means(self) -> Shared:
        self._jitable(sums.add_up)
        index, least = self._index, self._given(self._types.int32, 2)
        further = least, index, self._pair(self._double), index
        kinds = ((self._given(s, 3), *further, self._result(s)) for s in self._stored)
        return self._shared(sums.stored_means, *kinds)

    @cached_property
    def steps(self) -> StepLoops:
        """Compile the loops for steps of recurrent layers, or load them."""
        self._teach(steps.tanh_of_vector, steps.tanh_code)
        for function in (steps.add_product, steps.tanh_of, steps.tanh_of_sums):
            self._jitable(function)
        single, given = self._single, self._given
        x, weights = given(single, 3), given(single, 2)
        state, numbers, y = self._result(single), self._result(single, 1), self._result(single, 3)

        def compiled(function: Loop, *operands: Any) -> Loop:
            return partial(self._compiled(function, (self._index, x, *operands, y)), self._lanes)

        return StepLoops(
            rnn=compiled(steps.rnn_steps, weights, state, numbers),
            lstm=compiled(steps.lstm_steps, weights, state, state, single, numbers, numbers, state),
            gru=compiled(steps.gru_steps, weights, weights, state, numbers, numbers),
            gru_after=compiled(steps.gru_after_steps, weights, given(single), state, numbers, numbers),
            lanes=self._lanes,
        )

    def _lines(self) -> Shared:
        lanes = rows.LANES if self._of_bytes is None else self._of_bytes.sizes.lanes
        self._teach(rows.lines_of_vector, rows.lines_code, lanes)
        byte, single = self._types.uint8, self._single
        operands = self._given(byte, 2), self._given(single, 2), self._pair(single), self._index
        return self._shared(rows.lines, (*operands, self._result(byte)), lanes=lanes)

    def _gated(self) -> Shared:
        self._teach(gates.gated_vector, gates.gated_code)
        x, out = self._given(self._single), self._result(self._single, 1)
        return self._shared(gates.gated, (x, x, out), lanes=self._lanes)

    def _softmax(self) -> Shared:
        self._teach(softmax.softmax_row, softmax.softmax_code)
        x, out = self._given(self._single, 2), self._result(self._single)
        return self._shared(softmax.softmax, (x, self._single, out))

    def _row_norms(self) -> Shared:
        self._teach(row_norms.normalize_row, row_norms.normalize_row_code)
        x, spreads, out = (
            self._given(self._single, 2),
            self._result(self._single, 1),
            self._result(self._single),
        )
        numbers = self._index, self._single, self._single
        return self._shared(row_norms.row_norms, (x, *numbers, spreads, out))

    def _look_up(self) -> Shared:
        code = by_feature(self._features, rows.TABLES)
        if code is None:
            self._jitable(rows.look_up_vector)
        else:
            self._teach(rows.look_up_vector, code, rows.ENTRIES)
        byte = self._types.uint8
        return self._shared(rows.look_up, (self._given(byte), self._given(byte), self._result(byte, 1)))

    def _row_look_up(self) -> Shared:
        self._jitable(rows.look_up)
        byte = self._types.uint8
        operands = self._given(byte, 2), self._given(byte), self._given(byte, 2)
        return self._shared(stored_rows.row_look_up, (*operands, self._result(byte)))

    def _stored_softmax(self) -> Shared:
        self._jitable(stored_rows.product)
        index, pair = self._index, self._pair(self._index)
        further = self._given(index), self._given(index), pair, pair, index
        return self._shared(
            stored_rows.stored_softmax,
            *((self._given(s, 2), *further, self._result(s)) for s in self._stored),
        )

    @cached_property
    def depthwise(self) -> Shared:
        """Compile the loop of depthwise convolutions, or load it."""
        self._teach(depthwise.part_sums, depthwise.part_sums_code)
        reals, places = (self._given(self._single),) * 3, (self._given(self._index, 2),) * 2
        steps, sizes = self._types.UniTuple(self._index, 5), self._pair(self._index)
        operands = *reals, self._pair(self._single), self._index, *places, steps, sizes
        return self._shared(depthwise.depthwise, (*operands, self._result(self._single, 1)))

    def _pools(self, kind: Any) -> Shared:
        self._teach(pools.part_pool, pools.part_pool_code)
        places, steps = (self._given(self._index, 2),) * 2, self._types.UniTuple(self._index, 3)
        operands = self._given(kind), self._index, *places, steps, self._pair(self._index)
        return self._shared(pools.pools, (*operands, self._result(kind, 1)))

    def _mean_pools(self) -> Shared:
        self._jitable(pools.add_cells)
        self._jitable(pools.store_means)
        index, places = self._index, (self._given(self._index, 2),) * 2
        further = *places, self._types.UniTuple(index, 3), self._pair(index), self._pair(index)
        kinds = ((self._given(s), *further, self._result(s, 1)) for s in self._stored)
        return self._shared(pools.mean_pools, *kinds)

    def _turn(self, kind: Any) -> Shared:
        self._jitable(turn.turn_by_ones)
        self._teach(turn.turn_tile, turn.turn_tile_code)
        self._teach(turn.turn_pair, turn.turn_pair_code)
        places, sizes = (self._given(self._index),) * 2, (self._pair(self._index),) * 2
        operands = self._given(kind), *places, *sizes, self._result(kind, 1)
        return self._shared(turn.turn, operands, lanes=self._lanes)

    @cached_property
    def copy_rows(self) -> Shared:
        """Compile the loop of copies of rows, or load it."""
        self._teach(row_copies.copy_row, row_copies.copy_row_code)
        byte, places = self._types.uint8, (self._given(self._index),) * 2
        operands = self._given(byte), *places, *(self._pair(self._index),) * 2, self._result(byte, 1)
        return self._shared(row_copies.copy_rows, operands)

    @cached_property
    def place_rows(self) -> Shared:
        """Compile the loop of copies amid padding, or load it."""
        self._jitable(row_copies.fill_around)
        byte, index = self._types.uint8, self._index
        operands = self._given(byte), self._given(index), self._types.UniTuple(index, 3), index, index
        return self._shared(row_copies.place_rows, (*operands, self._result(byte, 1)))

    def _place_numbers(self) -> Shared:
        self._jitable(row_copies.fill_around)
        further = self._given(self._index), self._types.UniTuple(self._index, 3), self._single
        kinds = ((self._given(s), *further, self._result(self._single, 1)) for s in self._stored)
        return self._shared(row_copies.place_numbers, *kinds)

    @cached_property
    def of_bytes(self) -> OfBytes | None:
        """Compile the loops over bytes, or load them; None where the CPU has no instructions for them."""
        products = self._of_bytes
        if products is None:
            return None
        sizes = products.sizes
        self._jitable(dot_products.sum_of_bytes)
        of_box = tile_code(sizes.pixels, partial(dot_products.ByteArithmetic, products.bytes))
        self._teach(dot_products.tiles_of_bytes, of_box, sizes.lanes)
        of_strip = partial(channel_products.strip_code, products.pairs)
        self._teach(channel_products.strip, of_strip, sizes.lanes)
        byte, word, places = self._types.uint8, self._types.int32, self._given(self._index)
        pairs, numbers = self._given(word, 2), self._given(word)

        def signatures(seen: tuple[Any, ...], weights: Any, shape: int) -> Iterator[tuple[Any, ...]]:
            for real in (self._double, self._single):
                shapes = self._types.UniTuple(self._index, shape), self._pair(real)
                operands = self._given(byte), *seen, weights, numbers, self._given(real, 2)
                yield *operands, *shapes, self._result(byte)

        parts = self._given(self._index, 2)
        of_filters = signatures((pairs, pairs, parts), self._given(self._types.int8), 6)
        of_channels = signatures((places, places), pairs, 2)
        return OfBytes(
            dot_products=self._shared(dot_products.dot_products, *of_filters, now=True),
            channel_products=self._shared(channel_products.channel_products, *of_channels, now=True),
            sizes=sizes,
        )

    @cached_property
    def of_tiles(self) -> OfReals | None:
        """Compile the loop of products of float32, or load it; None where the CPU has no instructions."""
        sizes = self._of_reals
        if sizes is None:
            return None
        of_box = tile_code(sizes.pixels, real_products.RealArithmetic)
        self._teach(real_products.tiles_of_reals, of_box, sizes.lanes)
        single, places = self._given(self._single), self._given(self._types.int32, 2)
        operands = single, places, places, self._given(self._index, 2), single, single
        shape = self._types.UniTuple(self._index, 6), self._pair(self._single), self._index
        signature = *operands, *shape, self._result(self._single)
        return OfReals(self._shared(real_products.real_products, signature, now=True), sizes)
