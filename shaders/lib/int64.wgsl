//!use upper
// 64-bit integers without a device feature: two words of two's complement, the lower one in x. Results that do not fit
// wrap around, as in numpy, unless a comment says otherwise.

alias I64 = vec2<u32>;

// Squares are never 2 modulo 4. If only parameters were compared, lavapipe of Mesa 22.3 would compile some shaders
// again for every dispatch (shaders/README.md).
fn holds_for_all(x: u32) -> bool { return ((x * x) & 2u) == 0u; }

fn i64_from_i32(x: i32) -> I64 { return I64(u32(x), u32(x >> 31u)); }

fn is_negative(x: I64) -> bool { return (x.y >> 31u) == 1u; }

// The nearest i32.
fn i64_to_i32(x: I64) -> i32 {
  let bound = i32(0x7fffffffu ^ u32(i32(x.y) >> 31u));
  return select(bound, i32(x.x), all(i64_from_i32(i32(x.x)) == x));
}

fn i64_add(a: I64, b: I64) -> I64 {
  let low = a.x + b.x;
  return I64(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn i64_subtract(a: I64, b: I64) -> I64 {
  return I64(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn i64_negate(x: I64) -> I64 { return i64_subtract(I64(), x); }

// The absolute value as an unsigned number, also of -2^63.
fn magnitude(x: I64) -> I64 { return select(x, i64_negate(x), is_negative(x)); }

fn i64_multiply(a: I64, b: I64) -> I64 {
  return I64(a.x * b.x, upper(a.x, b.x) + a.x * b.y + a.y * b.x);
}

// a * b without overflow.
fn i64_product(a: i32, b: i32) -> I64 {
  let high = upper(u32(a), u32(b)) - select(0u, u32(b), a < 0) - select(0u, u32(a), b < 0);
  return I64(u32(a) * u32(b), high);
}

fn i64_less(a: I64, b: I64) -> bool {
  return select(i32(a.y) < i32(b.y), a.x < b.x, a.y == b.y);
}

fn i64_max(a: I64, b: I64) -> I64 { return select(a, b, i64_less(a, b)); }

fn i64_min(a: I64, b: I64) -> I64 { return select(a, b, i64_less(b, a)); }

// x * 2^n, for n in 0 ... 63.
fn i64_shift_left(x: I64, n: u32) -> I64 {
  let by = n & 31u;
  let carried = select(x.x >> (32u - by), 0u, by == 0u);
  return select(I64(x.x << by, (x.y << by) | carried), I64(0u, x.x << by), n >= 32u);
}

// The floor of x / 2^n, for n in 0 ... 63.
fn i64_shift_right(x: I64, n: u32) -> I64 {
  let by = n & 31u;
  let carried = select(x.y << (32u - by), 0u, by == 0u);
  let high = i32(x.y);
  let sign = u32(high >> 31u);
  return select(I64((x.x >> by) | carried, u32(high >> by)), I64(u32(high >> by), sign), n >= 32u);
}

// The nearest f32, ties to even.
fn i64_to_f32(x: I64) -> f32 {
  let size = magnitude(x);
  let zeros = select(countLeadingZeros(size.y), 32u + countLeadingZeros(size.x), size.y == 0u);
  if (zeros == 64u) { return 0.0; }
  let bits = i64_shift_left(size, zeros); // 24 bits stay, and the highest one is implied
  let rest = (bits.y << 24u) | select(0u, 1u, bits.x > 0u);
  let odd = (bits.y >> 8u) & 1u;
  let up = select(0u, 1u, rest + odd > 0x80000000u);
  let fraction = (bits.y & 0x7fffffffu) >> 8u;
  return bitcast<f32>((x.y & 0x80000000u) | (((190u - zeros) << 23u) + fraction + up)); // 127 + 63 - zeros
}

// x without its fraction, clamped to the range; 0 for NaN.
fn i64_from_f32(x: f32) -> I64 {
  let bits = bitcast<u32>(x);
  let exponent = (bits >> 23u) & 0xffu;
  let negative = bits >> 31u == 1u;
  if ((bits & 0x7fffffffu) > 0x7f800000u || exponent < 127u) { return I64(); }
  if (exponent >= 190u) {
    return select(I64(0xffffffffu, 0x7fffffffu), I64(0u, 0x80000000u), negative);
  }
  // The significand in the upper bits of 63; the shift drops the bits behind the point.
  let size = i64_shift_right(I64(0u, ((bits & 0x007fffffu) | 0x00800000u) << 7u), 189u - exponent);
  return select(size, i64_negate(size), negative);
}
