// Where a window over height and width lies in its input [batch, H, W, ...].
// Expects p.H, p.W, p.OH, p.OW, p.SH, p.SW (stride), p.DH, p.DW (dilation), p.PT, p.PL (padding). Places before the
// first row or column wrap to large numbers, so one comparison tells inside from outside.

const OUTSIDE: u32 = 0xffffffffu;

struct Corner { row: u32, column: u32, base: u32 }

// The upper left cell of the window of output pixel m of [batch, OH, OW], and its image's first pixel.
fn corner(m: u32) -> Corner {
  let line = m / p.OW;
  let image = line / p.OH;
  return Corner(
    (line - image * p.OH) * p.SH - p.PT,
    (m - line * p.OW) * p.SW - p.PL,
    image * p.H * p.W,
  );
}

// The same for the output pixel behind; without a division.
fn next_corner(c: Corner) -> Corner {
  let column = c.column + p.SW;
  let wraps = column + p.PL == p.OW * p.SW;
  let row = c.row + select(0u, p.SH, wraps);
  let ends = row + p.PT == p.OH * p.SH;
  return Corner(
    select(row, 0u - p.PT, ends),
    select(column, 0u - p.PL, wraps),
    c.base + select(0u, p.H * p.W, ends),
  );
}

// The input pixel that window cell (ky, kx) sees, or OUTSIDE.
fn cell(c: Corner, ky: u32, kx: u32) -> u32 {
  let row = c.row + ky * p.DH;
  let column = c.column + kx * p.DW;
  return select(OUTSIDE, c.base + row * p.W + column, row < p.H && column < p.W);
}
