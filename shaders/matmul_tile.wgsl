//!use as_summed tiles tile_rows
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), as a register-tiled product.
//
// SLICES invocations: 8 rows x 8 channels (two vec4 columns), 4 steps of depth at a time each. Rows past the end
// are computed on the last row and not stored.
// Expects x [M, 4 K4], w [4 K4, 4 N4] and bias [4 N4] with channels padded to N4, an even number, and
// p.M, p.K4, p.N, p.N4, SLICES; tiles (lib/tiles.wgsl) are pairs of vec4 columns x 8 rows.

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let tile = tile_of(group, groups, local);
  let n = tile.column * 2u;
  let m = tile.row * 8u;
  let slice = slice_of(local);
  let inside = n < p.N4 && m < p.M;
  let last = p.M - 1u;
  let r0 = min(m, last) * p.K4;
  let r1 = min(m + 1u, last) * p.K4;
  let r2 = min(m + 2u, last) * p.K4;
  let r3 = min(m + 3u, last) * p.K4;
  let r4 = min(m + 4u, last) * p.K4;
  let r5 = min(m + 5u, last) * p.K4;
  let r6 = min(m + 6u, last) * p.K4;
  let r7 = min(m + 7u, last) * p.K4;
  let left = select(vec4<T>(), load4_bias(n), slice == 0u);
  let right = select(vec4<T>(), load4_bias(n + 1u), slice == 0u);
  var a0 = left; var a1 = left; var a2 = left; var a3 = left;
  var a4 = left; var a5 = left; var a6 = left; var a7 = left;
  var b0 = right; var b1 = right; var b2 = right; var b3 = right;
  var b4 = right; var b5 = right; var b6 = right; var b7 = right;
  let steps = select(0u, p.K4, inside);
  var q = n + slice * 4u * p.N4;
  for (var k = slice; k < steps; k += SLICES) {
    let q1 = q + p.N4;
    let q2 = q1 + p.N4;
    let q3 = q2 + p.N4;
    let wa = mat4x4<T>(load4_w(q), load4_w(q1), load4_w(q2), load4_w(q3));
    let wb = mat4x4<T>(load4_w(q + 1u), load4_w(q1 + 1u), load4_w(q2 + 1u), load4_w(q3 + 1u));
    q = q3 + p.N4 * (4u * SLICES - 3u);
    let x0 = load4_x(r0 + k); a0 += wa * x0; b0 += wb * x0;
    let x1 = load4_x(r1 + k); a1 += wa * x1; b1 += wb * x1;
    let x2 = load4_x(r2 + k); a2 += wa * x2; b2 += wb * x2;
    let x3 = load4_x(r3 + k); a3 += wa * x3; b3 += wb * x3;
    let x4 = load4_x(r4 + k); a4 += wa * x4; b4 += wb * x4;
    let x5 = load4_x(r5 + k); a5 += wa * x5; b5 += wb * x5;
    let x6 = load4_x(r6 + k); a6 += wa * x6; b6 += wb * x6;
    let x7 = load4_x(r7 + k); a7 += wa * x7; b7 += wb * x7;
  }
  var a = array<vec4<T>, 8>(a0, a1, a2, a3, a4, a5, a6, a7);
  var b = array<vec4<T>, 8>(b0, b1, b2, b3, b4, b5, b6, b7);
  put_tile(local, m, n, &a, &b);
}
