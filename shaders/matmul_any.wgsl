//!use grid
// y[m, n] = apply(sum[m, n] + bias[n] + sum over k of x[m, k] * w[n, k]), for any depth and k from p.first to before
// p.end. The filter is not repacked.
// Expects x [M, K], w [N, K], bias [N], sum [M, N], y; p.M, p.K, p.N, p.first, p.end. An invocation computes one value;
// x of its place in the grid counts channels, y counts rows.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let g = at.workgroup.xy * vec2<u32>(WX, WY) + at.local.xy;
  if (g.x >= p.N || g.y >= p.M) { return; }
  let i = g.y * p.N + g.x;
  var sum = load_sum(i) + load_bias(g.x);
  for (var k = p.first; k < p.end; k++) {
    sum += load_x(g.y * p.K + k) * load_w(g.x * p.K + k);
  }
  store_y(i, apply(sum));
}
