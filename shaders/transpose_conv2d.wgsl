//!use flat
// Transposed convolution over height and width.
// Expects x [batch, H, W, C], w [KH, KW, C, N] without a zero point, bias [N] and y [batch, OH, OW, N]; N counts V's;
// the functions of lib/real.wgsl and lib/chain.wgsl; p.H, p.W, p.OH, p.OW, p.KH, p.KW, p.SH, p.SW (stride), p.PT, p.PL
// (padding), p.C, p.N, p.TILES (of a row, a multiple of SW), p.count (N * TILES * batch * OH); p.first and p.end: the
// rows and columns of the window, and the channels, to add up here. An invocation computes 4 output pixels, a stride
// apart along x, of one V of channels: the same cells of the window reach all four, each from one of four neighbouring
// input pixels. Numbers of invocations count V's, then tiles, then rows.
// Places before the first column wrap to large numbers, so one comparison tells inside from outside.

fn fetch(base: u32, column: u32, c: u32) -> V {
  let inside = column < p.W;
  return select(V(), enter(V(load_x(select(0u, (base + column) * p.C + c, inside)))), inside);
}

// The first cell of a window, from `first` on, through which an input pixel reaches the place.
fn tap(first: u32, place: u32, stride: u32) -> u32 {
  return first + (place + stride - first % stride) % stride;
}

fn compute(i: u32) {
  let tile = i / p.N;
  let n = i - tile * p.N;
  let line = tile / p.TILES;
  let along = tile - line * p.TILES;
  let ox = along / p.SW * p.SW * 4u + along % p.SW;
  let image = line / p.OH;
  let down = line - image * p.OH + p.PT;
  let right = ox + p.PL;
  let begins = vec3<u32>(p.first.xyz);
  let ends = select(vec3<u32>(), vec3<u32>(p.end.xyz), n < p.N);  // as end_of_loop()
  let o = (line * p.OW + ox) * p.N + n;
  let step = p.SW * p.N;
  var a0 = begin(o, n);
  var a1 = begin(o + step, n);
  var a2 = begin(o + 2u * step, n);
  var a3 = begin(o + 3u * step, n);
  for (var ky = tap(begins.x, down, p.SH); ky < ends.x && ky <= down; ky += p.SH) {
    let row = (down - ky) / p.SH;
    if (row >= p.H) { continue; }
    let base = (image * p.H + row) * p.W;
    for (var kx = tap(begins.y, right, p.SW); kx < ends.y; kx += p.SW) {
      let column = u32((i32(right) - i32(kx)) / i32(p.SW));
      var q = ((ky * p.KW + kx) * p.C + begins.z) * p.N + n;
      for (var c = begins.z; c < ends.z; c++) {
        let w = loadv_w(q);
        q += p.N;
        a0 = add(a0, fetch(base, column, c), w);
        a1 = add(a1, fetch(base, column + 1u, c), w);
        a2 = add(a2, fetch(base, column + 2u, c), w);
        a3 = add(a3, fetch(base, column + 3u, c), w);
      }
    }
  }
  if (ox < p.OW) { put(o, n, a0); }
  if (ox + p.SW < p.OW) { put(o + step, n, a1); }
  if (ox + 2u * p.SW < p.OW) { put(o + 2u * step, n, a2); }
  if (ox + 3u * p.SW < p.OW) { put(o + 3u * step, n, a3); }
}
