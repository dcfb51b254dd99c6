//!use grid
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[n, k]), for any depth. The filter is not repacked.
// Expects x [M, K], w [N, K], bias [N], y; p.M, p.K, p.N. An invocation computes one value; x of its place in the grid
// counts channels, y counts rows.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let g = at.workgroup.xy * vec2<u32>(WX, WY) + at.local.xy;
  if (g.x >= p.N || g.y >= p.M) { return; }
  var sum = load_bias(g.x);
  for (var k = 0u; k < p.K; k++) {
    sum += load_x(g.y * p.K + k) * load_w(g.x * p.K + k);
  }
  store_y(g.y * p.N + g.x, apply(sum));
}
