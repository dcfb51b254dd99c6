//!use tiles rows window
// Convolution over height and width for any number of input channels (3 of a photo, say).
//
// One invocation: 4 output pixels (along [batch, OH, OW] flattened) x 8 output channels, one input channel
// at a time. Pixels past the end are computed on the last pixel and not stored.
// Expects x [batch, H, W, C], w [KH, KW, C, 4 N4] and bias [4 N4] with channels padded to N4, an even
// number, the window's parameters (lib/window.wgsl) and p.KH, p.KW, p.M (pixels), p.C, p.N, p.N4; tiles
// (lib/tiles.wgsl) are pairs of vec4 columns x 4 pixels.

fn fetch(pixel: u32, c: u32) -> T {
  let inside = pixel != OUTSIDE;
  return select(T(), load_x(select(0u, pixel * p.C + c, inside)), inside);
}

@compute @workgroup_size(WX, WY, WZ)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let tile = tile_of(group, groups, local);
  let n = tile.column * 2u;
  let m = tile.row * 4u;
  if (n >= p.N4 || m >= p.M) { return; }
  let last = p.M - 1u;
  let c0 = corner(m);
  let c1 = corner(min(m + 1u, last));
  let c2 = corner(min(m + 2u, last));
  let c3 = corner(min(m + 3u, last));
  let left = load4_bias(n);
  let right = load4_bias(n + 1u);
  var a0 = left; var a1 = left; var a2 = left; var a3 = left;
  var b0 = right; var b1 = right; var b2 = right; var b3 = right;
  var q = n;
  for (var ky = 0u; ky < p.KH; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let s0 = cell(c0, ky, kx);
      let s1 = cell(c1, ky, kx);
      let s2 = cell(c2, ky, kx);
      let s3 = cell(c3, ky, kx);
      for (var c = 0u; c < p.C; c++) {
        let wa = load4_w(q);
        let wb = load4_w(q + 1u);
        q += p.N4;
        let x0 = fetch(s0, c); a0 += wa * x0; b0 += wb * x0;
        let x1 = fetch(s1, c); a1 += wa * x1; b1 += wb * x1;
        let x2 = fetch(s2, c); a2 += wa * x2; b2 += wb * x2;
        let x3 = fetch(s3, c); a3 += wa * x3; b3 += wb * x3;
      }
    }
  }
  put_channels(m, n, a0); put_channels(m, n + 1u, b0);
  if (m + 1u < p.M) { put_channels(m + 1u, n, a1); put_channels(m + 1u, n + 1u, b1); }
  if (m + 2u < p.M) { put_channels(m + 2u, n, a2); put_channels(m + 2u, n + 1u, b2); }
  if (m + 3u < p.M) { put_channels(m + 3u, n, a3); put_channels(m + 3u, n + 1u, b3); }
}
