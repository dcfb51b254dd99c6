"""The division of sums among invocations, and the tiles of the register-tiled products."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpunn.device import DeviceProperties
from gpunn.kernel import ROWS_OF_FOURS, Grid, Kernel, Param, ceil_div, tile_grid
from gpunn.ops.kernels.register_tile import TILE, RegisterTile

COLUMNS = TILE.channels  # of one tile: two vec4; packed filters have a multiple of them
ROWS = TILE.rows  # output rows or pixels of one tile
WORKGROUP = (64, 1, 1)
_NARROW = (8, 1, 1)  # on a CPU, each core of which computes a workgroup, where there are few of WORKGROUP
_MOST_SPLITS = 16  # of a sum of products: each costs a part of the joining
_MORE = 4  # times as many share a sum of a row on hardware: there is less to do while others wait for memory
_MOST_SHARES = 64  # of what is joined by halves in a workgroup


@dataclass(frozen=True, slots=True)
class ProductGrid:
    """The division of a product: threads, the size of a workgroup, and parameters.

    `splits` invocations share each sum (split-K, shaders/lib/split_k.wgsl).
    """

    threads: Grid
    splits: int
    params: dict[str, Param] = field(default_factory=dict)
    workgroup: Grid = WORKGROUP

    @property
    def reason(self) -> str:
        """Return the end of a kernel's reason: how many invocations share a sum, if several do."""
        return f", split-K by {self.splits}" if self.splits > 1 else ""


def _divided(results: int, device: DeviceProperties, most: int) -> int:
    """Return how many invocations compute one result, a power of two up to `most`: enough to occupy the
    device.
    """
    count = 1
    while 2 * count <= most and results * count < device.parallel_invocations:
        count *= 2
    return count


def splits(sums: int, steps: int, device: DeviceProperties, times: int = 1) -> int:
    """Return how many invocations share a sum of products; each has two steps or more.

    times: that many times more of them than occupy the device.
    """
    count = _divided(ceil_div(sums, times), device, min(times * _MOST_SPLITS, steps // 2))
    return min(count, WORKGROUP[0])


def shares(results: int, terms: int, device: DeviceProperties) -> int:
    """Return how many invocations share each result of that many terms, a power of two."""
    return _divided(results, device, min(_MOST_SHARES, terms))


def tiles(
    rows: int, channels: int, steps: int, device: DeviceProperties, tile: RegisterTile = TILE
) -> ProductGrid:
    """Divide into tiles over rows and channels (lib/tiles.wgsl), for sums of that many steps.

    Tiles of more rows than that of the rule are for results that occupy the device: nothing is divided.
    """
    across, down = tile.across(channels), ceil_div(rows, tile.rows)
    count = splits(across * down, steps, device) if tile.rows <= ROWS else 1
    (x, y, z), params = tile_grid(across, down, WORKGROUP[0] // count)
    return ProductGrid((x * count, y, z), count, {**params})


def leaves_idle(kernel: Kernel, device: DeviceProperties) -> bool:
    """Tell whether the invocations of a kernel are less than half of those that occupy a device."""
    return 2 * math.prod(kernel.threads) < device.parallel_invocations


def row_tiles(rows: int, channels: int, steps: int, device: DeviceProperties) -> ProductGrid:
    """Divide into tiles of one row x one vec4 column, for few rows."""
    count = splits(rows * channels // 4, steps, device, 1 if device.software else _MORE)
    workgroup = _NARROW if device.software and count == 1 else WORKGROUP
    return ProductGrid((channels // 4 * count, rows, 1), count, workgroup=workgroup)


def row_library(rows: int, channels: int) -> tuple[str]:
    """Return the lib/ file whose put_channels() stores rows of that many channels."""
    return (ROWS_OF_FOURS,) if channels % 4 == 0 or rows == 1 else ("rows",)
