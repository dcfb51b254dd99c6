"""The choice of the conversion of sums of products to stored results on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpunn.ops.call import Call
from gpunn.ops.compiled import current
from gpunn.ops.contraction.conversion import Conversion, InBlocks, IntegerSteps, Line, RealSteps
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.single_precision import LearningSteps, Range, SingleSteps
from gpunn.ops.fixed_point.affine import store
from gpunn.ops.op import EIGHT_BITS
from gpunn.types import Array

MANY_SUMS = 1 << 15  # for which SingleSteps take less time than RealSteps, though they are more calls


def few_steps(
    call: Call, how: Rescaling, bias: Array, exact: np.dtype[Any], sums: Callable[[], Range]
) -> Conversion:
    """Return the conversion of sums that stay within 32 bits with their bias, also when moved to the left.

    exact: the dtype of the sums. sums: makes the least and the greatest sum of each channel.
    """
    loops = current()
    safe = RealSteps.of(call, how, bias) or IntegerSteps.of(call, how, bias)
    if loops is not None and exact == np.float32 and call.y.dtype in EIGHT_BITS:
        loop = loops.floors if isinstance(safe, RealSteps) else loops.requantize
        return LoopSteps(loop, safe.rows(call.y.shape[-1]))
    if exact != np.float32:
        return safe
    many = call.y.size >= MANY_SUMS or isinstance(safe, IntegerSteps)
    steps = (SingleSteps.of(call, how, bias) if many else None) or safe
    line = Line.of(call, how, bias)
    return steps if line is None or call.y.dtype not in EIGHT_BITS else LearningSteps(line, steps, safe, sums)


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """The conversion of RealSteps or IntegerSteps as a compiled loop, from float32 sums to 8 bits."""

    loop: Callable[..., None]
    steps: tuple[Any, ...]

    def write(self, sums: Array, result: Array) -> None:
        """Write the results [pixels, C] of sums of products."""
        self.loop(sums, *self.steps, result)


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
