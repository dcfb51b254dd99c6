//!use winograd
// The result of Winograd's convolution: y = apply(A^T m A + bias) for the products m of each tile.
// Expects products [cells, ROWS, PITCH], bias [N], y [batch, OH, OW, N]; p.N and p.PITCH, which count V's; p.count
// (tiles * N); p.OH, p.OW; p.low, p.high; clip, apply; what lib/winograd.wgsl expects. An invocation computes a tile of
// one V of channels.

struct Place { tile: Tile, n: u32, bias: V, low: V, high: V }

fn compute(i: u32) {
  let number = i / p.N;
  let n = i - number * p.N;
  transform(Place(tile_number(number), n, loadv_bias(n), splatv(p.low), splatv(p.high)));
}

fn taken(at: Place, row: u32, column: u32) -> V {
  return loadv_products(cell(at.tile, row, column) * p.PITCH + at.n);
}

fn put(at: Place, row: u32, column: u32, v: V) {
  let y = at.tile.row + row;
  let x = at.tile.column + column;
  if (y < p.OH && x < p.OW) {
    let result = applyv(clipv(v + at.bias, at.low, at.high));
    storev_y(((at.tile.image * p.OH + y) * p.OW + x) * p.N + at.n, result);
  }
}
