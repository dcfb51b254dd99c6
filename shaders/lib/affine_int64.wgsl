//!use int64
// Integer arithmetic of quantised tensors whose sums have 64 bits (gpunn/ops/fixed_point/affine.py).

// x * m / 2^31 * 2^shift, rounded once, halves upwards. From 2^47 on, x counts as 2^47 - 1.
fn multiply_whole(x: I64, m: i32, shift: i32) -> I64 {
  let down = u32(31 - shift);
  if (down < 17u && holds_for_all(x.x)) {
    let half = I64(1u << (down - 1u), 0u);
    return i64_shift_right(i64_add(i64_product(i64_to_i32(x), m), half), down);
  }
  let most = I64(0xffffffffu, 0x7fffu);
  let size = i64_max(i64_min(x, most), i64_negate(most));
  // The lower 16 bits of the product are dropped first, so that nothing leaves 64 bits.
  let low = size.x & 0xffffu;
  let lower = i64_shift_right(I64(low * u32(m), upper(low, u32(m))), 16u);
  let product = i64_add(i64_product(i32(i64_shift_right(size, 16u).x), m), lower);
  let half = i64_shift_left(I64(1u, 0u), down - 17u);
  return i64_shift_right(i64_add(product, half), down - 16u);
}

// The same, clamped to 32 bits.
fn rescale_whole(x: I64, m: i32, shift: i32) -> i32 { return i64_to_i32(multiply_whole(x, m, shift)); }

// x * m / 2^31 * 2^shift, rounded twice as by rescale(), halves upwards, and clamped to 32 bits.
fn rescale_upwards(x: I64, m: i32, shift: i32) -> i32 {
  let right = u32(max(-shift, 0));
  let half = I64((1u << right) >> 1u, 0u);
  return i64_to_i32(i64_shift_right(i64_add(multiply_whole(x, m, max(shift, 0)), half), right));
}

// x * m / 2^15 * 2^shift, rounded once, halves upwards, and clamped to 32 bits.
fn rescale_int64(x: I64, m: i32, shift: i32) -> i32 {
  let down = u32(max(15 - shift, 1));
  let half = i64_shift_left(I64(1u, 0u), down - 1u);
  return i64_to_i32(i64_shift_right(i64_add(i64_multiply(x, i64_from_i32(m)), half), down));
}
