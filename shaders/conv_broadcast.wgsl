//!use window
// Convolution over height and width as a product whose rows, the pixels, a subgroup shares (lib/broadcast_tile.wgsl, or
// lib/broadcast_tile_4.wgsl for subgroups of four), over window cells and input channels.
// Expects x [batch, H, W, C], C divisible by 8; w with the window cells, then the input channels, along its depth; p.C;
// p.x_pitch and p.x_first, where pixels of x begin; p.KH, p.KW; cells_of(c, ky, kx), a window cell of each of the
// pixels c, as Places; factors_of(); what the library and lib/window.wgsl expect. An invocation computes output pixels
// along [batch, OH, OW] flattened.

alias Start = Corner;
alias Step = u32;

fn add_products(sums: ptr<function, Sums>, c: Starts, q: u32, first: u32) {
  var next = q;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      add_depth(sums, cells_of(c, ky, kx), p.C / STEP, next, first);
      next += p.C * 8u;
    }
  }
}

fn start(m: u32) -> Start { return corner(m); }

fn next_start(c: Start) -> Start { return next_corner(c); }

fn step_of(c: u32) -> Step { return c; }

fn factors_at(pixel: u32, c: Step) -> vec4<f32> {
  let inside = pixel != OUTSIDE;
  return select(vec4<f32>(), factors_of(load4_x(select(0u, (pixel * p.x_pitch + p.x_first + c) / 4u, inside))), inside);
}
