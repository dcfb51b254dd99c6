//!use window
// Convolution over height and width as a product whose rows, the pixels, a subgroup shares (lib/broadcast_tile.wgsl, or
// lib/broadcast_tile_4.wgsl for subgroups of four), over window cells and input channels.
// Expects x [batch, H, W, C], C divisible by 8; w with the window cells, then the input channels, along its depth; p.C;
// p.x_pitch and p.x_first, where pixels of x begin; p.KH, p.KW; factors_of(), STEP; what the library and
// lib/window.wgsl expect. An invocation computes output pixels along [batch, OH, OW] flattened.

alias Start = Corner;
alias Places = array<Place, 2>;
alias Step = u32;

// Where the first four channels lie of the pixel that a window cell sees, if it is inside.
struct Place { first: u32, inside: bool }

fn add_products(sums: ptr<function, Sums>, c: Starts, q: u32) {
  var next = q;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      add_depth(sums, Places(place(c[0], ky, kx), place(c[1], ky, kx)), p.C / STEP, next);
      next += p.C * 8u;
    }
  }
}

fn start(m: u32) -> Start { return corner(m); }

fn next_start(c: Start) -> Start { return next_corner(c); }

fn place(c: Corner, ky: u32, kx: u32) -> Place {
  let pixel = cell(c, ky, kx);
  let inside = pixel != OUTSIDE;
  return Place(select(0u, (pixel * p.x_pitch + p.x_first) / 4u, inside), inside);
}

fn step_of(c: u32) -> Step { return c / 4u; }

fn factors_at(at: Place, four: Step) -> vec4<f32> {
  return select(vec4<f32>(), factors_of(load4_x(at.first + four)), at.inside);
}
