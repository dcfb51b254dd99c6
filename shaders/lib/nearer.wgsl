// x, divided by 2^64 if top, the largest |x| of its row, is 2^64 or more. WGSL promises the accuracy of a / b only for
// b up to 2^126, and x * (1 / top), which compilers make of x / top, vanishes beyond it. The division changes the bits
// of x, which no compiler can cancel. Numbers that are too small to be divided become 0; beside such a top they count
// for nothing.
fn nearer(x: f32, top: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let exponent = (bits >> 23u) & 0xffu;
  if (top < 18446744073709551616.0 || exponent == 255u) { return x; }
  return select(0.0, bitcast<f32>(bits - (64u << 23u)), exponent > 64u);
}
