//!use register_tile
// Register tiles (lib/register_tile.wgsl) of a convolution: products over all cells of the windows of eight output
// pixels. Expects depth_of(n), the input channels that enter output channels n; factor_at(pixel, first, c), which
// gives 0, or the zero point, if the pixel is OUTSIDE; p.KH, p.KW; Corner, corner(m) and cell(c, ky, kx) of
// lib/window.wgsl or lib/volume.wgsl.

fn add_products(sums: ptr<function, Sums>, m: u32, n: u32, split: u32) {
  let depth = depth_of(n);
  let c = corners(m);
  var q = n;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      add_depth(sums, cells(c, ky, kx), depth, q, split);
      q += depth.steps * STEP * p.N4;
    }
  }
}

// The corners of the windows of eight output pixels from m on; past the end, those of the last pixel.
fn corners(m: u32) -> array<Corner, 8> {
  let last = p.M - 1u;
  return array<Corner, 8>(
    corner(m),
    corner(min(m + 1u, last)),
    corner(min(m + 2u, last)),
    corner(min(m + 3u, last)),
    corner(min(m + 4u, last)),
    corner(min(m + 5u, last)),
    corner(min(m + 6u, last)),
    corner(min(m + 7u, last)),
  );
}

// The input pixel that window cell (ky, kx) sees for each of them.
fn cells(c: array<Corner, 8>, ky: u32, kx: u32) -> array<u32, 8> {
  return array<u32, 8>(
    cell(c[0], ky, kx),
    cell(c[1], ky, kx),
    cell(c[2], ky, kx),
    cell(c[3], ky, kx),
    cell(c[4], ky, kx),
    cell(c[5], ky, kx),
    cell(c[6], ky, kx),
    cell(c[7], ky, kx),
  );
}
