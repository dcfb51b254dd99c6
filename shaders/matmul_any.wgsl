// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[n, k]): any depth, the filter as it is.
//
// One invocation: one value. Expects p.M, p.K, p.N; global id x counts channels, y rows.

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  if (g.x >= p.N || g.y >= p.M) { return; }
  var sum = load_bias(g.x);
  for (var k = 0u; k < p.K; k++) {
    sum += load_x(g.y * p.K + k) * load_w(g.x * p.K + k);
  }
  store_y(g.y * p.N + g.x, apply(sum));
}
