"""Quantised products of 8 bits whose rows a subgroup shares (shaders/lib/broadcast_integers.wgsl)."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np

from gpunn.kernel import Kernel, Pack, Param, Read
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import ByTile, shared_sums, with_loop
from gpunn.ops.contraction.filter_packing import BLOCK, block_extents, pack_bias, pack_blocks
from gpunn.ops.contraction.product_rescaling import Rescaling
from gpunn.ops.kernels.window import Window
from gpunn.types import Array, DType

# Of full tiles over register tiles of words: on lavapipe those of which half is idle take 1.3 times as long.
# Products of matrices share a pipeline with others, so a network of the two kinds of tiles would take longer
# to compile. Windows over few channels have one of their own.
OF_INTEGER_PRODUCTS, OF_FEW_CHANNELS = ByTile(2.1, 3.5, 4.2), ByTile(0, 3.5, 0)
OF_FEW_ROWS = OF_INTEGER_WINDOWS = ByTile(1.7, 3.5, 3)


def pack_centred(filter: Array, zero: int) -> Array:
    """Pack [O, ..., I] of 8 bits without its zero point as pack_blocks() does, as float32."""
    return pack_blocks((filter.astype(np.int16) - zero).astype(np.float32))


def pack_words(filter: Array, zero: int) -> Array:
    """Pack [O, ..., I] of 8 bits as pack_blocks() does, in words of four channels.

    The three lower bytes of a word are unsigned, the highest one is signed (shaders/lib/stored_weights.wgsl).
    """
    columns = pack_blocks(filter, zero)
    changed = slice(3, None, 4) if columns.dtype == np.uint8 else [k for k in range(BLOCK) if k % 4 < 3]
    found = columns.view(np.uint8)
    found[..., changed] ^= 128
    return found.view(np.int32)


def _offsets(dtype: DType, zero: int) -> Param:
    """Return what pack_words() adds to the weights of each column of a word, as bits of an f32."""
    unsigned = zero if dtype is DType.UINT8 else zero + 128
    offsets = (*(unsigned << 8 * k for k in range(3)), (unsigned - 128) << 24)
    first, second, third, fourth = struct.unpack("<4i", struct.pack("<4f", *offsets))
    return first, second, third, fourth


def shared_integers(call: Call, window: Window, depth: int, how: Rescaling) -> Kernel:
    """Compute a quantised convolution with one group, or a product; see shared_rows()."""
    return of_shared_sums(call, how, shared_sums(call, window, depth), depth * math.prod(window.size))


def of_shared_sums(call: Call, how: Rescaling, real: Kernel, terms: int, centred: bool = False) -> Kernel:
    """Convert a kernel of shared rows of reals, with so many products in a sum, to one for integers.

    centred: its filter is packed as pack_centred() does, by kernels before.
    """
    x, w, bias = real.reads
    channels, rows = block_extents(call.y.shape[-1], terms)
    params = {**real.params, **how.params(how.zero_w, 4), "SCALES": channels // 4}
    if centred:
        weights = "centred_weights"
    elif call.device.subgroups_of_four:
        w = replace(w, width=1, pack=Pack(pack_words, (how.zero_w,)), dtype=DType.INT32)
        weights, params["offsets"] = "stored_weights", _offsets(call.input(1).dtype, how.zero_w)
    else:
        pack, nbytes = Pack(pack_centred, (how.zero_w,)), 4 * channels * rows
        w, weights = replace(w, pack=pack, dtype=DType.FLOAT32, nbytes=nbytes), "centred_weights"
    if call.has(2):
        bias = replace(bias, pack=Pack(pack_bias, (BLOCK,)))
    kernel = replace(
        real,
        reads=(x, w, bias, Read("scales", None, 4, value=how.table(BLOCK))),
        params=params,
        libraries=(*("broadcast_integers" if n == "broadcast_reals" else n for n in real.libraries), weights),
        lanes=4,
        reason=f"integers: {real.reason}; sums of 4 products in f32",
    )
    return with_loop(how.finish.of(kernel))
