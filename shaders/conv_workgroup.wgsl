//!use window_row
// Convolution over height and width as a product whose operands a workgroup shares (lib/workgroup_tile.wgsl), over
// window cells and input channels in one row.
// Expects x [batch, H, W, 4 C] and y; w with the window cells, then the input channels, along its depth; what
// lib/workgroup_tile.wgsl, lib/window.wgsl and lib/window_row.wgsl expect. An invocation computes ROWS output
// pixels, along [batch, OH, OW] flattened, x 4 COLUMNS output channels.

alias Row = Corner;

fn row_of(m: u32) -> Row { return corner(m); }

fn four_at(row: Row, k: u32) -> vec4<T> {
  let at = element(k);
  let inside = is_inside(row, at);
  return select(vec4<T>(), load4_x(select(0u, window_at(row) + at.distance, inside)), inside);
}
