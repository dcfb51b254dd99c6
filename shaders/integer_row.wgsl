//!use grid requantize slices
// Quantised matrix product for few rows, word by word.
//
// SLICES invocations (lib/slices.wgsl): 1 row x 4 channels, one word of 4 steps of depth at a time each.
// Expects x [M, GC], packed, GC divisible by 4; w, bias, scales, products(w, x), put_channels, p.GC, p.N4, SLICES
// and CENTRED as shaders/integer_product.wgsl has them; workgroups count TILES vec4 columns along x, rows along y.

const ONES: i32 = 0x01010101;

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let n = at.workgroup.x * TILES + at.local.x % TILES;
  let slice = slice_of(at.local);
  let words = p.GC / 4u;
  let steps = select(0u, words, n < p.N4);
  var sum = select(vec4<i32>(), load4_bias(n), slice == 0u);
  var ones = 0;
  for (var k = slice; k < steps; k += SLICES) {
    let x = i32(word_x(at.workgroup.y * words + k));
    sum += products4(load4_w(k * p.N4 + n), vec4<i32>(x));
    if (CENTRED == 0u) { ones += products(ONES, x); }
  }
  sum = join(at.local, sum - p.zeros.y * ones);
  if (slice == 0u) { put_channels(at.workgroup.y, n, requantize(n, sum)); }
}
