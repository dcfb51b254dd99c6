//!use grid slices
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), for few rows.
//
// SLICES invocations (lib/slices.wgsl): 1 row x 4 channels, 4 steps of depth at a time each.
// Expects x [M, 4 K4], w [4 K4, 4 N4] and bias [4 N4], and p.K4, p.N, p.N4, SLICES; workgroups count TILES vec4
// columns along x, rows along y.

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let n = at.workgroup.x * TILES + at.local.x % TILES;
  let m = at.workgroup.y;
  let slice = slice_of(at.local);
  let steps = select(0u, p.K4, n < p.N4);
  var a = select(vec4<T>(), load4_bias(n), slice == 0u);
  var q = n + slice * 4u * p.N4;
  let row = m * p.K4;
  for (var k = slice; k < steps; k += SLICES) {
    let q1 = q + p.N4;
    let q2 = q1 + p.N4;
    let q3 = q2 + p.N4;
    a += mat4x4<T>(load4_w(q), load4_w(q1), load4_w(q2), load4_w(q3)) * load4_x(row + k);
    q = q3 + p.N4 * (4u * SLICES - 3u);
  }
  a = join(at.local, a);
  if (slice == 0u) { put_channels(m, n, a); }
}
