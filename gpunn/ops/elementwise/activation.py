"""Activations on the host, in the memory of what they are applied to where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from gpunn.ops.elementwise.unary import apply_activation
from gpunn.ops.fixed_point.affine import CLAMPS
from gpunn.types import Array

FEW = 1 << 11  # numbers up to which maximum() takes less time than clip()


def activate(y: Array, name: str | None) -> Array:
    """Apply the activation of that name to `y`, which may change: clamps work where it lies."""
    return activating(name, y.dtype)(y)


@lru_cache
def activating(name: str | None, dtype: np.dtype[Any]) -> Callable[[Array], Array]:
    """Return activate() for arrays of a dtype."""
    if name not in CLAMPS:
        return lambda y: apply_activation(y, name)
    low, high = CLAMPS[name]
    if high is None and dtype.kind != "f":
        return lambda y: np.maximum(y, dtype.type(low), out=y)
    ends = np.asarray(low, dtype), np.asarray(np.inf if high is None else high, dtype)
    few = FEW if high is None else 0
    return lambda y: np.maximum(y, ends[0], out=y) if y.size <= few else y.clip(*ends, out=y)
