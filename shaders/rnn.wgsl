//!use units
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[n, k] + sum over k of h[m, k] * r[n, k]); h_out is the same.
// Expects x, w, r, bias, h; y, h_out; p.count and p.units (lib/units.wgsl); p.depth, the extent of x. A cooperative
// group (lib/cooperative.wgsl) shares a result.

fn share(at: Member, m: u32, n: u32, inside: bool) -> T {
  var sum = T(0);
  for (var k = at.rank; k < select(0u, p.depth, inside); k += GROUP_SIZE) {
    sum += load_x(m * p.depth + k) * load_w(n * p.depth + k);
  }
  for (var k = at.rank; k < select(0u, p.units, inside); k += GROUP_SIZE) {
    sum += load_h(m * p.units + k) * load_r(n * p.units + k);
  }
  return sum;
}

fn finish(i: u32, v: T) {
  store_h_out(i, v);
  store_y(i, v);
}
