//!use upper
// 64-bit integers without a device feature: two words of two's complement, the lower one in x. What does not fit
// wraps around, as in numpy, where nothing else is said.

alias Wide = vec2<u32>;

fn wide(x: i32) -> Wide { return Wide(u32(x), u32(x >> 31u)); }

fn is_negative(x: Wide) -> bool { return (x.y >> 31u) == 1u; }

// As an i32: the nearest one.
fn narrow(x: Wide) -> i32 {
  let bound = i32(0x7fffffffu ^ u32(i32(x.y) >> 31u));
  return select(bound, i32(x.x), all(wide(i32(x.x)) == x));
}

fn wide_add(a: Wide, b: Wide) -> Wide {
  let low = a.x + b.x;
  return Wide(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn wide_subtract(a: Wide, b: Wide) -> Wide {
  return Wide(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn wide_negate(x: Wide) -> Wide { return wide_subtract(Wide(), x); }

// Its absolute value, as a number without a sign: that of -2^63 too.
fn magnitude(x: Wide) -> Wide { return select(x, wide_negate(x), is_negative(x)); }

fn wide_multiply(a: Wide, b: Wide) -> Wide {
  return Wide(a.x * b.x, upper(a.x, b.x) + a.x * b.y + a.y * b.x);
}

// a * b, which always fits.
fn wide_product(a: i32, b: i32) -> Wide {
  let high = upper(u32(a), u32(b)) - select(0u, u32(b), a < 0) - select(0u, u32(a), b < 0);
  return Wide(u32(a) * u32(b), high);
}

fn wide_less(a: Wide, b: Wide) -> bool {
  return select(i32(a.y) < i32(b.y), a.x < b.x, a.y == b.y);
}

fn wide_max(a: Wide, b: Wide) -> Wide { return select(a, b, wide_less(a, b)); }

fn wide_min(a: Wide, b: Wide) -> Wide { return select(a, b, wide_less(b, a)); }

// By n bits, 0 ... 63.
fn wide_left(x: Wide, n: u32) -> Wide {
  let by = n & 31u;
  let carried = select(x.x >> (32u - by), 0u, by == 0u);
  return select(Wide(x.x << by, (x.y << by) | carried), Wide(0u, x.x << by), n >= 32u);
}

// By n bits, 0 ... 63; the sign stays: the floor of x / 2^n.
fn wide_right(x: Wide, n: u32) -> Wide {
  let by = n & 31u;
  let carried = select(x.y << (32u - by), 0u, by == 0u);
  let high = i32(x.y);
  let sign = u32(high >> 31u);
  return select(Wide((x.x >> by) | carried, u32(high >> by)), Wide(u32(high >> by), sign), n >= 32u);
}

// The nearest f32, ties to even.
fn wide_to_real(x: Wide) -> f32 {
  let size = magnitude(x);
  let zeros = select(countLeadingZeros(size.y), 32u + countLeadingZeros(size.x), size.y == 0u);
  if (zeros == 64u) { return 0.0; }
  let bits = wide_left(size, zeros); // 24 of them stay, the highest one is implied
  let rest = (bits.y << 24u) | select(0u, 1u, bits.x > 0u);
  let odd = (bits.y >> 8u) & 1u;
  let up = select(0u, 1u, rest + odd > 0x80000000u);
  let fraction = (bits.y & 0x7fffffffu) >> 8u;
  return bitcast<f32>((x.y & 0x80000000u) | (((190u - zeros) << 23u) + fraction + up)); // 127 + 63 - zeros
}

// Without the fraction; what is beyond the range becomes its nearest end, NaN 0.
fn wide_of_real(x: f32) -> Wide {
  let bits = bitcast<u32>(x);
  let exponent = (bits >> 23u) & 0xffu;
  let negative = bits >> 31u == 1u;
  if ((bits & 0x7fffffffu) > 0x7f800000u || exponent < 127u) { return Wide(); }
  if (exponent >= 190u) {
    return select(Wide(0xffffffffu, 0x7fffffffu), Wide(0u, 0x80000000u), negative);
  }
  // As the upper bits of 63, of which what lies behind the point goes.
  let size = wide_right(Wide(0u, ((bits & 0x007fffffu) | 0x00800000u) << 7u), 189u - exponent);
  return select(size, wide_negate(size), negative);
}
