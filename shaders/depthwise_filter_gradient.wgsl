//!use flat pixels
// The gradient of a depthwise convolution with respect to its filter, over a part of the output pixels.
// Expects x [batch, H, W, C], g [batch, OH, OW, N] and y [parts, KH, KW, N]; C and N count V's, N = C * MULTIPLIER;
// p.C, p.N, p.MULTIPLIER, p.KW; what lib/pixels.wgsl expects; p.units (KH * KW * N), p.count (units of all parts). An
// invocation computes one V of a cell and a part; numbers of invocations count V's, then cells, then parts.

fn compute(i: u32) {
  let part = i / p.units;
  let unit = i - part * p.units;
  let tap = unit / p.N;
  let n = unit - tap * p.N;
  let ky = tap / p.KW;
  var at = first_pixel(part * p.share, ky * p.DH, (tap - ky * p.KW) * p.DW);
  let end = min((part + 1u) * p.share, p.M);
  let c = n / p.MULTIPLIER;
  var sum = V();
  for (var m = part * p.share; m < end; m++) {
    let seen = seen_pixel(at);
    let inside = seen != OUTSIDE;
    sum += select(V(), loadv_x(select(0u, seen * p.C + c, inside)), inside) * loadv_g(m * p.N + n);
    at = next_pixel(at);
  }
  storev_y(i, sum);
}
