//!use blocks coords
// A transposition in tiles of up to 4 x 4 elements: x is dense along the rows of a tile, y along its columns.
// Expects x, y; p.columns, p.rows, of the grid of tiles; p.width, the elements along which y is dense, of which a tile
// has four rows; p.extent, those along which x is dense, of which it has four columns; p.x_start, p.x_stride, p.x_step
// (from row to row of a tile), p.y_start, p.y_stride, p.y_step (from column to column); the strides, each with a _hi,
// lead along the rows of the grid; what lib/coords.wgsl and lib/blocks.wgsl expect. An invocation copies a tile.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = tile_among(at, WX);
  if (tile.column >= p.columns || tile.row >= p.rows) { return; }
  let first = coords(tile.row);
  let rows = min(4u, p.width - 4u * tile.column);
  let columns = min(4u, p.extent - 4u * first.low.w);
  let source = p.x_start + along(first, p.x_stride, p.x_stride_hi) + 4u * tile.column * p.x_step;
  let place = p.y_start + along(first, p.y_stride, p.y_stride_hi) + 4u * tile.column;
  for (var row = 0u; row < 4u; row++) {
    for (var column = 0u; column < 4u; column++) {
      if (row < rows && column < columns) {
        store_y(place + column * p.y_step + row, apply(load_x(source + row * p.x_step + column)));
      }
    }
  }
}
