// Floored division and integer division, exact; powers of integers. WGSL's own quotient of f32s is good to 2.5 units of
// the last place, so its floor may be one off. Integers divided by 0 give 0. Subnormal numbers may count as 0.

// a = quotient b + remainder; the remainder has b's sign and is smaller than b.
struct Division { quotient: f32, remainder: f32 }

fn floored(a: f32, b: f32) -> Division {
  let size_a = bitcast<u32>(abs(a));
  let size_b = bitcast<u32>(abs(b));
  let near = floor(a / b);
  let differ = (a < 0.0) != (b < 0.0);
  if (size_a >= 0x7f800000u || size_b > 0x7f800000u || size_b < 0x00800000u) {
    var nan = 0x7fc00000u;
    return Division(near, bitcast<f32>(nan));
  }
  if (size_b == 0x7f800000u) {
    return Division(near, select(a, b, differ && size_a > 0u));
  }
  let exponents = (size_a >> 23u) - (size_b >> 23u);
  var remainder = abs(a);
  var whole = 0u;
  if (size_a >= size_b) {
    let parts = divided(fraction(size_a), fraction(size_b), exponents);
    whole = parts.x;
    remainder = f32(parts.y) * 1.1920929e-7 * bitcast<f32>(size_b & 0x7f800000u);
  }
  let exact = size_a < size_b || exponents < 31u;
  if (differ && remainder > 0.0) {
    return Division(select(near, -f32(whole) - 1.0, exact), b + select(remainder, -remainder, b > 0.0));
  }
  let quotient = select(f32(whole), -f32(whole), differ);
  return Division(select(near, quotient, exact), select(remainder, -remainder, b < 0.0));
}

fn fraction(bits: u32) -> u32 { return (bits & 0x007fffffu) | 0x00800000u; }

// The quotient, modulo 2^32, and the remainder of a 2^power / b, for a and b below 2^24, by eight bits at a time.
fn divided(a: u32, b: u32, power: u32) -> vec2<u32> {
  var quotient = a / b;
  var remainder = a % b;
  for (var left = power; left > 0u;) {
    let step = min(left, 8u);
    remainder <<= step;
    quotient = (quotient << step) + remainder / b;
    remainder %= b;
    left -= step;
  }
  return vec2<u32>(quotient, remainder);
}

fn truncated_quotient(a: i32, b: i32) -> i32 { return select(a / b, 0, b == 0); }

// The remainder of the truncated quotient. Not a % b: on Vulkan SPIR-V's OpSRem is undefined for negative operands.
fn truncated_remainder(a: i32, b: i32) -> i32 { return select(a - truncated_quotient(a, b) * b, 0, b == 0); }

fn floored_quotient(a: i32, b: i32) -> i32 {
  let inexact = truncated_remainder(a, b) != 0;
  return truncated_quotient(a, b) - select(0, 1, inexact && (a < 0) != (b < 0));
}

fn floored_remainder(a: i32, b: i32) -> i32 {
  let remainder = truncated_remainder(a, b);
  return remainder + select(0, b, remainder != 0 && (remainder < 0) != (b < 0));
}

// a^b, which wraps around; results between -1 and 1 become 0.
fn integer_power(a: i32, b: i32) -> i32 {
  if (b < 0) { return select(0, select(1, a, (b & 1) == 1), abs(a) == 1); }
  var result = 1;
  var factor = a;
  for (var left = b; left > 0; left >>= 1u) {
    result *= select(1, factor, (left & 1) == 1);
    factor *= factor;
  }
  return result;
}
