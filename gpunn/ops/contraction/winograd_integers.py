"""Winograd's convolution of quantised tensors of 8 bits, to the bit.

The points 0, 1, -1, 2 and -2 give transforms of whole numbers, if the rows of G are multiplied by their
denominators, and the columns of A^T by what these lack to 2 or 24. Results are then 4 times the sums of
products with F(2 x 2), 576 times with F(4 x 4). All of this is arithmetic modulo 2^32, where nothing is
rounded and overflow does no harm: 576 = 9 * 2^6, so 1 / 9 modulo 2^32 leads to 64 times a sum, and a shift to
the sum, if it has 26 bits. Products of i32 take CPUs no longer than those of f32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from gpunn.kernel import Candidate, Kernel, Pack, Read, Write
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import stack
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.contraction.wide_sums import reach
from gpunn.ops.contraction.winograd import Arithmetic, pack_transformed, with_tiles
from gpunn.ops.contraction.winograd_tiling import in_tiles
from gpunn.ops.kernels.window import Window
from gpunn.types import Array, DType

_LANES = 4
_ROWS = {  # of G, by the edge of a tile, as multiples that are whole
    2: np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1]]),
    4: np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4], [0, 0, 1]]),
}
_BITS = {2: 30, 4: 26}  # of sums, with their sign


def pack_whole(filter: Array, edge: int, zero: int) -> Array:
    """Pack [O, 3, 3, I] of 8 bits without its zero point as winograd.pack_cells() does, for these rows."""
    return pack_transformed(filter.astype(np.int32) - zero, _ROWS[edge], np.dtype(np.int32))


def with_whole_tiles(
    call: Call, window: Window, how: Rescaling, others: Iterable[Candidate]
) -> Iterator[Candidate]:
    """Yield ways for one group and a constant filter of 8 bits: Winograd's before others as for reals."""
    if not in_tiles(call, window) or call.y.shape[3] % _LANES:
        return iter(others)
    terms = call.x.shape[3] * math.prod(window.size)
    largest = reach(call.x, how.zero_x) * reach(call.input(1), how.zero_w) * terms
    edges = [edge for edge, bits in _BITS.items() if largest < 2 ** (bits - 1)]

    def entered(kernel: Kernel) -> Kernel:
        return replace(kernel, params={**kernel.params, **how.params(how.zero_w, _LANES)})

    def completed(kernel: Kernel) -> Kernel:
        scales = Read("scales", None, _LANES, value=how.table(_LANES))
        counts = {"SCALES": call.y.shape[3] // _LANES}
        kernel = replace(
            kernel,
            reads=(*kernel.reads, scales),
            params={**kernel.params, **how.params(how.zero_w, _LANES), **counts},
            libraries=(*kernel.libraries, "winograd_whole"),
        )
        return how.finish.of(kernel)

    def packed(edge: int) -> Pack:
        return Pack(pack_whole, (edge, how.zero_w))

    lanes = (_LANES, _LANES)
    whole = Arithmetic(DType.INT32, lanes, "_whole", packed, _whole_stack, entered, completed)
    return with_tiles(call, window, others, whole, edges)


def _whole_stack(call: Call, sizes: tuple[int, int, int, int], x: Read, w: Read, y: Write) -> Kernel:
    """Compute what shared_stack() does for int32, modulo 2^32."""
    kernel = stack(call, sizes, x, w, y)
    libraries = ("broadcast_whole" if n == "broadcast_reals" else n for n in kernel.libraries)
    return replace(kernel, libraries=tuple(libraries))
