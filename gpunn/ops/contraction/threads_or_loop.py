"""The choice between numpy's threads and a compiled loop on one thread, measured once for a shape.

Which of them computes a layer sooner depends on how many processors have vector units of their own, which
virtual machines do not tell, and on the size of the layer. Within a process the choice stays, so that
results keep their bits.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence

import numpy as np

from gpunn.ops.contraction.pieces import Write
from gpunn.types import Array, Shape

_ROUNDS = 3  # of which the least times count
_GAIN = 1.1  # by which threads must be quicker: they take processors from others

_CHOSEN: dict[Hashable, bool] = {}


def threads_pay(key: Hashable, threads: Write, loop: Write, shape: Shape, results: Shape) -> bool:
    """Tell whether `threads` writes results of x of a shape sooner than `loop`; of a key always the same."""
    chosen = _CHOSEN.get(key)
    if chosen is None:
        try:
            of_threads, of_loop = _times((threads, loop), shape, results)
            quicker = _GAIN * of_threads < of_loop
        except MemoryError:  # the layer itself has enough
            quicker = True
        chosen = _CHOSEN.setdefault(key, quicker)
    return chosen


def _times(ways: Sequence[Write], shape: Shape, results: Shape) -> list[float]:
    """Return the least time of each way, in turn, after a run of each."""
    x, out = np.ones(shape, np.float32), np.empty(results, np.float32)
    for way in ways:
        way(x, out)
    rounds = [[_seconds(way, x, out) for way in ways] for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _seconds(way: Write, x: Array, out: Array) -> float:
    before = time.perf_counter()
    way(x, out)
    return time.perf_counter() - before
