//!use int64
// Integer arithmetic of quantised tensors whose sums have 64 bits (gpunn/ops/fixed_point/affine.py).

// x * m / 2^15 * 2^shift, rounded once, halves upwards, and clamped to 32 bits.
fn rescale_int64(x: I64, m: i32, shift: i32) -> i32 {
  let down = u32(max(15 - shift, 1));
  let half = i64_shift_left(I64(1u, 0u), down - 1u);
  return i64_to_i32(i64_shift_right(i64_add(i64_multiply(x, i64_from_i32(m)), half), down));
}
