"""IntegerRows: the integer arithmetic of an op on rows (softmax, log_softmax, l2_normalization)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gpunn.kernel import Param
from gpunn.ops.call import Call
from gpunn.types import Array


def _nothing(call: Call) -> Mapping[str, Param]:
    return {}


def bit_length(x: Array) -> Array:
    """Count the bits of int64 >= 0 without leading zeros."""
    upper, lower = (np.frexp(part.astype(np.float64))[1] for part in (x >> 32, x & (2**32 - 1)))
    return np.where(upper, 32 + upper, lower).astype(np.int64)


def as_31_bits(total: Array) -> tuple[Array, Array]:
    """Cut sums of 64 bits off below so that 31 bits remain; return these, and how many bits are gone."""
    gone = np.maximum(bit_length(total) - 31, 0)
    return total >> gone, gone


class IntegerRows(NamedTuple):
    """The integer arithmetic of an op on rows along attribute `axis`.

    `why_not`: why the arithmetic does not fit a call; empty if it fits. `reference`: the stored result.
    `prepare`: the same for many runs of a call, where something can be known before.
    `functions` of shaders/normalize.wgsl, `libraries`, `table` and `params`: the same on the GPU. Rows of
    more than `most` elements have sums of 64 bits: `finish` gets their words as sum and upper, `settle` the
    lower one alone, and both may call what `wide_libraries` define.
    """

    why_not: Callable[[Call], str]
    reference: Callable[[Call, Array], Array]
    functions: Callable[[Call], Mapping[str, str]]
    libraries: tuple[str, ...]
    most: int
    table: Callable[[Call], Array] | None = None
    params: Callable[[Call], Mapping[str, Param]] = _nothing
    wide_libraries: tuple[str, ...] = ("wide_rows",)
    prepare: Callable[[Call], Callable[[Array], Array]] | None = None

    def wide(self, call: Call) -> bool:
        """Tell whether sums have 64 bits."""
        return call.x.shape[call.axis(call["axis"], call.x.rank)] > self.most

    def needed(self, call: Call) -> tuple[str, ...]:
        """Return the libraries that the functions for a call need."""
        return (*self.libraries, *(self.wide_libraries if self.wide(call) else ()))
