//!use winograd
// The result of Winograd's convolution: y = apply(A^T m A + bias) for the products m of each tile.
// Expects products [cells, ROWS, PITCH], bias [N], y [batch, OH, OW, N]; p.N and p.PITCH, which count V's; p.count
// (tiles * N); p.OH, p.OW; Ending, ending(), result_of() of lib/winograd_reals.wgsl or lib/winograd_whole.wgsl; what
// lib/winograd.wgsl expects. An invocation computes a tile of
// one V of channels. Elements are a fixed distance apart: multiplications take lavapipe long.

// Of a tile and a V of channels: where the first cell and the first result lie.
struct Place { tile: Tile, cell: u32, first: u32, bias: V, by: Ending }

fn compute(i: u32) {
  let number = i / p.N;
  let n = i - number * p.N;
  let tile = tile_number(number);
  let first = ((tile.image * p.OH + tile.row) * p.OW + tile.column) * p.N + n;
  transform(Place(tile, number * p.PITCH + n, first, loadv_bias(n), ending(n)));
}

fn taken(at: Place, row: u32, column: u32) -> V {
  return loadv_products(at.cell + (row * (EDGE + 2u) + column) * (p.ROWS * p.PITCH));
}

fn put_at(at: Place, row: u32, column: u32, v: V) {
  if (at.tile.row + row < p.OH && at.tile.column + column < p.OW) {
    storev_y(at.first + row * (p.OW * p.N) + column * p.N, result_of(v, at.bias, at.by));
  }
}

fn rows(at: Place) -> u32 { return min(EDGE, p.OH - at.tile.row); }
