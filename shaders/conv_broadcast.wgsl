//!use broadcast_tile window
// Convolution over height and width as a product whose rows, the pixels, a subgroup shares (lib/broadcast_tile.wgsl),
// over window cells and input channels.
// Expects x [batch, H, W, C], C divisible by 8; w with the window cells, then the input channels, along its depth; p.C;
// p.KH, p.KW; what lib/broadcast_tile.wgsl and lib/window.wgsl expect. An invocation computes 16 output pixels, along
// [batch, OH, OW] flattened, x 4 output channels.

alias Start = Corner;
alias Places = array<u32, ROWS>;
alias Step = u32;

fn add_products(sums: ptr<function, Sums>, c: Starts, q: u32, rank: u32) {
  var next = q;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      add_depth(sums, cells(c, ky, kx), p.C / STEP, next, rank);
      next += p.C * 8u;
    }
  }
}

fn start(m: u32) -> Start { return corner(m); }

fn next_start(c: Start) -> Start { return next_corner(c); }

fn step_of(c: u32) -> Step { return c; }

fn factor_at(pixel: u32, c: Step) -> T {
  let inside = pixel != OUTSIDE;
  return select(T(), load_x(select(0u, pixel * p.C + c, inside)), inside);
}

// The input pixel that window cell (ky, kx) sees for each of them.
fn cells(c: Starts, ky: u32, kx: u32) -> Places {
  return Places(
    cell(c[0], ky, kx),
    cell(c[1], ky, kx),
    cell(c[2], ky, kx),
    cell(c[3], ky, kx),
    cell(c[4], ky, kx),
    cell(c[5], ky, kx),
    cell(c[6], ky, kx),
    cell(c[7], ky, kx),
    cell(c[8], ky, kx),
    cell(c[9], ky, kx),
    cell(c[10], ky, kx),
    cell(c[11], ky, kx),
    cell(c[12], ky, kx),
    cell(c[13], ky, kx),
    cell(c[14], ky, kx),
    cell(c[15], ky, kx),
  );
}
