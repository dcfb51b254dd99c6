//!use complex elementary nan
// The absolute values of complex numbers.

fn is_infinite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }

// As C's hypot(): infinite if either part is, else NaN if either part is. The parts are multiplied by a power of two
// where their squares would be too large or too small for f32.
fn c64_abs(x: C64) -> f32 {
  if (is_infinite(x.x) || is_infinite(x.y)) { return infinite(); }
  if (is_nan(x.x) || is_nan(x.y)) { return not_a_number(); }
  let larger = max(abs(x.x), abs(x.y));
  if (larger > 0x1p+60f) { return scaled_abs(x, 0x1p-70f, 0x1p+70f); }
  if (larger < 0x1p-50f) { return scaled_abs(x, 0x1p+100f, 0x1p-100f); }
  return scaled_abs(x, 1.0, 1.0);
}

fn scaled_abs(x: C64, by: f32, back: f32) -> f32 {
  let z = x * by;
  return root(z.x * z.x + z.y * z.y) * back;
}
