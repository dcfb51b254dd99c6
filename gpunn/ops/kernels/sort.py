"""Sorting on the GPU: rows of a tensor in a stable order, a few elements at a time and then by merging.

The order is numpy's with every driver (shaders/lib/order.wgsl): equal values keep their order, -0 equals +0,
NaN is beyond the infinities. Places are sorted together with keys. The cost for a row of n is n log(n), in up
to log(n / STRIP) dispatches; where only the first of each row are needed, runs are cut off behind these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpunn.device import DeviceProperties
from gpunn.kernel import Kernel, Loop, Read, Scratch, Write, ceil_div, flat_threads, nested
from gpunn.ops.check import FLOATS
from gpunn.types import Array, DType, TensorType

BLOCK = 256  # elements that a workgroup sorts
STRIP = 8  # elements that an invocation merges


def ascending(reals: Array) -> Array:
    """Convert float32 numbers to int32 of the same order (shaders/lib/ascending.wgsl)."""
    bits = reals.astype(np.float32).view(np.int32)
    magnitude = bits & np.int32(0x7FFFFFFF)
    return np.where(bits < 0, -magnitude, magnitude)


def ordering(dtype: DType, descending: int, **constants: int) -> dict[str, Any]:
    """Return fields of a Kernel: lib/order.wgsl or lib/int64_order.wgsl, its constants, and `constants`."""
    constants = {**constants, "REAL": int(dtype in FLOATS), "DESCENDING": descending}
    return {"libraries": ("int64_order" if dtype is DType.INT64 else "order",), "constants": constants}


class Sorted(NamedTuple):
    """Sorted rows of a tensor: keys as lib/order.wgsl makes them, places in the tensor, elements of a row."""

    keys: Scratch
    places: Scratch
    length: int


def sorting(
    x: Read, type: TensorType, descending: int, device: DeviceProperties, most: int | None = None
) -> tuple[list[Kernel], Sorted]:
    """Make kernels that sort the rows of `x`, a tensor of a type.

    Rows are x's last dimension, which must not be empty. most: how many of each sorted row are needed, if not
    all; as many or more are there then.
    """
    length = type.shape[-1]
    rows = type.size // length
    keep = length if most is None else min(length, ceil_div(most, STRIP) * STRIP)
    if device.software:  # a workgroup's barriers, and its comparisons of all pairs, take longer than merging
        run, strips = STRIP, ceil_div(length, STRIP)
        found = _places(rows, length, type.dtype)
        first = Kernel(
            body="sort_strips",
            threads=flat_threads(rows * strips),
            reads=(x,),
            params={"count": rows * strips, "length": length, "strips": strips},
            loop_iterations=Loop(STRIP).iterations + nested(STRIP, STRIP).iterations,
            reason=f"rows of {length} sorted, {STRIP} at a time",
            **ordering(type.dtype, descending, STRIP=STRIP),
        )
    else:
        run, blocks = min(keep, BLOCK), ceil_div(length, BLOCK)
        found = _places(rows, (blocks - 1) * run + min(run, length - (blocks - 1) * BLOCK), type.dtype)
        first = Kernel(
            body="sort_blocks",
            threads=flat_threads(rows * blocks * BLOCK, BLOCK),
            workgroup=(BLOCK, 1, 1),
            reads=(x,),
            params={"length": length, "rows": rows, "blocks": blocks, "run": run, "total": found.length},
            loop_iterations=Loop(min(length, BLOCK)).iterations,
            reason=f"rows of {length} sorted, {BLOCK} at a time",
            **ordering(type.dtype, descending),
        )
    kernels = [replace(first, writes=(Write("sorted", found.places), Write("keys", found.keys)))]
    while run < found.length:
        pairs = ceil_div(found.length, 2 * run)
        longer = min(2 * run, keep)
        total = (pairs - 1) * longer + min(longer, found.length - (pairs - 1) * 2 * run)
        merged, strips = _places(rows, total, type.dtype), ceil_div(total, STRIP)
        kernels.append(
            Kernel(
                body="merge_runs",
                threads=flat_threads(rows * strips),
                reads=(Read("sorted", found.places), Read("keys", found.keys)),
                writes=(Write("merged", merged.places), Write("after", merged.keys)),
                params={
                    "count": rows * strips,
                    "strips": strips,
                    "run": run,
                    "length": found.length,
                    "longer": longer,
                    "total": total,
                },
                constants={"STRIP": STRIP},
                loop_iterations=Loop(run.bit_length()).iterations + Loop(STRIP).iterations,
                libraries=("int64_keys" if type.dtype is DType.INT64 else "keys",),
                reason=f"sorted runs of {run} merged in pairs",
            )
        )
        run, found = longer, merged
    return kernels, found


def _places(rows: int, length: int, dtype: DType) -> Sorted:
    keys = DType.INT64 if dtype is DType.INT64 else DType.INT32
    return Sorted(
        Scratch(TensorType(keys, (rows, length))), Scratch(TensorType(DType.INT32, (rows, length))), length
    )
