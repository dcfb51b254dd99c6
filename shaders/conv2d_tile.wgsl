//!use as_summed tiles tile_rows windows
// Convolution over height and width as a register-tiled product over window cells and input channels.
//
// SLICES invocations: 8 output pixels (along [batch, OH, OW] flattened) x 8 output channels, 4 input channels
// at a time each. Pixels past the end are computed on the last pixel and not stored.
// Expects x [batch, H, W, 4 C], w [KH, KW, 4 C, 4 N4] and bias [4 N4] with channels padded to N4, an even
// number, the window's parameters (lib/window.wgsl) and p.KH, p.KW, p.M (pixels), p.C, p.N, p.N4, SLICES; tiles
// (lib/tiles.wgsl) are pairs of vec4 columns x 8 pixels.

fn fetch(pixel: u32, c: u32) -> vec4<T> {
  let inside = pixel != OUTSIDE;
  return select(vec4<T>(), load4_x(select(0u, pixel * p.C + c, inside)), inside);
}

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
  let windows = corners(m);
  let left = select(vec4<T>(), load4_bias(n), slice == 0u);
  let right = select(vec4<T>(), load4_bias(n + 1u), slice == 0u);
  var a0 = left; var a1 = left; var a2 = left; var a3 = left;
  var a4 = left; var a5 = left; var a6 = left; var a7 = left;
  var b0 = right; var b1 = right; var b2 = right; var b3 = right;
  var b4 = right; var b5 = right; var b6 = right; var b7 = right;
  let rows = select(0u, p.KH, inside);
  var first = n;
  for (var ky = 0u; ky < rows; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let seen = cells(windows, ky, kx);
      var q = first + slice * 4u * p.N4;
      first += p.C * 4u * p.N4;
      for (var c = slice; c < p.C; c += SLICES) {
        let q1 = q + p.N4;
        let q2 = q1 + p.N4;
        let q3 = q2 + p.N4;
        let wa = mat4x4<T>(load4_w(q), load4_w(q1), load4_w(q2), load4_w(q3));
        let wb = mat4x4<T>(load4_w(q + 1u), load4_w(q1 + 1u), load4_w(q2 + 1u), load4_w(q3 + 1u));
        q = q3 + p.N4 * (4u * SLICES - 3u);
        let x0 = fetch(seen[0], c); a0 += wa * x0; b0 += wb * x0;
        let x1 = fetch(seen[1], c); a1 += wa * x1; b1 += wb * x1;
        let x2 = fetch(seen[2], c); a2 += wa * x2; b2 += wb * x2;
        let x3 = fetch(seen[3], c); a3 += wa * x3; b3 += wb * x3;
        let x4 = fetch(seen[4], c); a4 += wa * x4; b4 += wb * x4;
        let x5 = fetch(seen[5], c); a5 += wa * x5; b5 += wb * x5;
        let x6 = fetch(seen[6], c); a6 += wa * x6; b6 += wb * x6;
        let x7 = fetch(seen[7], c); a7 += wa * x7; b7 += wb * x7;
      }
    }
  }
  var a = array<vec4<T>, 8>(a0, a1, a2, a3, a4, a5, a6, a7);
  var b = array<vec4<T>, 8>(b0, b1, b2, b3, b4, b5, b6, b7);
  put_tile(local, m, n, &a, &b);
}
