"""Kernels that compute a result element by element, and what they store at once."""

from __future__ import annotations

from dataclasses import replace

from gpunn.kernel import Kernel, ceil_div, flat_threads, vec_width
from gpunn.types import TensorType

MANY = 1 << 16  # elements: fewer take as long as a copy into a larger tensor


def lanes_of(y: TensorType) -> int:
    """Return how many elements of a result are stored at once, the last of which may lie in its padding.

    Those of less than a word are always stored by fours. A result of few words is not, if 4 does not divide
    its size: so it can be stored in a part of a larger tensor (gpunn.planning.join).
    """
    size = y.dtype.itemsize
    return 4 if size < 4 or (size == 4 and y.size >= MANY) else vec_width(y.size)


def each(kernel: Kernel, y: TensorType) -> Kernel:
    """Complete a kernel whose body has element(i) and uses lib/flat.wgsl; y is what it writes.

    An invocation stores one V. Where a V is one element, it computes four if these can be stored at once.
    """
    if kernel.lanes == 4 or y.dtype.itemsize > 4 or lanes_of(y) == 1:
        return replace(kernel, libraries=(*kernel.libraries, "each"))
    count = ceil_div(y.size, 4)
    return replace(
        kernel,
        threads=flat_threads(count),
        writes=tuple(replace(write, width=4) for write in kernel.writes),
        params={**kernel.params, "count": count},
        libraries=(*kernel.libraries, "each_of_four"),
        rounded_up=y.size % 4 > 0,
    )
