//!use broadcast_tile window
// Convolution over height and width as a product whose rows, the pixels, a subgroup shares (lib/broadcast_tile.wgsl),
// over window cells and input channels.
// Expects x [batch, H, W, C], C divisible by 8; w with the window cells, then the input channels, along its depth; p.C;
// p.KH, p.KW; what lib/broadcast_tile.wgsl and lib/window.wgsl expect. An invocation computes 16 output pixels, along
// [batch, OH, OW] flattened, x 4 output channels.

alias Start = Corner;
alias Places = array<u32, 4>;
alias Step = u32;

fn add_products(sums: ptr<function, Sums>, c: Starts, q: u32, first: u32) {
  var next = q;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let cells = Places(cell(c[0], ky, kx), cell(c[1], ky, kx), cell(c[2], ky, kx), cell(c[3], ky, kx));
      add_depth(sums, cells, p.C / STEP, next, first);
      next += p.C * 8u;
    }
  }
}

fn start(m: u32) -> Start { return corner(m); }

fn next_start(c: Start) -> Start { return next_corner(c); }

fn step_of(c: u32) -> Step { return c; }

fn factors_at(pixel: u32, c: Step) -> vec4<f32> {
  let inside = pixel != OUTSIDE;
  return select(vec4<f32>(), factors_of(load4_x(select(0u, (pixel * p.C + c) / 4u, inside))), inside);
}
