// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), for few rows.
//
// One invocation: 1 row x 4 channels, 4 steps of depth at a time.
// Expects x [M, 4 K4], w [4 K4, 4 N4] and bias [4 N4], and p.M, p.K4, p.N, p.N4; global id x counts
// vec4 columns, y rows.

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let n = g.x;
  let m = g.y;
  if (n >= p.N4 || m >= p.M) { return; }
  var a = load4_bias(n);
  var q = n;
  let row = m * p.K4;
  for (var k = 0u; k < p.K4; k++) {
    let q1 = q + p.N4;
    let q2 = q1 + p.N4;
    let q3 = q2 + p.N4;
    a += mat4x4<T>(load4_w(q), load4_w(q1), load4_w(q2), load4_w(q3)) * load4_x(row + k);
    q = q3 + p.N4;
  }
  put_channels(m, n, a);
}
