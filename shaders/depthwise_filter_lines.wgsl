//!use flat
// The gradient of a depthwise convolution with respect to its filter, over a part of the lines of output pixels.
// Expects x [batch, H, W, C], g [batch, OH, OW, N] and y [parts, KH, KW, N]; C and N count V's, N = C * MULTIPLIER;
// p.C, p.N, p.MULTIPLIER, p.H, p.W, p.OH, p.OW, p.SH, p.SW (stride), p.DH, p.DW (dilation), p.PT, p.PL (padding); HIGH
// and WIDE, the size of the window; SLIDE (1: the stride along x equals the dilation); p.share (lines of a part), p.M
// (all lines), p.units (N), p.count (N * parts). An invocation computes all cells of one V of channels and a part;
// numbers of invocations count V's, then parts.
// If SLIDE is 1, the window moves by one of its columns, and loads only the last one. Places before the first row or
// column wrap to large numbers, so one comparison tells inside from outside.

const CELLS: u32 = HIGH * WIDE;

fn fetch(image: u32, row: u32, column: u32, c: u32) -> V {
  let inside = row < p.H && column < p.W;
  return select(V(), loadv_x(select(0u, ((image * p.H + row) * p.W + column) * p.C + c, inside)), inside);
}

fn compute(i: u32) {
  let part = i / p.units;
  let n = i - part * p.units;
  let c = n / p.MULTIPLIER;
  let end = min((part + 1u) * p.share, p.M);
  var sums: array<V, CELLS>;
  for (var line = part * p.share; line < end; line++) {
    let image = line / p.OH;
    let top = (line - image * p.OH) * p.SH - p.PT;
    var seen: array<V, CELLS>;
    if (SLIDE == 1u) {
      for (var ky = 0u; ky < HIGH; ky++) {
        for (var kx = 1u; kx < WIDE; kx++) {
          seen[ky * WIDE + kx] = fetch(image, top + ky * p.DH, (kx - 1u) * p.DW - p.PL, c);
        }
      }
    }
    for (var ox = 0u; ox < p.OW; ox++) {
      let left = ox * p.SW - p.PL;
      for (var ky = 0u; ky < HIGH; ky++) {
        for (var kx = 0u; kx < WIDE; kx++) {
          let k = ky * WIDE + kx;
          if (SLIDE == 1u && kx + 1u < WIDE) {
            seen[k] = seen[k + 1u];
          } else {
            seen[k] = fetch(image, top + ky * p.DH, left + kx * p.DW, c);
          }
        }
      }
      let g = loadv_g((line * p.OW + ox) * p.N + n);
      for (var k = 0u; k < CELLS; k++) { sums[k] += seen[k] * g; }
    }
  }
  for (var k = 0u; k < CELLS; k++) { storev_y((part * CELLS + k) * p.N + n, sums[k]); }
}
