//!use winograd
// The result of a tile of lib/winograd.wgsl. Expects products [cells, ROWS, PITCH]; y [batch, OH, OW, N]; apply;
// p.N and p.PITCH, which count V's; what lib/winograd.wgsl expects.

fn product(tile: Tile, cell: u32, n: u32) -> V {
  return loadv_products((cell * p.ROWS + tile.number) * p.PITCH + n);
}

fn put_pixel(tile: Tile, row: u32, column: u32, n: u32, v: V) {
  let y = tile.row + row;
  let x = tile.column + column;
  if (y < p.OH && x < p.OW) { storev_y(((tile.image * p.OH + y) * p.OW + x) * p.N + n, applyv(v)); }
}
