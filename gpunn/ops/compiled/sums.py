"""Means along an axis, as loops: of pixels for each channel, and of rows of stored integers.

Pixels are added up four at a time, so that sums of float32 are rounded a quarter as often.
"""

from __future__ import annotations

import numpy as np

from gpunn.types import Array

BLOCK = 64  # channels of a part


def channel_means(some: tuple[int, int], x: Array, count: float, out: Array) -> None:
    """Write the means of float32 x [B, P, C] to `out` [B, C]; count: P, or what sums are divided by.

    some: blocks of channels, from one to another, of all B.
    """
    channels = x.shape[2]
    blocks = (channels + BLOCK - 1) // BLOCK
    for block in range(*some):
        b, first = block // blocks, block % blocks * BLOCK
        last = min(first + BLOCK, channels)
        total = out[b, first:last]
        add_up(x[b], first, total)
        for k in range(len(total)):
            total[k] /= count


def stored_means(
    some: tuple[int, int],
    x: Array,
    least: Array,
    upwards: int,
    guess: tuple[float, float],
    low: int,
    out: Array,
) -> None:
    """Write results of the sums of stored integers x [B, P, C] to `out` [B, C].

    some: as of channel_means(). least: for each result but the lowest, which is `low`, the least sum that
    gives it: of the first `upwards` channels, and of the others. guess: a factor and a summand, with which a
    sum is about the number of a result.
    """
    channels = x.shape[2]
    blocks = (channels + BLOCK - 1) // BLOCK
    sums = np.empty(BLOCK, np.int32)
    for block in range(*some):
        b, first = block // blocks, block % blocks * BLOCK
        width = min(BLOCK, channels - first)
        add_up(x[b], first, sums[:width])
        for k in range(width):
            total, limits = sums[k], least[0 if first + k < upwards else 1]
            about = total * guess[0] + guess[1]  # compared as a real number: it may be beyond all integers
            place = len(limits) if about >= len(limits) else int(about) if about > 0 else 0
            while place > 0 and total < limits[place - 1]:
                place -= 1
            while place < len(limits) and total >= limits[place]:
                place += 1
            out[b, first + k] = place + low


def add_up(x: Array, first: int, sums: Array) -> None:
    """Write the sums of x [P, C] for some channels from the first one on, in the dtype of sums."""
    pixels, width, number = len(x), len(sums), sums.dtype.type
    if x.shape[1] == 1:
        total = number(0)
        for p in range(pixels):
            total += number(x[p, 0])
        sums[0] = total
        return
    for k in range(width):
        sums[k] = 0
    whole = pixels // 4 * 4
    for p in range(0, whole, 4):
        one, two = x[p, first : first + width], x[p + 1, first : first + width]
        three, four = x[p + 2, first : first + width], x[p + 3, first : first + width]
        for k in range(width):
            sums[k] += (number(one[k]) + number(two[k])) + (number(three[k]) + number(four[k]))
    for p in range(whole, pixels):
        row = x[p, first : first + width]
        for k in range(width):
            sums[k] += number(row[k])
