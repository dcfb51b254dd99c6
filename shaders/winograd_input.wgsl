//!use winograd
// The input of Winograd's convolution: y = B^T d B for the pixels d that each tile sees.
// Expects x [batch, H, W, C] and y [cells, ROWS, C]; p.C, which counts V's; p.count (tiles * C); p.H, p.W, p.PT, p.PL
// (padding); what lib/winograd.wgsl expects. An invocation computes a tile of one V of channels. Places before the
// first row or column wrap to large numbers, so one comparison tells inside from outside.

struct Place { tile: Tile, c: u32 }

fn compute(i: u32) {
  let number = i / p.C;
  transform(Place(tile_number(number), i - number * p.C));
}

fn taken(at: Place, row: u32, column: u32) -> V {
  let y = at.tile.row + row - p.PT;
  let x = at.tile.column + column - p.PL;
  let inside = y < p.H && x < p.W;
  return select(V(), loadv_x(select(0u, ((at.tile.image * p.H + y) * p.W + x) * p.C + at.c, inside)), inside);
}

fn put(at: Place, row: u32, column: u32, v: V) { storev_y(cell(at.tile, row, column) * p.C + at.c, v); }
