// Integer arithmetic of quantised tensors (gpunn/ops/fixed_point/affine.py).

// a * b / 2^31, rounded to nearest, halves upwards: SaturatingRoundingDoublingHighMul. Not both may be -2^31.
fn high_multiply(a: i32, b: i32) -> i32 {
  let a0 = a & 0xffff;
  let a1 = a >> 16u;
  let b0 = b & 0xffff;
  let b1 = b >> 16u;
  // a * b = high * 2^32 + (middle mod 2^16) * 2^16 + less than 2^16. Only a0 * b0 needs 32 bits without a sign.
  let cross = a1 * b0 + i32((u32(a0) * u32(b0)) >> 16u);
  let middle = a0 * b1 + (cross & 0xffff);
  let high = a1 * b1 + (cross >> 16u) + (middle >> 16u);
  // Bits 30 and 31 of the product decide: floor((product + 2^30) / 2^31).
  return (high << 1u) + ((((middle >> 14u) & 3) + 1) >> 1u);
}

// x / 2^exponent, rounded to nearest: halves away from zero (RoundingDivideByPOT), or else upwards. exponent < 32.
fn divide_by_power(x: i32, exponent: u32, away: bool) -> i32 {
  let mask = (1u << exponent) - 1u;
  let threshold = (mask >> 1u) + select(0u, 1u, away && x < 0);
  return (x >> exponent) + select(0, 1, (u32(x) & mask) > threshold);
}

// x * m / 2^31 * 2^shift, rounded twice; away: as in divide_by_power().
fn rescale(x: i32, m: i32, shift: i32, away: bool) -> i32 {
  let left = u32(max(shift, 0));
  let right = u32(max(-shift, 0));
  return divide_by_power(high_multiply(x << left, m), right, away);
}

// rescale(x, m, shift, away == 1) for shifts from -31 to -1, in half the steps: both roundings are one floor, that of
// (x * m + 2^30 + 2^(30 - shift)) / 2^(31 - shift), where 2^31 less is added if x is negative and away is 1.
fn rescale_down(x: i32, m: i32, shift: i32, away: i32) -> i32 {
  let x0 = u32(x & 0xffff);
  let x1 = x >> 16u;
  let m0 = m & 0xffff;
  let m1 = m >> 16u;
  let right = u32(-shift);
  // As in high_multiply(). 2^30 and -2^31 are added to the middle, and 2^(30 - shift) to the word that it is in.
  let cross = x1 * m0 + i32((x0 * u32(m0)) >> 16u) + 0x4000 - ((x >> 31u) & (away << 15u));
  let middle = x0 * u32(m1) + u32(cross & 0xffff) + ((0x10000u >> right) & 0x8000u);
  let high = x1 * m1 + (cross >> 16u) + i32(middle >> 16u) + i32((1u << right) >> 2u);
  return high >> (right - 1u);
}
