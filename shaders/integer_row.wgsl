//!use requantize
// Quantised matrix product for few rows, word by word.
//
// One invocation: 1 row x 4 channels, one word of 4 steps of depth at a time.
// Expects x [M, GC], packed, GC divisible by 4; w, bias, scales, products(w, x), put_channels, p.GC, p.M, p.N4 and
// CENTRED as shaders/integer_product.wgsl has them; global id x counts vec4 columns, y rows.

const ONES: i32 = 0x01010101;

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let n = g.x;
  if (n >= p.N4 || g.y >= p.M) { return; }
  var sum = load4_bias(n);
  var ones = 0;
  let words = p.GC / 4u;
  for (var k = 0u; k < words; k++) {
    let x = i32(word_x(g.y * words + k));
    sum += products4(load4_w(k * p.N4 + n), vec4<i32>(x));
    if (CENTRED == 0u) { ones += products(ONES, x); }
  }
  put_channels(g.y, n, requantize(n, sum - p.zeros.y * ones));
}
