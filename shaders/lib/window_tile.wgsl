//!use register_tile
// Register tiles (lib/register_tile.wgsl) of a convolution: products over all cells of the windows of ROWS output
// pixels. Expects depth_of(n), the input channels that enter output channels n; place_in(pixel, first), where those of
// an input pixel begin in x, and factor_at(place, c), which gives 0, or the zero point, if the pixel, and so the place,
// is OUTSIDE; p.KH, p.KW; Corner, corner(m) and cell(c, ky, kx) of lib/window.wgsl or lib/volume.wgsl; of
// gpunn/ops/kernels/register_tile.py, begins_from(m), the corners of the windows of output pixels from m on, and
// places_of(begins, ky, kx, first), place_in() of the input pixels that window cell (ky, kx) of each of them sees.

fn add_products(sums: ptr<function, Sums>, m: u32, n: u32, split: u32) {
  let depth = depth_of(n);
  let steps = end_of_loop(depth.steps, m < p.M);
  let c = begins_from(m);
  var q = n;
  let height = end_of_loop(p.KH, m < p.M);
  let width = end_of_loop(p.KW, m < p.M);
  for (var ky = 0u; ky < height; ky++) {
    for (var kx = 0u; kx < width; kx++) {
      add_depth(sums, places_of(c, ky, kx, depth.first), steps, q, split);
      q += steps * STEP * p.N4;
    }
  }
}

// place_in() of a pixel that may be OUTSIDE.
fn place_of(pixel: u32, first: u32) -> u32 {
  return select(place_in(pixel, first), OUTSIDE, pixel == OUTSIDE);
}
