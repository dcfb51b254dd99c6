"""The real numbers of constants in which each block of a row has a scale of its own, for rules."""

from __future__ import annotations

from collections.abc import Callable

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Result, StepList, Value
from gpunn.importers.tflite.blocks import RowBlocks
from gpunn.types import Shape


def block_reals(
    steps: StepList,
    blocks: RowBlocks,
    stored: Value,
    shape: Shape,
    rows: Callable[[Operand], Value] = lambda factors: factors,
    hybrid: bool = False,
) -> Result:
    """Add the steps from stored integers of a shape to their real numbers; return these.

    `rows` gives the rows of scales and zero points that belong to the rows of `stored`.
    """
    split = (*shape[:-1], shape[-1] // blocks.size)

    def each(factors: Operand) -> Result:
        reals = steps.add("cast", (rows(factors),), {"dtype": "float32"})
        return steps.add("reshape", (reals,), {"shape": (*split, 1)})

    found = steps.add("cast", (stored,), {"dtype": "float32"})
    found = steps.add("reshape", (found,), {"shape": (*split, blocks.size)})
    if blocks.zeros is not None:
        found = steps.add("sub", (found, each(blocks.zeros)))
    found = steps.add("mul", (found, each(blocks.scales)))
    return steps.add("reshape", (found,), {"shape": shape}, hybrid=hybrid)
