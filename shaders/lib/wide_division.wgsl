//!use wide
// lib/division.wgsl for 64-bit integers: the same functions. Division by 0 gives 0.

struct Quotient { quotient: Wide, rest: Wide }

// Of numbers without a sign, up to 2^63, the second not 0: bit by bit from the highest on.
fn divided(a: Wide, b: Wide) -> Quotient {
  if ((a.y | b.y) == 0u) { return Quotient(Wide(a.x / b.x, 0u), Wide(a.x % b.x, 0u)); }
  var quotient = Wide();
  var rest = Wide();
  for (var left = 64u; left > 0u;) {
    left--;
    rest = wide_left(rest, 1u) | (wide_right(a, left) & Wide(1u, 0u));
    quotient = wide_left(quotient, 1u);
    if (select(rest.y >= b.y, rest.x >= b.x, rest.y == b.y)) {
      rest = wide_subtract(rest, b);
      quotient.x |= 1u;
    }
  }
  return Quotient(quotient, rest);
}

fn with_sign(x: Wide, negative: bool) -> Wide { return select(x, wide_negate(x), negative); }

fn truncated(a: Wide, b: Wide) -> Quotient {
  if (all(b == Wide())) { return Quotient(); }
  let sizes = divided(magnitude(a), magnitude(b));
  let negative = is_negative(a);
  return Quotient(with_sign(sizes.quotient, negative != is_negative(b)), with_sign(sizes.rest, negative));
}

fn truncated_quotient(a: Wide, b: Wide) -> Wide { return truncated(a, b).quotient; }

fn floored_quotient(a: Wide, b: Wide) -> Wide {
  let found = truncated(a, b);
  let below = any(found.rest != Wide()) && is_negative(a) != is_negative(b);
  return wide_subtract(found.quotient, Wide(u32(below), 0u));
}

fn floored_rest(a: Wide, b: Wide) -> Wide {
  let rest = truncated(a, b).rest;
  let below = any(rest != Wide()) && is_negative(rest) != is_negative(b);
  return select(rest, wide_add(rest, b), below);
}

// a^b, wrapping around; what is smaller than 1 counts as 0.
fn integer_power(a: Wide, b: Wide) -> Wide {
  let one = Wide(1u, 0u);
  let odd = (b.x & 1u) == 1u;
  if (is_negative(b)) { return select(Wide(), select(one, a, odd), all(magnitude(a) == one)); }
  var result = one;
  var factor = a;
  for (var left = b; any(left != Wide()); left = wide_right(left, 1u)) {
    if ((left.x & 1u) == 1u) { result = wide_multiply(result, factor); }
    factor = wide_multiply(factor, factor);
  }
  return result;
}
