"""The choice of the conversion of sums of products to stored results on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import IntegerLoops, integer_loops
from gpunn.ops.compiled.sharing import rows_divided
from gpunn.ops.contraction.blocks import Results
from gpunn.ops.contraction.conversion import Conversion, InBlocks, IntegerSteps, Line, RealSteps
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.proven_numbers import EXACT, Range, proven
from gpunn.ops.contraction.single_precision import Exact, LearningSteps, ProvenSteps, SingleSteps
from gpunn.ops.fixed_point.affine import store
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import Array

MANY_SUMS = 1 << 15  # for which SingleSteps take less time than RealSteps, though they are more calls
FEWEST_SHIFTED = 1 << 7  # pixels
MOST_OTHERS_OF_MANY = 1 / 8  # channels of so many sums that may be converted by themselves


def few_steps(
    call: Call, how: Rescaling, bias: Array, exact: np.dtype[Any], sums: Callable[[], Range]
) -> Conversion:
    """Return the conversion of sums that stay within 32 bits with their bias, also when moved to the left.

    exact: the dtype of the sums. sums: makes the least and the greatest sum of each channel.
    """
    loops = integer_loops()
    safe = RealSteps.of(call, how, bias) or IntegerSteps.of(call, how, bias)
    line = Line.of(call, how, bias)
    if loops is not None and exact == np.float32 and call.y.dtype in EIGHT_BITS:
        # Such a program runs for long, so that the search pays in any case.
        proven = None if line is None else ProvenSteps.of(line, safe, sums(), plain=True)
        channels = call.y.shape[-1]
        return _looped(loops, channels, safe) if proven is None else ProvenLoop.of(loops, channels, proven)
    if exact != np.float32:
        return safe
    many = call.y.size >= MANY_SUMS
    in_single = SingleSteps.of(call, how, bias) if many or isinstance(safe, IntegerSteps) else None
    steps = in_single or safe
    if line is None or call.y.dtype not in EIGHT_BITS:
        return steps
    # Of few sums, those of a single channel by themselves take as long as all of them in float64.
    return LearningSteps(line, steps, safe, sums, MOST_OTHERS_OF_MANY if many else 0)


def results_of(call: Call, how: Rescaling, bias: Array, sums: Callable[[], Range]) -> Results | None:
    """Return the conversion of sums of bytes to bytes for a loop that does it at once; None for other steps.

    It is in float32 where that is proven for all channels, else in float64. Shifts are a part of what sums
    begin with, so they cost nothing, but their search takes as long as thousands of runs of few pixels.
    """
    exact = RealSteps.of(call, how, bias, proving=True) if integer_loops() is not None else None
    line = Line.of(call, how, bias)
    if exact is None or line is None or not {call.x.dtype, call.y.dtype} <= set(EIGHT_BITS):
        return None
    ends, channels = sums(), call.y.shape[-1]
    shifting = (
        line.pixels >= FEWEST_SHIFTED and max(float(np.abs(end).max(initial=0)) for end in ends) < EXACT
    )
    numbers = next((n for n in proven(line, ends, shifting) if not n.misses.any()), None)
    if numbers is None:
        factor, summand, *_ = exact.rows(channels)
        return Results(call.x.dtype.numpy, np.stack([factor, summand]), line.bounds, line.offset, None)
    rows, shift = np.stack([numbers.factor, numbers.summand]), numbers.shift
    return Results(call.x.dtype.numpy, rows, line.bounds, line.offset, shift)


def _looped(loops: IntegerLoops, channels: int, exact: Exact) -> LoopSteps:
    return LoopSteps(loops.floors if isinstance(exact, RealSteps) else loops.requantize, exact.rows(channels))


class LoopSteps(NamedTuple):
    """The conversion of other steps as a compiled loop, from float32 sums to 8 bits."""

    loop: Callable[..., None]
    steps: tuple[Any, ...]

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        self.loop(rows_divided(len(sums), sums.size), sums, *self.steps, result)


class ProvenLoop(NamedTuple):
    """The conversion of ProvenSteps as compiled loops: of all channels, and then of the `others`."""

    all: LoopSteps
    others: Array
    rest: LoopSteps

    @classmethod
    def of(cls, loops: IntegerLoops, channels: int, proven: ProvenSteps) -> ProvenLoop:
        """Return the loops for steps of so many channels."""
        rest = _looped(loops, len(proven.others), proven.exact)
        return cls(LoopSteps(loops.floors, proven.rows(channels)), proven.others, rest)

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        self.all.write(sums, result)
        if len(self.others):
            found = np.empty((len(sums), len(self.others)), result.dtype)
            self.rest.write(sums.take(self.others, axis=1), found)
            result[:, self.others] = found


def only_loops(conversion: Conversion) -> bool:
    """Tell whether a conversion does nothing but call shared loops."""
    if isinstance(conversion, ProvenLoop):
        return not len(conversion.others)
    return isinstance(conversion, LoopSteps)


@dataclass(frozen=True, slots=True)
class ManySteps(InBlocks):
    """The conversion of all other sums: by a function of sums [pixels, C] of int64 to results that may be too
    large.
    """

    computed: ClassVar[np.dtype[Any]] = np.dtype(np.int64)
    call: Call
    how: Rescaling
    rescaled: Callable[[Array], Array]

    def convert(self, sums: Array, result: Array) -> None:
        """Write the results of sums."""
        found = self.rescaled(sums.reshape(-1, self.call.y.shape[-1])) + self.how.zero_y
        result[...] = store(found, self.call.y, self.how.bounds).reshape(result.shape)
