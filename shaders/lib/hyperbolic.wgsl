//!use elementary nan
// Hyperbolic functions, their inverses and the error function, to a few units of the last place: small arguments keep
// their digits, large ones do not overflow before the result does. Subnormal numbers may count as 0.

const LAST_FINITE = 89.41599f; // the hyperbolic sine and cosine of larger numbers are beyond f32

fn with_sign(size: f32, x: f32) -> f32 { return select(size, -size, bitcast<u32>(x) >> 31u == 1u); }

// Up to 1 by the power series; then (e^a - e^-a) / 2 from h = e^a / 2.
fn hyperbolic_sine(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > LAST_FINITE) { return with_sign(infinite(), x); }
  if (a < 1.0) {
    let z = a * a;
    let tail = 0.16666667 + z * (0.008333334 + z * (0.0001984127 + z * (2.7557319e-6 + z * 2.5052108e-8)));
    return x + x * z * tail;
  }
  let h = exponential_times(a, -1);
  return with_sign(h - opposite(h), x);
}

fn hyperbolic_cosine(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > LAST_FINITE) { return infinite(); }
  let h = exponential_times(a, -1);
  return h + opposite(h);
}

// e^-a / 2 from h = e^a / 2; 0 where that changes nothing, as WGSL's quotients are good for divisors up to 2^126.
fn opposite(h: f32) -> f32 { return select(0.25 / min(h, 1e9), 0.0, h > 1e9); }

// ln(1 + f), for f of 0 and more.
fn logarithm_of_one_and(f: f32) -> f32 {
  return select(logarithm(1.0 + f), logarithm_near_one(min(f, 0.4142135)), f < 0.4142135);
}

// ln(a + sqrt(a^2 + 1)) as ln(1 + a + a^2 / (1 + sqrt(a^2 + 1))); ln(2 a) where a^2 + 1 is a^2.
fn inverse_sine(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 10000.0) { return with_sign(logarithm(a) + 0.6931472, x); }
  let square = a * a;
  return with_sign(logarithm_of_one_and(a + square / (1.0 + sqrt(square + 1.0))), x);
}

// ln(x + sqrt(x^2 - 1)) as ln(1 + t + sqrt(t (2 + t))), t = x - 1.
fn inverse_cosine(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x < 1.0) { return not_a_number(); }
  if (x > 10000.0) { return logarithm(x) + 0.6931472; }
  let t = x - 1.0;
  return logarithm_of_one_and(t + root(t * (2.0 + t)));
}

// ln((1 + a) / (1 - a)) / 2 as ln(1 + 2 a / (1 - a)) / 2.
fn inverse_tangent(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 1.0) { return not_a_number(); }
  if (a == 1.0) { return with_sign(infinite(), x); }
  return with_sign(0.5 * logarithm_of_one_and(2.0 * a / (1.0 - a)), x);
}

// Up to 1 x times a polynomial in x^2, then 1 less e^(-x^2) times one in 1 / (1 + x / 2). Both meet the exact function
// at the nodes of Chebyshev: erf(x) / x in 0 ... 1 to 7e-8, erfc(x) in 1 ... 4 to 2e-8. From 4 on f32 has only 1.
fn error_function(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = min(abs(x), 4.0);
  if (a < 1.0) {
    let z = a * a;
    let far = 0.0051890872 + z * (-0.00080168643 + z * 7.8758749e-5);
    return x * 1.1283791 + x * z * (-0.37612626 + z * (0.11283594 + z * (-0.026854211 + z * far)));
  }
  let t = 1.0 / (1.0 + 0.5 * a);
  let tail = 0.00133186 + t * (0.26443237 + t * (0.37871143 + t * (-0.03017919 + t * (0.6044721 - t * 0.21879573))));
  return with_sign(1.0 - tail * exponential(-a * a), x);
}
