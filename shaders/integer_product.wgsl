//!use tiles tile_rows windows requantize
// Quantised convolution over height and width (1 x 1: matrix product) as a register-tiled product of words.
//
// Words stay packed: a dot product of two is one instruction on most GPUs. Where it is not (lavapipe),
// unpacking them to vec4<i32> took the same time, and to vec4<f32> up to a fourth more.
//
// SLICES invocations: 8 output pixels (along [batch, OH, OW] flattened) x 8 output channels, one word of 4 input
// channels at a time each. Pixels past the end are computed on the last pixel and not stored.
// Expects x [batch, H, W, C], packed; w [KH * KW * GC / 4 (rounded up), 4 N4] words of four input channels,
// those past GC being the filter's zero point; bias [4 N4] with all that the input does not enter; the scales of
// lib/requantize.wgsl; products(w, x): the dot product of two words; the window's parameters (lib/window.wgsl);
// what lib/tile_rows.wgsl expects; p.KH, p.KW, p.M (pixels), p.C, p.N, p.N4 (even), p.GC
// and p.GN (input and output channels of a group; GN divisible by 8 where there are several), p.PAD (a word of
// the input's zero point). SLICES; ALIGNED: GC is divisible by 4. CENTRED: the filter's zero point is 0, sums of x are
// not needed. Tiles (lib/tiles.wgsl) are pairs of vec4 columns x 8 pixels.

const ONES: i32 = 0x01010101;

// Input channels first + 4 c and the following three of a pixel.
fn fetch(pixel: u32, first: u32, c: u32) -> i32 {
  let inside = pixel != OUTSIDE;
  let i = select(0u, pixel * p.C + first + 4u * c, inside);
  var word = word_x(i >> 2u);
  if (ALIGNED == 0u) {
    let shift = (i & 3u) * 8u;
    let next = word_x((i >> 2u) + 1u);
    word = (word >> shift) | ((next << (31u - shift)) << 1u);
    word = insertBits(p.PAD, word, 0u, 8u * min(p.GC - 4u * c, 4u));
  }
  return i32(select(p.PAD, word, inside));
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
  let first = n * 4u / p.GN * p.GC;
  let words = (p.GC + 3u) / 4u;
  let left = select(vec4<i32>(), load4_bias(n), slice == 0u);
  let right = select(vec4<i32>(), load4_bias(n + 1u), slice == 0u);
  var a0 = left; var a1 = left; var a2 = left; var a3 = left;
  var a4 = left; var a5 = left; var a6 = left; var a7 = left;
  var b0 = right; var b1 = right; var b2 = right; var b3 = right;
  var b4 = right; var b5 = right; var b6 = right; var b7 = right;
  var t0 = 0; var t1 = 0; var t2 = 0; var t3 = 0;
  var t4 = 0; var t5 = 0; var t6 = 0; var t7 = 0;
  let rows = select(0u, p.KH, inside);
  var row = n;
  for (var ky = 0u; ky < rows; ky++) {
    for (var kx = 0u; kx < p.KW; kx++) {
      let seen = cells(windows, ky, kx);
      var q = row + slice * p.N4;
      row += words * p.N4;
      for (var c = slice; c < words; c += SLICES) {
        let wa = load4_w(q);
        let wb = load4_w(q + 1u);
        q += p.N4 * SLICES;
        let x0 = fetch(seen[0], first, c);
        let x1 = fetch(seen[1], first, c);
        let x2 = fetch(seen[2], first, c);
        let x3 = fetch(seen[3], first, c);
        let x4 = fetch(seen[4], first, c);
        let x5 = fetch(seen[5], first, c);
        let x6 = fetch(seen[6], first, c);
        let x7 = fetch(seen[7], first, c);
        a0 += products4(wa, vec4<i32>(x0)); b0 += products4(wb, vec4<i32>(x0));
        a1 += products4(wa, vec4<i32>(x1)); b1 += products4(wb, vec4<i32>(x1));
        a2 += products4(wa, vec4<i32>(x2)); b2 += products4(wb, vec4<i32>(x2));
        a3 += products4(wa, vec4<i32>(x3)); b3 += products4(wb, vec4<i32>(x3));
        a4 += products4(wa, vec4<i32>(x4)); b4 += products4(wb, vec4<i32>(x4));
        a5 += products4(wa, vec4<i32>(x5)); b5 += products4(wb, vec4<i32>(x5));
        a6 += products4(wa, vec4<i32>(x6)); b6 += products4(wb, vec4<i32>(x6));
        a7 += products4(wa, vec4<i32>(x7)); b7 += products4(wb, vec4<i32>(x7));
        if (CENTRED == 0u) {
          t0 += products(ONES, x0);
          t1 += products(ONES, x1);
          t2 += products(ONES, x2);
          t3 += products(ONES, x3);
          t4 += products(ONES, x4);
          t5 += products(ONES, x5);
          t6 += products(ONES, x6);
          t7 += products(ONES, x7);
        }
      }
    }
  }
  let z = p.zeros.y;
  var a = array(a0 - z * t0, a1 - z * t1, a2 - z * t2, a3 - z * t3, a4 - z * t4, a5 - z * t5, a6 - z * t6, a7 - z * t7);
  var b = array(b0 - z * t0, b1 - z * t1, b2 - z * t2, b3 - z * t3, b4 - z * t4, b5 - z * t5, b6 - z * t6, b7 - z * t7);
  put_tile(local, m, n, &a, &b);
}
