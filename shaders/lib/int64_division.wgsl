//!use int64
// The functions of lib/division.wgsl for 64-bit integers, with other names, as a shader may need both. A division by
// 0 gives 0.

struct Quotient { quotient: I64, remainder: I64 }

// The quotient of unsigned numbers up to 2^63, the second not 0, bit by bit from the highest on.
fn i64_divided(a: I64, b: I64) -> Quotient {
  if ((a.y | b.y) == 0u) { return Quotient(I64(a.x / b.x, 0u), I64(a.x % b.x, 0u)); }
  var quotient = I64();
  var remainder = I64();
  for (var left = 64u; left > 0u;) {
    left--;
    remainder = i64_shift_left(remainder, 1u) | (i64_shift_right(a, left) & I64(1u, 0u));
    quotient = i64_shift_left(quotient, 1u);
    if (select(remainder.y >= b.y, remainder.x >= b.x, remainder.y == b.y)) {
      remainder = i64_subtract(remainder, b);
      quotient.x |= 1u;
    }
  }
  return Quotient(quotient, remainder);
}

fn i64_with_sign(x: I64, negative: bool) -> I64 { return select(x, i64_negate(x), negative); }

fn i64_truncated(a: I64, b: I64) -> Quotient {
  if (all(b == I64()) && holds_for_all(a.x)) { return Quotient(); }
  let sizes = i64_divided(magnitude(a), magnitude(b));
  let negative = is_negative(a);
  let quotient = i64_with_sign(sizes.quotient, negative != is_negative(b));
  return Quotient(quotient, i64_with_sign(sizes.remainder, negative));
}

fn i64_truncated_quotient(a: I64, b: I64) -> I64 { return i64_truncated(a, b).quotient; }

fn i64_floored_quotient(a: I64, b: I64) -> I64 {
  let found = i64_truncated(a, b);
  let below = any(found.remainder != I64()) && is_negative(a) != is_negative(b);
  return i64_subtract(found.quotient, I64(u32(below), 0u));
}

fn i64_floored_remainder(a: I64, b: I64) -> I64 {
  let remainder = i64_truncated(a, b).remainder;
  let below = any(remainder != I64()) && is_negative(remainder) != is_negative(b);
  return select(remainder, i64_add(remainder, b), below);
}

// a^b, which wraps around; results between -1 and 1 become 0.
fn i64_integer_power(a: I64, b: I64) -> I64 {
  let one = I64(1u, 0u);
  let odd = (b.x & 1u) == 1u;
  if (is_negative(b)) { return select(I64(), select(one, a, odd), all(magnitude(a) == one)); }
  var result = one;
  var factor = a;
  for (var left = b; any(left != I64()); left = i64_shift_right(left, 1u)) {
    if ((left.x & 1u) == 1u) { result = i64_multiply(result, factor); }
    factor = i64_multiply(factor, factor);
  }
  return result;
}
