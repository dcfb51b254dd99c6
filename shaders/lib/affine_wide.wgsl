//!use wide
// Integer arithmetic of quantised tensors whose sums have 64 bits, as in gpunn/ops/fixed_point/affine.py.

// x * m / 2^15 * 2^shift, rounded once, halves upwards; what leaves 32 bits stays at their end.
fn rescale_wide(x: Wide, m: i32, shift: i32) -> i32 {
  let down = u32(max(15 - shift, 1));
  let half = wide_left(Wide(1u, 0u), down - 1u);
  return narrow(wide_right(wide_add(wide_multiply(x, wide(m)), half), down));
}
