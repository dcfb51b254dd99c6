"""Activations on the host, in the memory of what they are applied to where that is possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from gpunn.ops.elementwise.gates import gated
from gpunn.ops.elementwise.unary import ACTIVATIONS, apply_activation, clip_ends
from gpunn.ops.fixed_point.affine import CLAMPS
from gpunn.types import Array, Shape

FEW = 1 << 11  # numbers up to which maximum() takes less time than clip()
MANY = 1 << 14  # the same for maximum() with as many numbers, which has vector instructions


def activate(y: Array, name: str | None) -> Array:
    """Apply the activation of that name to `y`, which may change: most work where it lies."""
    return activating(name, y.dtype)(y)


@lru_cache
def activating(
    name: str | None, dtype: np.dtype[Any], shape: Shape | None = None
) -> Callable[[Array], Array]:
    """Return activate() for arrays of a dtype, and of a shape if it is known."""
    fused = None if name is None else ACTIVATIONS[name].fused
    if fused is not None and fused.write is not None:
        write = fused.write
        return lambda y: gated(write, y, out=y)
    if name not in CLAMPS:
        return lambda y: apply_activation(y, name)
    low, high = CLAMPS[name]
    if high is None and dtype.kind != "f":
        return lambda y: np.maximum(y, dtype.type(low), out=y)
    if high is None and shape is not None and math.prod(shape) <= MANY:
        lowest = np.full(shape, low, dtype)
        return lambda y: np.maximum(y, lowest, out=y)
    ends = [np.asarray(end) for end in clip_ends(low, np.inf if high is None else high, dtype)]
    few = FEW if high is None else 0
    return lambda y: np.maximum(y, ends[0], out=y) if y.size <= few else y.clip(*ends, out=y)
