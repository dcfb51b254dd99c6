"""Kernels whose shaders have the parameters as constants: for programs that run long, each has a pipeline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpunn.kernel import Kernel
from gpunn.planning.partition import Placement

LEAST = 1 << 12  # invocations: software computes fewer in some microseconds


def inline(placements: Sequence[Placement], every: bool) -> tuple[Placement, ...]:
    """Return placements whose kernels have their parameters as constants.

    These are all kernels, or, as it pays on software, large ones with short code that spend their time in
    finding places: with constants this takes fewer instructions.
    """
    made: dict[int, Kernel] = {}  # by id: the rounds of a loop share kernels, and so what is made of these

    def inlined(kernel: Kernel) -> Kernel:
        if id(kernel) not in made:
            worthwhile = kernel.index_bound and math.prod(kernel.threads) >= LEAST
            made[id(kernel)] = replace(kernel, inlined=True) if every or worthwhile else kernel
        return made[id(kernel)]

    return tuple(replace(p, kernels=tuple(map(inlined, p.kernels))) for p in placements)
