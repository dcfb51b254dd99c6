//!use winograd
// The input of Winograd's convolution: y = B^T d B for the pixels d that each tile sees.
// Expects x [batch, H, W, C] and y [cells, ROWS, C]; p.C and, where pixels of x begin, p.x_pitch and p.x_first, which
// count V's; enter(), what is multiplied for an element; p.count (tiles * C); p.H, p.W, p.PT, p.PL (padding); what
// lib/winograd.wgsl expects. An invocation computes a tile of one V of channels. Places before the first row or column
// wrap to large numbers, so one comparison tells inside from outside. Elements are a fixed distance apart:
// multiplications take lavapipe long.

// Of a tile and a V of channels: the row and the column of the first pixel, where this pixel and the first cell lie.
struct Place { row: u32, column: u32, first: u32, cell: u32 }

fn compute(i: u32) {
  let number = i / p.C;
  let c = i - number * p.C;
  let tile = tile_number(number);
  let row = tile.row - p.PT;
  let column = tile.column - p.PL;
  let first = ((tile.image * p.H + row) * p.W + column) * p.x_pitch + p.x_first + c;
  transform(Place(row, column, first, number * p.C + c));
}

fn taken(at: Place, row: u32, column: u32) -> V {
  let inside = at.row + row < p.H && at.column + column < p.W;
  let i = select(0u, at.first + row * (p.W * p.x_pitch) + column * p.x_pitch, inside);
  return select(V(), enter(loadv_x(i)), inside);
}

fn put_at(at: Place, row: u32, column: u32, v: V) {
  storev_y(at.cell + (row * (EDGE + 2u) + column) * (p.ROWS * p.C), v);
}

fn rows(at: Place) -> u32 { return p.REACH; }
