"""The tiles of Winograd's convolution (winograd.py): how many there are, and when they come first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpunn.kernel import ceil_div
from gpunn.ops.call import Call
from gpunn.ops.contraction.broadcast_tile import OF_WINDOWS, SHARED_ROWS, ByTile, channels_together, measured
from gpunn.ops.contraction.filter_packing import STEP
from gpunn.ops.kernels.tiling import COLUMNS
from gpunn.ops.kernels.window import Window
from gpunn.ops.kernels.workgroup_tile import TILE as WORKGROUP_TILE
from gpunn.ops.kernels.workgroup_tile import WIDTH
from gpunn.types import DType

SIZE = (3, 3)  # of windows
REALS = (DType.FLOAT32, DType.FLOAT16)

# Multiplications in shared rows, about 0.5 ms on lavapipe, from which on three further pipelines are worth
# the 0.1 to 0.5 s that they take to compile there.
_WORTH = 12_000_000
_CROWD = 4  # times what occupies a device: 512 tiles of 64 x 64 for a discrete GPU
# Multiplications in shared rows that take as long as an element on its way from kernel to kernel.
_MOVED = ByTile(36, 22, 90)
_OF_INTEGERS = ByTile(1.2, 3.5, 2.1)  # beside OF_WINDOWS, which is that of reals


@dataclass(frozen=True, slots=True)
class Tiling:
    """A call in tiles of edge x edge pixels.

    Tiles at the right and the lower end of an image may be idle in part. `loops`: transforms load and store
    in loops, which lavapipe compiles in a third of the time; written out, they run faster.
    """

    call: Call
    edge: int
    loops: bool = True

    @property
    def cells(self) -> int:
        """Return the products of a tile for one pair of channels."""
        return (self.edge + SIZE[0] - 1) ** 2

    @property
    def across(self) -> int:
        """Return the tiles along the width of an image."""
        return ceil_div(self.call.y.shape[2], self.edge)

    @property
    def down(self) -> int:
        """Return the tiles along the height of an image."""
        return ceil_div(self.call.y.shape[1], self.edge)

    @property
    def count(self) -> int:
        """Return the tiles of all images."""
        return self.call.y.shape[0] * self.down * self.across

    @property
    def rows(self) -> int:
        """Return the rows of each product, of which the last may be idle."""
        return full(self.count, SHARED_ROWS)

    @property
    def cost(self) -> float:
        """Return about how many multiplications in shared rows take as long."""
        depth, channels = self.call.x.shape[3], self.call.y.shape[3]
        product = self.rows * depth * full(channels, channels_together(self.call.device))
        return self.cells * (product + _MOVED.on(self.call.device) * self.count * (depth + channels))


def full(count: int, multiple: int) -> int:
    """Return the next multiple of a number that is no less than a count."""
    return ceil_div(count, multiple) * multiple


def _direct(call: Call) -> int:
    """Count the multiplications of shared rows, idle ones included; if fewer take as long as register tiles,
    where less is idle with few channels, these.
    """
    rows, depth, channels = math.prod(call.y.shape[:3]), call.x.shape[3], call.y.shape[3]
    gain = (OF_WINDOWS if call.x.dtype in REALS else _OF_INTEGERS).on(call.device)
    computed = min(full(channels, channels_together(call.device)), int(gain * full(channels, COLUMNS)))
    return math.prod(SIZE) * full(rows, SHARED_ROWS) * depth * computed


def in_tiles(call: Call, window: Window) -> bool:
    """Tell whether a convolution with one group can be cut into tiles, whatever its dtype is."""
    plain = window.size == SIZE and window.stride == window.dilation == (1, 1)
    return plain and call.x.shape[3] % STEP == 0 and call.x.shape[3] > 0 and call.y.size > 0


def comes_first(way: Tiling) -> bool:
    """Tell whether a way is quicker than others, and worth what its pipelines take to compile.

    SwiftShader compiles quickly. On an NVIDIA H200 tiles of 4 x 4 take 0.4 of the time of the best other way
    once their products occupy it several times, and 0.3 to 0.7 of that of products in f16.
    """
    direct, device = _direct(way.call), way.call.device
    if not device.software:
        return way.edge == 4 and way.call.x.dtype in REALS and _crowds(way)
    return measured(device) and way.cost < direct and (device.subgroups_of_four or direct >= _WORTH)


def _crowds(way: Tiling) -> bool:
    """Tell whether the tiles of all products are several times as many as occupy a device of hardware."""
    depth, channels = way.call.x.shape[3], way.call.y.shape[3]
    tiles = way.cells * WORKGROUP_TILE.count(way.rows, channels)
    least = _CROWD * way.call.device.parallel_invocations
    return min(depth, channels) >= WORKGROUP_TILE.side and WIDTH * tiles >= least
