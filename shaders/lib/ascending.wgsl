// The bits of an f32 as an integer with the same order: both zeros are 0, and NaNs are beyond the infinities.
fn ascending(bits: i32) -> i32 {
  let magnitude = bits & 0x7fffffff;
  return select(magnitude, -magnitude, bits < 0);
}
