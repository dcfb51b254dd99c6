//!use register_tile
// Register tiles (lib/register_tile.wgsl) of a convolution with one group whose windows are single pixels, the same as
// those of its result: what lib/window_tile.wgsl has for others. Expects depth_of(n), place_in(pixel, first) and
// factor_at(place, c), as that file; of gpunn/ops/kernels/register_tile.py, begins_from(m), place_of_row() of the rows
// from m on.

const OUTSIDE: u32 = 0xffffffffu; // no pixel is

fn place_of_row(m: u32) -> u32 { return place_in(m, 0u); }

fn add_products(sums: ptr<function, Sums>, m: u32, n: u32, split: u32) {
  add_depth(sums, begins_from(m), depth_of(n).steps, n, split);
}
