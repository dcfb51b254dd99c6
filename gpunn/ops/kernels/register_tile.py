"""Register tiles of products: sizes, and the WGSL that these determine (shaders/lib/register_tile.wgsl)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from gpunn.device import DeviceProperties
from gpunn.kernel import ceil_div


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The sums that an invocation keeps: of `rows` rows, an even number, and 4 or 8 `channels`.

    step: elements of a row that are loaded at once, 1 or 4.
    """

    rows: int
    channels: int
    step: int

    def across(self, channels: int) -> int:
        """Count the tiles side by side over so many channels."""
        return ceil_div(channels, self.channels)

    def count(self, rows: int, channels: int) -> int:
        """Count the tiles of a result."""
        return self.across(channels) * ceil_div(rows, self.rows)

    @property
    def reason(self) -> str:
        """Say what speaks for a kernel that has these tiles."""
        single = ", element by element" if self.step == 1 else ""
        return f"tiles of {self.rows} rows x {self.channels} channels{single}"

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the files of shaders/lib/ for the columns, and for steps along the depth."""
        two = self.channels == 8
        if self.step == 1:
            return ("two_columns" if two else "one_column", "single_steps")
        return ("matrix_steps" if two else "matrix_column_steps",)

    @property
    def constants(self) -> Mapping[str, int]:
        """Return the constants of its kernels."""
        return {"ROWS": self.rows}

    def of_rows(self, splits: int, device: DeviceProperties) -> str:
        """Write what lib/register_tile.wgsl leaves open, for rows of matrices, whose sums so many share."""
        return self._written(splits, device, False)

    def of_windows(self, splits: int, device: DeviceProperties) -> str:
        """Write the same for the windows of output pixels (lib/window_tile.wgsl)."""
        return self._written(splits, device, True)

    def _written(self, splits: int, device: DeviceProperties, windows: bool) -> str:
        return _written(self.rows, self.channels // 4, splits > 1, not device.software, windows)


TILE = RegisterTile(8, 8, 4)  # of the rule
NARROW_TILE = RegisterTile(8, 4, 4)  # for groups of channels that 8 does not divide, and few channels
PAIR_TILE, SMALL_TILE = RegisterTile(2, 4, 4), RegisterTile(4, 4, 4)
LARGE_TILES = RegisterTile(16, 8, 1), RegisterTile(16, 8, 4)
_MANY_ROWS = 64  # of which few are computed in vain in tiles of 16
_HANDED = 8  # vec4s of a tile that invocations hand over at a time: 8 KiB of a workgroup's memory
_OVERLAPPING = 4  # invocations that a large tile stands for: so many of its products do not wait for others


def other_tiles(rows: int, channels: int, depth: int, device: DeviceProperties) -> tuple[RegisterTile, ...]:
    """Return the tiles that the tuner tries beside TILE, the likely ones first; depth: elements of a row.

    On lavapipe they lose against rows that a subgroup shares; on software with subgroups of four one of them
    wins for many rows (docs/kernels.md).
    """
    large = LARGE_TILES if depth % 4 == 0 else LARGE_TILES[:1]
    if device.software:
        return large[1:] if device.subgroups_of_four and rows >= _MANY_ROWS else ()
    if _OVERLAPPING * large[0].count(rows, channels) >= device.parallel_invocations:
        return large
    return (SMALL_TILE,) if rows >= SMALL_TILE.rows else ()


@cache
def _written(rows: int, columns: int, shared: bool, ahead: bool, windows: bool) -> str:
    parts = (
        _sums(rows, ahead),
        _results(rows),
        _shared(rows if shared else 0, columns),
        _begins(rows, windows),
    )
    return "\n".join(line for part in parts for line in part)


def _sums(rows: int, ahead: bool) -> Iterator[str]:
    """Write sums_of() and add_step().

    ahead: with all loads before the first product, so that they are under way together. Compilers of GPUs
    do not always put them there; those of software keep what is loaded in memory then.
    """
    yield f"fn sums_of(row: Row) -> Sums {{ return Sums({_each(rows, lambda k: 'row')}); }}"
    yield "fn add_step(sums: ptr<function, Sums>, w: Weights, places: Places, c: u32) {"
    factors = [f"factor_at(places[{k}], c)" for k in range(rows)]
    if ahead:
        yield from (f"let x{k} = {factor};" for k, factor in enumerate(factors))
        factors = [f"x{k}" for k in range(rows)]
    for k, factor in enumerate(factors):
        yield f"(*sums)[{k}] = multiply_add((*sums)[{k}], w, {factor});"
    yield "}"


def _results(rows: int) -> Iterator[str]:
    columns = _each(rows, "columns((*sums)[{}])".format)
    yield f"fn results_of(sums: ptr<function, Sums>) -> Results {{ return Results({columns}); }}"
    yield "fn move_up(results: ptr<function, Results>) {"
    yield from (f"(*results)[{k}] = (*results)[{k + 2}];" for k in range(rows - 2))
    yield "}"


def _shared(rows: int, columns: int) -> Iterator[str]:
    """Write share_results(), which hands over the vec4s of all rows, HANDED at a time."""
    names = ("",) if columns == 1 else (".left", ".right")
    vectors = [f"(*results)[{row}]{name}" for row in range(rows) for name in names]
    handed = max(min(_HANDED, len(vectors)), 1)
    yield f"const HANDED: u32 = {handed}u;"
    yield "fn share_results(results: ptr<function, Results>, local: vec3<u32>, m: u32, n: u32) {"
    for first in range(0, len(vectors), handed):
        some = enumerate(vectors[first : first + handed])
        yield from (f"handed_tiles[{k}][local.x] = {vector};" for k, vector in some)
        yield f"put_handed(local, m, n, {first}u);"
    yield "}"


def _begins(rows: int, windows: bool) -> Iterator[str]:
    """Write begins_from(), where the rows from m on begin, or the last one, and places_of()."""
    begin, kind = ("corner", "Corner") if windows else ("place_of_row", "u32")
    begins = _each(rows, lambda k: f"{begin}({f'min(m + {k}u, last)' if k else 'm'})")
    yield f"alias Begins = array<{kind}, {rows}>;"
    yield f"fn begins_from(m: u32) -> Begins {{ let last = p.M - 1u; return Begins({begins}); }}"
    if windows:
        places = _each(rows, "place_of(cell(begins[{}], ky, kx), first)".format)
        yield "fn places_of(begins: Begins, ky: u32, kx: u32, first: u32) -> Places {"
        yield f"return Places({places}); }}"


def _each(rows: int, one: Callable[[int], str]) -> str:
    return ", ".join(map(one, range(rows)))
