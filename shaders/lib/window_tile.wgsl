//!use register_tile
// Register tiles (lib/register_tile.wgsl) of a convolution: products over all cells of the windows of ROWS output
// pixels. Expects depth_of(n), the input channels that enter output channels n; factor_at(pixel, first, c), which
// gives 0, or the zero point, if the pixel is OUTSIDE; p.KH, p.KW; Corner, corner(m) and cell(c, ky, kx) of
// lib/window.wgsl or lib/volume.wgsl; of gpunn/ops/kernels/register_tile.py, begins_from(m), the corners of the windows
// of output pixels from m on, and cells(begins, ky, kx), the input pixel that window cell (ky, kx) of each of them
// sees.

fn add_products(sums: ptr<function, Sums>, m: u32, n: u32, split: u32) {
  let found = depth_of(n);
  let depth = Depth(found.first, end_of_loop(found.steps, m < p.M));
  let c = begins_from(m);
  var q = n;
  let height = end_of_loop(p.KH, m < p.M);
  let width = end_of_loop(p.KW, m < p.M);
  for (var ky = 0u; ky < height; ky++) {
    for (var kx = 0u; kx < width; kx++) {
      add_depth(sums, cells(c, ky, kx), depth, q, split);
      q += depth.steps * STEP * p.N4;
    }
  }
}
