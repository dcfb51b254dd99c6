//!use winograd
// The input of a tile of lib/winograd.wgsl. Expects x [batch, H, W, C] and y [cells, ROWS, C]; p.C, which counts V's;
// what lib/winograd.wgsl expects. Places before the first row or column wrap to large numbers, so one comparison tells
// inside from outside.

fn pixel(tile: Tile, row: u32, column: u32, c: u32) -> V {
  let y = tile.row + row - p.PT;
  let x = tile.column + column - p.PL;
  let inside = y < p.H && x < p.W;
  return select(V(), loadv_x(select(0u, ((tile.image * p.H + y) * p.W + x) * p.C + c, inside)), inside);
}

fn put_cell(tile: Tile, cell: u32, c: u32, v: V) { storev_y((cell * p.ROWS + tile.number) * p.C + c, v); }
