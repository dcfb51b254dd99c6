//!use requantize fused_product
// Sums of quantised tensors of 8 bits in a tile whose rows a subgroup shares (lib/broadcast_tile.wgsl), to the bit.
// lib/broadcast_reals.wgsl has the same functions for reals.
//
// Elements and weights, without their zero points, are up to 255, so sums of four products are up to 260100, and exact
// in f32: CPUs multiply those with less effort than bytes. With 1.5 * 2^23 added, such a sum n has the bits of that
// number plus n, so it needs no conversion to an integer. begin() takes off what all steps together add too much.
// Expects weight_at(q), four weights less the filter's zero point, SHIFTED and ITS_BITS, the number that is added and
// its bits, of lib/centred_weights.wgsl or lib/stored_weights.wgsl; bias; p.DEPTH; STEP and plus_step() of
// lib/broadcast_rows.wgsl; p.N, switched_y() and appended4_y() as lib/broadcast_reals.wgsl; what lib/requantize.wgsl
// expects.

alias Total = vec4<i32>;
alias Factor = f32;

fn begin(n: u32) -> Total { return load4_bias(n) - vec4<i32>(p.DEPTH / STEP * ITS_BITS); }

fn factor_of(x: T) -> f32 { return f32(x - p.zeros.x); }

fn factors_of(x: vec4<T>) -> vec4<f32> { return vec4<f32>(enter(x)); }

fn add_step(sum: Total, w: Weights, x: Factors) -> Total {
  return sum + bitcast<vec4<i32>>(plus_step(SHIFTED, w, x));
}

// Computes the appended operations of the rows from m on, which take the place of the sums, in a loop as that of
// lib/broadcast_reals.wgsl.
fn finished(m: u32, end: u32, n: u32, sums: ptr<function, Sums>) -> Ending {
  let by = ending(n);
  let on = switched_y();
  let place = min(n, p.N / 4u - 1u);
  for (var r = 0u; r < on * ROWS; r++) {
    append_sum(sums, appended4_y(min(m + r, end - 1u) * (p.N / 4u) + place, rescaled((*sums)[0], by)));
  }
  return by;
}

fn stored(sum: Total, by: Ending) -> vec4<T> { return select(rescaled(sum, by), sum, switched_y() == 1u); }
