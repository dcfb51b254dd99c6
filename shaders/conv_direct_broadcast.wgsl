//!use broadcast_tile window
// Convolution over height and width for any number of input channels (3 of a photo, say), as a product whose rows, the
// pixels, a subgroup shares (lib/broadcast_tile.wgsl). Its depth is that of all window cells and input channels
// together: element k is input channel k % C of window cell k / C.
// Expects x [batch, H, W, C]; w with the window cells, then the input channels, along its depth; p.C; p.K, the depth,
// below 2^21; p.KW; p.inverse_c and p.inverse_kw: 1 / C and 1 / KW; what lib/broadcast_tile.wgsl and lib/window.wgsl
// expect. An invocation computes 16 output pixels, along [batch, OH, OW] flattened, x 4 output channels.

alias Start = Corner;
alias Places = Starts;

// An element of the windows: its distance from their corners, in rows, columns and elements of x.
struct Element { row: u32, column: u32, distance: u32, inside: bool }
alias Step = array<Element, 4>;

fn add_products(sums: ptr<function, Sums>, starts: Starts, q: u32, first: u32) {
  add_depth(sums, starts, p.DEPTH / STEP, q, first);
}

fn start(m: u32) -> Start { return corner(m); }

fn next_start(c: Start) -> Start { return next_corner(c); }

fn step_of(k: u32) -> Step { return Step(element(k), element(k + 1u), element(k + 2u), element(k + 3u)); }

fn element(k: u32) -> Element {
  let cell = u32((f32(k) + 0.5) * p.inverse_c);
  let ky = u32((f32(cell) + 0.5) * p.inverse_kw);
  let row = ky * p.DH;
  let column = (cell - ky * p.KW) * p.DW;
  return Element(row, column, (row * p.W + column) * p.C + k - cell * p.C, k < p.K);
}

fn factors_at(c: Corner, step: Step) -> vec4<T> {
  let i = (c.base + c.row * p.W + c.column) * p.C;
  return vec4<T>(
    factor_at(c, i, step[0]),
    factor_at(c, i, step[1]),
    factor_at(c, i, step[2]),
    factor_at(c, i, step[3]),
  );
}

// The element of a window whose corner is at i, or 0 outside of the image.
fn factor_at(c: Corner, i: u32, at: Element) -> T {
  let inside = at.inside && c.row + at.row < p.H && c.column + at.column < p.W;
  return select(T(), load_x(select(0u, i + at.distance, inside)), inside);
}
