//!use blocks coords
// A transposition in tiles of 4 x 4 elements: x is dense along the rows of a tile, y along its columns.
// Expects x, y; p.columns, p.rows, of the grid of tiles; p.x_start, p.x_stride, p.x_step (from row to row of a tile),
// p.y_start, p.y_stride, p.y_step (from column to column), all counted in fours; the strides, each with a _hi, lead
// along the rows of the grid; what lib/coords.wgsl and lib/blocks.wgsl expect. An invocation copies a tile.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = tile_among(at, WX);
  if (tile.column >= p.columns || tile.row >= p.rows) { return; }
  let first = coords(tile.row);
  let source = p.x_start + along(first, p.x_stride, p.x_stride_hi) + 4u * tile.column * p.x_step;
  let place = p.y_start + along(first, p.y_stride, p.y_stride_hi) + tile.column;
  let a = applyv(loadv_x(source));
  let b = applyv(loadv_x(source + p.x_step));
  let c = applyv(loadv_x(source + 2u * p.x_step));
  let d = applyv(loadv_x(source + 3u * p.x_step));
  storev_y(place, V(a[0], b[0], c[0], d[0]));
  storev_y(place + p.y_step, V(a[1], b[1], c[1], d[1]));
  storev_y(place + 2u * p.y_step, V(a[2], b[2], c[2], d[2]));
  storev_y(place + 3u * p.y_step, V(a[3], b[3], c[3], d[3]));
}
