"""Workgroup tiles of products: sizes, and the WGSL that these determine (shaders/lib/workgroup_tile.wgsl)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from gpunn.kernel import ceil_div

WIDTH = 256  # invocations of a workgroup, as many as every device allows
_SLICE = 4  # vec4s of a row that a slice multiplies in a step
_BUFFERS = 2  # one is multiplied while the other one is filled
_VECTOR = 16  # bytes of a vec4<f32>


@dataclass(frozen=True, slots=True)
class WorkgroupTile:
    """The sums of `side` rows and as many channels, which a workgroup of WIDTH computes.

    An invocation keeps the sums of `rows` rows and of `columns` vec4s of channels. `slices` of the workgroup
    share each sum: each of them multiplies 16 elements of the depth in a step.
    """

    side: int
    rows: int
    columns: int = 1

    @property
    def slices(self) -> int:
        """Return the parts of the workgroup that each compute the whole tile."""
        return WIDTH // (self.side // self.rows * self.across)

    @property
    def across(self) -> int:
        """Return the invocations of a slice side by side."""
        return self.side // 4 // self.columns

    @property
    def fours(self) -> int:
        """Return the vec4s of a row in a step."""
        return _SLICE * self.slices

    def count(self, rows: int, channels: int) -> int:
        """Count the tiles of a result."""
        return ceil_div(rows, self.side) * ceil_div(channels, self.side)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the workgroup's memory that rows and weights in float32 take."""
        return 2 * _BUFFERS * self.side * self.fours * _VECTOR

    @property
    def reason(self) -> str:
        """Say what speaks for a kernel that has these tiles."""
        shared = f"{self.side} rows x {self.side} channels that a workgroup shares"
        return f"{shared}, each sum in {self.slices} slices" if self.slices > 1 else shared

    @property
    def kept(self) -> str:
        """Say where its kernels keep what they compute."""
        where = f"{self.side} rows x {self.side} channels in the memory of a workgroup"
        slices = f", {self.slices} slices of the depth" if self.slices > 1 else ""
        return f"{where}{slices}, {self.rows} x {4 * self.columns} in registers"

    @property
    def constants(self) -> Mapping[str, int]:
        """Return the constants of its kernels."""
        return {"SIDE": self.side, "ROWS": self.rows, "COLUMNS": self.columns, "SLICES": self.slices}

    def written(self, halves: bool) -> str:
        """Write what the shader leaves open; halves: for products in f16."""
        return _written(self, halves)

    @property
    def _sums(self) -> list[tuple[int, int]]:
        """List the rows and columns of the sums of an invocation, in their order."""
        return [(row, column) for row in range(self.rows) for column in range(self.columns)]


TILE = WorkgroupTile(64, 4)  # of the rule
SLICED_TILE = WorkgroupTile(32, 4)
LARGE_TILE = WorkgroupTile(128, 8, 2)


@cache
def _written(tile: WorkgroupTile, halves: bool) -> str:
    parts = [_loads(tile), _products(tile, "add_four", "weights_at", _four), _slices(tile), _stores(tile)]
    if halves:
        parts.append(_products(tile, "add_eight", "pair_at", _eight))
    return "\n".join(line for part in parts for line in part)


def _loads(tile: WorkgroupTile) -> Iterator[str]:
    """Write what an invocation brings of each step, and where it puts that."""
    loads = range(tile.side * tile.fours // WIDTH)

    def each(one: Callable[[int], str]) -> str:
        return ", ".join(map(one, loads))

    def row(load: int) -> str:
        return f"i / FOURS + {load * tile.side // len(loads)}u"

    def element(load: int) -> str:
        return f"i / TILE_COLUMNS + {load * 4 * tile.fours // len(loads)}u"

    yield f"alias Rows = array<Row, {len(loads)}>;"
    yield f"alias Fours = array<vec4<T>, {len(loads)}>;"
    rows = each(lambda k: f"row_at(matrix, first + {row(k)})")
    yield f"fn rows_of(matrix: u32, first: u32, i: u32) -> Rows {{ return Rows({rows}); }}"
    yield "fn bring_step(rows: Rows, column: Column, k: u32, i: u32) -> Brought { return Brought("
    yield f"Fours({each(lambda k: f'four_of(rows[{k}], k + i % FOURS)')}),"
    yield f"Fours({each(lambda k: f'weights_of(column, 4u * k + {element(k)})')})); }}"
    yield "fn hold_step(brought: Brought, loader: ptr<function, Loader>, step: u32, i: u32) {"
    for k in loads:
        yield f"keep_row(step, {row(k)}, i % FOURS, hold_row(brought.rows[{k}], {k}u, loader, step));"
        held = f"hold_weights(brought.weights[{k}], loader, step)"
        yield f"keep_weights(step, {element(k)}, i % TILE_COLUMNS, {held});"
    yield "}"


def _products(
    tile: WorkgroupTile, name: str, weights: str, product: Callable[[str, int, str], str]
) -> Iterator[str]:
    """Write a function that adds products to all sums; product: a sum with that of a column and a row."""
    yield f"fn {name}(sums: ptr<function, Sums>, at: At, four: u32) {{"
    yield from (f"let w{c} = {weights}(at, 4u * four, {c}u);" for c in range(tile.columns))
    for k, (row, column) in enumerate(tile._sums):
        held = f"held_rows[at.part][{row}][at.row]"
        yield f"(*sums)[{k}] = {product(f'(*sums)[{k}]', column, held)};"
    yield "}"


def _four(sum: str, column: int, row: str) -> str:
    return f"with_products({sum}, w{column}, {row}[four])"


def _eight(sum: str, column: int, row: str) -> str:
    return f"{sum} + pair_product(w{column}, {row}[four], {row}[four + 1u])"


def _slices(tile: WorkgroupTile) -> Iterator[str]:
    """Write how slices hand their sums to others, and how these add them up."""
    sums = range(len(tile._sums) if tile.slices > 1 else 0)
    yield "fn hand_sums(sums: ptr<function, Sums>, to: u32) {"
    yield from (f"hand_sum(to, {k}u, (*sums)[{k}]);" for k in sums)
    yield "}"
    yield "fn take_sums(sums: ptr<function, Sums>, at: u32) {"
    yield from (f"(*sums)[{k}] += handed_sum(at, {k}u);" for k in sums)
    yield "}"


def _stores(tile: WorkgroupTile) -> Iterator[str]:
    """Write what stores the sums of an invocation."""
    yield "fn put_sums(sums: ptr<function, Sums>, first: Place, place: Place, begin: u32, end: u32) {"
    for k, (row, column) in enumerate(tile._sums):
        cell = f"Cell(place.row + {row * tile.side // tile.rows}u, place.column + {column * tile.across}u)"
        yield f"put_cell(first, {cell}, begin, end, (*sums)[{k}]);"
    yield "}"
