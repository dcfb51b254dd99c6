//!use nan upper
// Elementary functions to a few units of the last place on every driver: WGSL promises no more than 2^-11 of sin
// and cos, and nothing of exp and log where they overflow. Reductions are done in integers, which no compiler may
// reorder; what is left goes through the beginning of a power series. Subnormal numbers may count as 0.

// Through a variable: WGSL refuses constants that are not finite.
fn infinite() -> f32 { var bits = 0x7f800000u; return bitcast<f32>(bits); }
fn not_a_number() -> f32 { var bits = 0x7fc00000u; return bitcast<f32>(bits); }

// e^x as 2^k e^r: x and r in steps of 2^-24, ln(2) in steps of 2^-39.
fn exponential(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 88.722835) { return infinite(); }
  if (x < -87.33654) { return 0.0; } // e^x is subnormal
  return exponential_times(x, 0);
}

// e^x 2^twos, for x in -87.4 ... 89.5; the factor is exact.
fn exponential_times(x: f32, twos: i32) -> f32 {
  let k = i32(round(x * 1.442695));
  let fixed = i32(round(x * 16777216.0));
  // ln(2) = (11629079 + 31721 / 2^15) / 2^24
  let left = fixed - k * 11629079 - ((k * 31721 + 16384) >> 15u);
  let r = select(f32(left) * 5.9604645e-8, x, k == 0);
  let tail = 0.16666667 + r * (0.041666668 + r * (0.008333334 + r * (0.0013888889 + r * 0.0001984127)));
  let e = 1.0 + (r + r * r * (0.5 + r * tail));
  let half = (k + twos) >> 1u; // 2^128 is no number, but two factors are
  return e * power_of_two(half) * power_of_two(k + twos - half);
}

// e^x - 1, which keeps all digits where x is small. The series goes on with x^8 / 40320.
fn exponential_less_one(x: f32) -> f32 {
  if (!(abs(x) < 0.35)) { return exponential(x) - 1.0; }
  let tail = 0.041666668 + x * (0.008333334 + x * (0.0013888889 + x * 0.0001984127));
  return x * (1.0 + x * (0.5 + x * (0.16666667 + x * tail)));
}

fn power_of_two(k: i32) -> f32 { return bitcast<f32>((k + 127) << 23u); }

// ln(x) as k ln(2) + ln(1 + f), 1 + f in sqrt(1/2) ... sqrt(2).
fn logarithm(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x < 0.0) { return not_a_number(); }
  let bits = bitcast<u32>(x);
  if (bits < 0x00800000u || x == 0.0) { return -infinite(); }
  if (bits == 0x7f800000u) { return x; }
  let shifted = bits - 0x3f3504f3u; // sqrt(1/2)
  let k = bitcast<i32>(shifted) >> 23u;
  let f = bitcast<f32>((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0;
  return f32(k) * 0.6931472 + logarithm_near_one(f);
}

// ln(1 + f), 1 + f in sqrt(1/2) ... sqrt(2): with s = f / (2 + f) it is 2 artanh(s), and 2 s = f - s f. Nothing is lost
// where f is small.
fn logarithm_near_one(f: f32) -> f32 {
  let s = f / (2.0 + f);
  let z = s * s;
  let series = z * (0.6666667 + z * (0.4 + z * (0.2857143 + z * 0.22222222)));
  return f - s * (f - series);
}

// An angle: its number of quarter turns, modulo four, and the remainder, in -pi/4 ... pi/4.
struct Angle { quarters: u32, rest: f32 }

// The digits of 2/pi, 32 bits each, from the integer part on.
const TWO_OVER_PI = array<u32, 8>(
  0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu,
);

// The angle of a finite x. |x| is m 2^e; the product of m with 96 digits of 2/pi, chosen by e, gives |x| 2/pi modulo
// four with 62 bits behind the point.
fn reduced(x: f32) -> Angle {
  if (abs(x) < 0.7853982) { return Angle(0u, x); }
  let bits = bitcast<u32>(x);
  let m = (bits & 0x007fffffu) | 0x00800000u;
  let first = ((bits >> 23u) & 0xffu) - 120u; // e + 30, the digit of weight 4 / m
  let by = first & 31u;
  var digits = TWO_OVER_PI;
  var window = array<u32, 3>();
  for (var i = 0u; i < 3u; i++) {
    let word = (first >> 5u) + i;
    window[i] = (digits[word] << by) | select(0u, digits[word + 1u] >> (32u - by), by > 0u);
  }
  let product = m * window[1];
  let low = product + upper(m, window[2]);
  let high = m * window[0] + upper(m, window[1]) + select(0u, 1u, low < product);
  let quarters = (high + 0x20000000u) >> 30u;
  let turn = f32(bitcast<i32>((high << 2u) | (low >> 30u))) * 2.3283064e-10; // 2^-32
  let rest = (turn + f32(low << 2u) * 5.421011e-20) * 1.5707964; // 2^-64, pi / 2
  return Angle(select(quarters, 0u - quarters, x < 0.0), select(rest, -rest, x < 0.0));
}

// sin(x + quarters pi / 2)
fn wave(x: f32, quarters: u32) -> f32 {
  if (!(abs(x) <= 3.4028234e38)) { return not_a_number(); }
  let angle = reduced(x);
  let r = angle.rest;
  let z = r * r;
  let s = r + r * z * (-0.16666667 + z * (0.008333334 + z * (-0.0001984127 + z * 2.7557319e-6)));
  let c = 1.0 + z * (-0.5 + z * (0.041666668 + z * (-0.0013888889 + z * 2.4801588e-5)));
  let q = angle.quarters + quarters;
  let v = select(s, c, (q & 1u) == 1u);
  return select(v, -v, (q & 2u) == 2u);
}

// The angle of the point (x, y), in -pi ... pi: the arc tangent of the lesser side over the greater, at most 1. Over
// tan(pi/8) it is pi/4 and that of (t - 1) / (t + 1); below, the polynomial that meets it at the nodes of Chebyshev.
fn arc(y: f32, x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  let greater = max(abs(x), abs(y));
  let lesser = min(abs(x), abs(y));
  let scale = select(1.0, 0.0625, greater > 1e37); // WGSL's quotients are good for divisors up to 2^126
  var t = lesser * scale / (greater * scale);
  if (greater == 0.0) { t = 0.0; }
  if (greater > 3.4028234e38) { t = select(0.0, 1.0, lesser > 3.4028234e38); }
  let far = t > 0.41421357;
  let r = select(t, (t - 1.0) / (t + 1.0), far);
  let z = r * r;
  let tail = -0.3333333 + z * (0.1999954 + z * (-0.14263956 + z * (0.10743731 - z * 0.06451928)));
  let near = select(0.0, 0.7853982, far) + (r + r * z * tail);
  let up = select(near, 1.5707964 - near, abs(y) > abs(x));
  let turned = select(up, 3.1415927 - up, bitcast<u32>(x) >> 31u == 1u);
  return select(turned, -turned, bitcast<u32>(y) >> 31u == 1u);
}

// The square root of x and its reciprocal, also for 0, infinity and negative x, for which WGSL promises nothing.
fn root(x: f32) -> f32 {
  if (x < 0.0) { return not_a_number(); }
  return select(sqrt(x), x, x == 0.0 || x > 3.4028234e38 || is_nan(x));
}

fn inverse_root(x: f32) -> f32 {
  if (x < 0.0) { return not_a_number(); }
  if (x == 0.0) { return select(infinite(), -infinite(), bitcast<u32>(x) >> 31u == 1u); }
  if (x > 3.4028234e38) { return 0.0; }
  return select(inverseSqrt(x), x, is_nan(x));
}

// x times the cumulative normal distribution at x: Abramowitz and Stegun, formula 7.1.26, good to 1.5e-7.
fn gaussian_unit(x: f32) -> f32 {
  let z = min(abs(x), 20.0);
  let t = 1.0 / (1.0 + 0.23164189 * z); // 0.3275911 / sqrt(2)
  let series = t * (0.2548296 + t * (-0.28449674 + t * (1.4214138 + t * (-1.4531521 + t * 1.0614054))));
  let tail = 0.5 * series * exponential(-0.5 * z * z);
  return select(gated(x, 1.0 - tail), gated(x, tail), x < 0.0);
}

// The same with a hyperbolic tangent: x (1 + tanh(u)) / 2 = x / (1 + e^(-2 u)), u = sqrt(2/pi) (x + 0.044715 x^3).
fn tanh_unit(x: f32) -> f32 {
  let z = clamp(x, -20.0, 20.0);
  let gate = 1.0 / (1.0 + exponential(-1.5957691 * (z + 0.044715 * z * z * z)));
  return gated(x, gate);
}

// x * gate; 0 for x far below 0, where the gate is closed.
fn gated(x: f32, gate: f32) -> f32 { return select(x * gate, 0.0, x < -20.0); }

// a^b = e^(b ln |a|), negative for a negative a and an odd b.
fn power(a: f32, b: f32) -> f32 {
  if (b == 0.0 || a == 1.0) { return 1.0; }
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  let size = select(exponential(b * logarithm(abs(a))), 1.0, abs(a) == 1.0);
  let negative = bitcast<u32>(a) >> 31u == 1u;
  let whole = abs(b) >= 8388608.0 || floor(b) == b; // all numbers from 2^23 on are whole, infinity too
  let odd = abs(b) < 16777216.0 && whole && floor(b * 0.5) * 2.0 != b;
  if (negative && !whole && a != 0.0 && a >= -3.4028234e38) { return not_a_number(); }
  return select(size, -size, negative && odd);
}
