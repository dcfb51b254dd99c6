//!use flat known_window
// Depthwise convolution over height and width, with a channel multiplier.
// Expects x [batch, H, W, C], w [KH, KW, N], bias [N] and y [batch, OH, OW, N]; C and N count V's, N = C * MULTIPLIER;
// the functions of lib/real.wgsl and lib/chain.wgsl; p.H, p.W, p.OH, p.OW, p.KW, p.SH, p.SW (stride), p.DH, p.DW
// (dilation), p.PT, p.PL (padding), p.C, p.x_pitch and p.x_first (where pixels of x begin), p.N, p.MULTIPLIER, p.TILES
// (OW / 4, rounded up), p.count (N * TILES * batch * OH); SLIDE (1: the stride along x equals the dilation); what
// lib/known_window.wgsl expects. An invocation computes 4 output pixels along x, of one V of channels; numbers of
// invocations count V's, then tiles, then rows.
// If SLIDE is 1, a step moves the four pixels by one, and three of the four values are there already. Places before the
// first row or column wrap to large numbers, so one comparison tells inside from outside.

// What pixel `column` of a row has of V c of the channels; 0 outside of the image. below: whether the row is inside.
fn fetch(base: u32, column: u32, c: u32, below: bool) -> V {
  let inside = column < p.W && (!KNOWN || below);
  return select(V(), enter(loadv_x(select(0u, (base + column) * p.x_pitch + p.x_first + c, inside))), inside);
}

fn compute(i: u32) {
  let tile = i / p.N;
  let n = i - tile * p.N;
  let line = tile / p.TILES;
  let ox = (tile - line * p.TILES) * 4u;
  let c = n / p.MULTIPLIER;
  let image = line / p.OH;
  let top = (line - image * p.OH) * p.SH - p.PT;
  let left = ox * p.SW - p.PL;
  let begins = first_cell();
  let ends = end_of_cells();
  let o = (line * p.OW + ox) * p.N + n;
  var a0 = begin(o, n);
  var a1 = begin(o + p.N, n);
  var a2 = begin(o + 2u * p.N, n);
  var a3 = begin(o + 3u * p.N, n);
  for (var ky = begins.x; ky < ends.x; ky++) {
    let row = top + ky * p.DH;
    let below = row < p.H;
    if (!KNOWN && !below) { continue; }
    let base = (image * p.H + row) * p.W;
    var x0 = V();
    var x1 = V();
    var x2 = V();
    var x3 = V();
    if (SLIDE == 1u) {
      let column = left + begins.y * p.DW;
      x1 = fetch(base, column, c, below);
      x2 = fetch(base, column + p.SW, c, below);
      x3 = fetch(base, column + 2u * p.SW, c, below);
    }
    for (var kx = begins.y; kx < ends.y; kx++) {
      let w = loadv_w((ky * p.KW + kx) * p.N + n);
      let column = left + kx * p.DW;
      if (SLIDE == 1u) {
        x0 = x1;
        x1 = x2;
        x2 = x3;
      } else {
        x0 = fetch(base, column, c, below);
        x1 = fetch(base, column + p.SW, c, below);
        x2 = fetch(base, column + 2u * p.SW, c, below);
      }
      x3 = fetch(base, column + 3u * p.SW, c, below);
      a0 = add(a0, x0, w);
      a1 = add(a1, x1, w);
      a2 = add(a2, x2, w);
      a3 = add(a3, x3, w);
    }
  }
  put(o, n, a0);
  if (ox + 1u < p.OW) { put(o + p.N, n, a1); }
  if (ox + 2u < p.OW) { put(o + 2u * p.N, n, a2); }
  if (ox + 3u < p.OW) { put(o + 3u * p.N, n, a3); }
}
