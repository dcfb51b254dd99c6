// Integer arithmetic of quantised tensors, as in gpunn/ops/affine.py.

// SaturatingRoundingDoublingHighMul of a and b >= 0: a * b / 2^31, nudged by 2^30 and truncated.
fn high_multiply(a: i32, b: i32) -> i32 {
  let u = select(u32(a), 0u - u32(a), a < 0);
  let v = u32(b);
  // u * v in four 16-bit products; u <= 2^31 and v < 2^31, so nothing overflows.
  let low = (u & 0xffffu) * (v & 0xffffu);
  let middle = (u >> 16u) * (v & 0xffffu) + (low >> 16u);
  let cross = (u & 0xffffu) * (v >> 16u) + (middle & 0xffffu);
  let high = (u >> 16u) * (v >> 16u) + (middle >> 16u) + (cross >> 16u);
  let bottom = (cross << 16u) | (low & 0xffffu);
  // A negative product is nudged by 1 - 2^30: its magnitude grows by 2^30 - 1.
  let nudge = select(0x40000000u, 0x3fffffffu, a < 0 && (high | bottom) != 0u);
  let sum = bottom + nudge;
  let q = ((high + select(0u, 1u, sum < bottom)) << 1u) | (sum >> 31u);
  return select(i32(q), i32(0u - q), a < 0);
}

// RoundingDivideByPOT: x / 2^exponent, to nearest, halves away from zero. exponent < 32.
fn divide_by_power(x: i32, exponent: u32) -> i32 {
  let mask = (1u << exponent) - 1u;
  let threshold = (mask >> 1u) + select(0u, 1u, x < 0);
  return (x >> exponent) + select(0, 1, (u32(x) & mask) > threshold);
}

// x * m / 2^31 * 2^shift, rounded twice.
fn rescale(x: i32, m: i32, shift: i32) -> i32 {
  let left = u32(max(shift, 0));
  let right = u32(max(-shift, 0));
  return divide_by_power(high_multiply(x << left, m), right);
}

fn rescale4(x: vec4<i32>, m: vec4<i32>, shift: vec4<i32>) -> vec4<i32> {
  return vec4<i32>(
    rescale(x.x, m.x, shift.x),
    rescale(x.y, m.y, shift.y),
    rescale(x.z, m.z, shift.z),
    rescale(x.w, m.w, shift.w),
  );
}
