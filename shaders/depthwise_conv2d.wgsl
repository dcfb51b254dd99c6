// Depthwise convolution over height and width, with a channel multiplier.
//
// One invocation: 4 output pixels along x, of one V of channels.
// Expects x [batch, H, W, C], w [KH, KW, N], bias [N] and y [batch, OH, OW, N], C and N counted in V, with
// N = C * MULTIPLIER, and p.H, p.W, p.OH, p.OW, p.KH, p.KW, p.SH, p.SW, p.DH, p.DW, p.PT, p.PL, p.C, p.N,
// p.MULTIPLIER, p.ROWS (batch * OH); global id x counts V, y tiles of 4 pixels, z rows. Places before the
// first row or column wrap to large numbers, so one comparison tells inside from outside.

fn fetch(base: u32, column: u32, c: u32) -> V {
  let inside = column < p.W;
  return select(V(), loadv_x(select(0u, (base + column) * p.C + c, inside)), inside);
}

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let n = g.x;
  let ox = g.y * 4u;
  if (n >= p.N || ox >= p.OW || g.z >= p.ROWS) { return; }
  let c = n / p.MULTIPLIER;
  let image = g.z / p.OH;
  let top = (g.z - image * p.OH) * p.SH - p.PT;
  let left = ox * p.SW - p.PL;
  var a0 = loadv_bias(n);
  var a1 = a0;
  var a2 = a0;
  var a3 = a0;
  for (var ky = 0u; ky < p.KH; ky++) {
    let row = top + ky * p.DH;
    if (row >= p.H) { continue; }
    let base = (image * p.H + row) * p.W;
    for (var kx = 0u; kx < p.KW; kx++) {
      let w = loadv_w((ky * p.KW + kx) * p.N + n);
      let column = left + kx * p.DW;
      a0 += w * fetch(base, column, c);
      a1 += w * fetch(base, column + p.SW, c);
      a2 += w * fetch(base, column + 2u * p.SW, c);
      a3 += w * fetch(base, column + 3u * p.SW, c);
    }
  }
  let o = (g.z * p.OW + ox) * p.N + n;
  storev_y(o, applyv(a0));
  if (ox + 1u < p.OW) { storev_y(o + p.N, applyv(a1)); }
  if (ox + 2u < p.OW) { storev_y(o + 2u * p.N, applyv(a2)); }
  if (ox + 3u < p.OW) { storev_y(o + 3u * p.N, applyv(a3)); }
}
