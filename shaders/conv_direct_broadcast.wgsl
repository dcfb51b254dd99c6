//!use window_row
// Convolution over height and width for any number of input channels (3 of a photo, say), as a product whose rows, the
// pixels, a subgroup shares (lib/broadcast_tile.wgsl, or lib/broadcast_tile_4.wgsl for subgroups of four). Its depth is
// that of all window cells and input channels together (lib/window_row.wgsl).
// Expects x [batch, H, W, C]; w with the window cells, then the input channels, along its depth; p.DEPTH, STEP;
// factor_of(); what the library, lib/window.wgsl and lib/window_row.wgsl expect. An invocation computes output pixels
// along [batch, OH, OW] flattened.

alias Start = Corner;
alias Places = Starts;
alias Step = array<Element, 4>;

fn add_products(sums: ptr<function, Sums>, starts: Starts, q: u32) {
  add_depth(sums, starts, p.DEPTH / STEP, q);
}

fn start(m: u32) -> Start { return corner(m); }

fn next_start(c: Start) -> Start { return next_corner(c); }

fn step_of(k: u32) -> Step { return Step(element(k), element(k + 1u), element(k + 2u), element(k + 3u)); }

fn factors_at(c: Corner, step: Step) -> vec4<f32> {
  let i = window_at(c);
  return vec4<f32>(
    factor_at(c, i, step[0]),
    factor_at(c, i, step[1]),
    factor_at(c, i, step[2]),
    factor_at(c, i, step[3]),
  );
}

// The element of a window whose corner is at i, or 0 outside of the image.
fn factor_at(c: Corner, i: u32, at: Element) -> f32 {
  let inside = is_inside(c, at);
  return select(f32(), factor_of(load_x(select(0u, i + at.distance, inside))), inside);
}
