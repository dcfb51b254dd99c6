"""How sums are divided among invocations, and the tile of the register-tiled products."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunn.device import DeviceProperties
from gpunn.kernel import Grid, Param, ceil_div, tile_grid

COLUMNS = 8  # output channels of one tile: two vec4
ROWS = 8  # output rows or pixels of one tile
WORKGROUP = (64, 1, 1)
_MOST_SLICES = 16  # of a sum of products: each costs a part of the joining
_MOST_SHARES = 64  # of what is joined by halves in a workgroup


@dataclass(frozen=True, slots=True)
class Work:
    """How a product is divided: threads for workgroups of WORKGROUP, parameters, and slices of every sum.

    `slices` invocations share a sum (shaders/lib/slices.wgsl).
    """

    threads: Grid
    slices: int
    params: dict[str, Param] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The slices, for a kernel's reason."""
        return f", the depth in {self.slices} slices" if self.slices > 1 else ""


def _divided(results: int, device: DeviceProperties, most: int) -> int:
    """A power of two of invocations for each result: enough to occupy the device, not more than `most`."""
    count = 1
    while 2 * count <= most and results * count < device.parallel_invocations:
        count *= 2
    return count


def _slices(sums: int, steps: int, device: DeviceProperties) -> int:
    """Those of a sum of products, each of which has two steps or more to do."""
    return _divided(sums, device, min(_MOST_SLICES, steps // 2))


def shares(results: int, terms: int, device: DeviceProperties) -> int:
    """How many invocations share each result of so many terms, a power of two."""
    return _divided(results, device, min(_MOST_SHARES, terms))


def tiles(rows: int, channels: int, steps: int, device: DeviceProperties) -> Work:
    """Tiles over rows and padded channels (lib/tiles.wgsl), for sums of so many steps."""
    across, down = channels // COLUMNS, ceil_div(rows, ROWS)
    slices = _slices(across * down, steps, device)
    (x, y, z), params = tile_grid(across, down, WORKGROUP[0] // slices)
    return Work((x * slices, y, z), slices, {**params})


def lines(rows: int, channels: int, steps: int, device: DeviceProperties) -> Work:
    """Single rows of vec4 columns, for few rows."""
    slices = _slices(rows * channels // 4, steps, device)
    return Work((channels // 4 * slices, rows, 1), slices)


def row_library(rows: int, channels: int) -> tuple[str]:
    """The lib/ file whose put_channels() stores rows of that many channels."""
    return ("rows_of_fours",) if channels % 4 == 0 or rows == 1 else ("rows",)
