"""Sorting on the GPU: rows of a tensor in a stable order, in blocks of a workgroup and then by merging.

The order is numpy's with every driver (shaders/lib/order.wgsl): equal values keep their order, -0 equals +0,
NaN is beyond the infinities. The cost for a row of n is n log(n), in 1 + log(n / BLOCK) dispatches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpunn.kernel import Kernel, Read, Scratch, Write, ceil_div, flat_threads
from gpunn.ops.check import FLOATS
from gpunn.types import Array, DType, TensorType

BLOCK = 256  # elements that a workgroup sorts


def ascending(reals: Array) -> Array:
    """Convert float32 numbers to int32 of the same order (shaders/lib/ascending.wgsl)."""
    bits = reals.astype(np.float32).view(np.int32)
    magnitude = bits & np.int32(0x7FFFFFFF)
    return np.where(bits < 0, -magnitude, magnitude)


def ordering(dtype: DType, descending: int, **constants: int) -> dict[str, Any]:
    """Return fields of a Kernel: lib/order.wgsl or lib/int64_order.wgsl, its constants, and `constants`."""
    constants = {**constants, "REAL": int(dtype in FLOATS), "DESCENDING": descending}
    return {"libraries": ("int64_order" if dtype is DType.INT64 else "order",), "constants": constants}


def sorting(x: Read, type: TensorType, descending: int) -> tuple[list[Kernel], Scratch]:
    """Make kernels that sort the rows of `x`, a tensor of a type; the result is int32 places in x, row by
    row.

    Rows are x's last dimension, which must not be empty.
    """
    length, order = type.shape[-1], ordering(type.dtype, descending)
    rows, blocks = type.size // length, ceil_div(length, BLOCK)
    places = TensorType(DType.INT32, type.shape)
    source, spare = Scratch(places), Scratch(places)
    kernels = [
        Kernel(
            body="sort_blocks",
            threads=flat_threads(rows * blocks * BLOCK, BLOCK),
            workgroup=(BLOCK, 1, 1),
            reads=(x,),
            writes=(Write("sorted", source),),
            params={"length": length, "rows": rows, "blocks": blocks},
            reason=f"rows of {length} sorted, {BLOCK} at a time",
            **order,
        )
    ]
    for run in (BLOCK << step for step in range((blocks - 1).bit_length())):
        kernels.append(
            Kernel(
                body="merge_runs",
                threads=flat_threads(type.size),
                reads=(x, Read("sorted", source)),
                writes=(Write("merged", spare),),
                params={"count": type.size, "length": length, "run": run},
                reason=f"sorted runs of {run} merged in pairs",
                **order,
            )
        )
        source, spare = spare, source
    return kernels, source
