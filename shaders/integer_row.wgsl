//!use row_tile requantize
// Quantised matrix product for few rows.
// Expects x [M, GC], packed, GC divisible by 4 if there are several rows; w, scales, products(w, x), p.GC and CENTRED
// as shaders/integer_product.wgsl has them; p.N; what lib/row_tile.wgsl expects. An invocation computes 1 row x 4
// channels, with one word of four elements of the depth in a step. What follows a single row in its last word adds
// nothing: weights are the filter's zero point there.

const ONES: i32 = 0x01010101;

fn add_products(begin: vec4<i32>, m: u32, n: u32, split: u32) -> vec4<i32> {
  let words = (p.GC + 3u) / 4u;
  var sum = begin;
  var inputs = 0; // their sum, for the filter's zero point
  for (var k = split; k < words; k += SPLITS) {
    let x = i32(word_x(m * words + k));
    sum += products4(load4_w(k * p.N4 + n), vec4<i32>(x));
    if (CENTRED == 0u) { inputs += products(ONES, x); }
  }
  return sum - p.zeros.y * inputs;
}
