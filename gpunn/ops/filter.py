"""Filter: how an op multiplies its first operand with its second one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpunn.types import Array, Shape

FILTER, BIAS = 1, 2  # positions of the operands


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The filter of an op whose results are sums of products of its first operand and operand FILTER.

    * output_axis: the axis of the filter that counts the output channels, which are the last axis of the
      result. Operand BIAS, if it is there, is added to each channel. None: the op takes no bias.
    * along_input: shapes a factor for each channel of the first operand so that it broadcasts over a filter
      of that shape; None where the filter does not tell them apart.
    """

    output_axis: int | None = None
    along_input: Callable[[Shape, Array], Array | None] | None = None


def by_groups(shape: Shape, factor: Array) -> Array:
    """Return Filter.along_input of a filter [O, KH, KW, I], where I channels belong to one group."""
    groups = factor.size // shape[3]
    return np.repeat(factor.reshape(groups, shape[3]), shape[0] // groups, axis=0)[:, None, None]
