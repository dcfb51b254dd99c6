//!use row_tile real_sums column_blocks
// y[m, n] = apply(bias[n] + sum over k of x[m, k] * w[k, n]), for few rows.
// Expects w in blocks of columns (lib/column_blocks.wgsl), p.K4, the steps of a row, p.N; row_step() of
// lib/row_steps.wgsl or lib/ragged_row_steps.wgsl; what lib/row_tile.wgsl expects. An invocation computes 1 row x 4
// channels, with four elements of the depth in a step.

fn add_products(begin: vec4<T>, m: u32, n: u32, split: u32) -> vec4<T> {
  var sum = begin;
  var q = first_weight(n) + split * 4u * p.W4;
  let row = place_of_row(m);
  for (var k = split; k < p.K4; k += SPLITS) {
    let q1 = q + p.W4;
    let q2 = q1 + p.W4;
    let q3 = q2 + p.W4;
    sum += mat4x4<T>(load4_w(q), load4_w(q1), load4_w(q2), load4_w(q3)) * row_step(row, k);
    q = q3 + p.W4 * (4u * SPLITS - 3u);
  }
  return sum;
}
