//!use nan
// What local response normalisation makes of a number and of the sum of its neighbours' squares.
// Expects p.bias, p.alpha, p.beta; p.below, the sign of the power of a negative base.

fn normalised(x: T, sum: T) -> T {
  let base = p.bias + p.alpha * sum;
  let power = select(pow(abs(base), -p.beta), 1.0, p.beta == 0.0); // WGSL leaves 0^0 open
  return select(x * power * select(1.0, p.below, base < 0.0), base, is_nan(base)); // a power of NaN may be 0
}
