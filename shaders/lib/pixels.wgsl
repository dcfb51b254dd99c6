// Walk over the output pixels [batch, OH, OW] of a window in their order, with the input pixel that one of its cells
// sees.
// Expects p.H, p.W, p.OH, p.OW, p.SH, p.SW (stride), p.DH, p.DW (dilation), p.PT, p.PL (padding); p.share, how many
// pixels belong to a part, and p.M, all of them, for the bodies. Places before the first row or column wrap to large
// numbers, so one comparison tells inside from outside.

const OUTSIDE: u32 = 0xffffffffu;

// The output pixel in its image, what the cell adds to the window's corner, and the image's first input pixel.
struct Pixel { ox: u32, oy: u32, down: u32, right: u32, base: u32 }

// Output pixel m, for a cell `down` and `right` of the window's corner.
fn first_pixel(m: u32, down: u32, right: u32) -> Pixel {
  let line = m / p.OW;
  let image = line / p.OH;
  return Pixel(m - line * p.OW, line - image * p.OH, down - p.PT, right - p.PL, image * p.H * p.W);
}

fn next_pixel(at: Pixel) -> Pixel {
  let wraps = at.ox + 1u == p.OW;
  let ends = wraps && at.oy + 1u == p.OH;
  return Pixel(
    select(at.ox + 1u, 0u, wraps),
    select(at.oy + u32(wraps), 0u, ends),
    at.down,
    at.right,
    at.base + select(0u, p.H * p.W, ends),
  );
}

// The input pixel that the cell sees, or OUTSIDE.
fn seen_pixel(at: Pixel) -> u32 {
  let row = at.oy * p.SH + at.down;
  let column = at.ox * p.SW + at.right;
  return select(OUTSIDE, at.base + row * p.W + column, row < p.H && column < p.W);
}
