//!use window
// Windows of eight output pixels at a time (lib/window.wgsl).

// The corners of the windows of eight output pixels from m on; past the end, of the last pixel. Expects p.M, the
// number of output pixels.
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

// What window cell (ky, kx) sees for each of them.
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
