//!use flat
// y = x / (p.bias + p.alpha * sum of x^2)^p.beta, where the sum runs over up to p.radius neighbours on either side
// along an axis.
// Expects x, y; p.count, the V's of y; p.length (extent of the axis), p.inner (V's between neighbours along it);
// p.bias, p.alpha, p.beta, p.radius; p.below, the sign of the power of a negative base. An invocation computes one V.

fn compute(i: u32) {
  let at = i / p.inner % p.length;
  let before = min(at, p.radius);
  let after = min(p.length - 1u - at, p.radius);
  var sum = V(T(0));
  for (var k = i - before * p.inner; k <= i + after * p.inner; k += p.inner) {
    let x = loadv_x(k);
    sum += x * x;
  }
  let base = V(T(p.bias)) + T(p.alpha) * sum;
  let power = select(pow(abs(base), V(T(-p.beta))), V(T(1)), p.beta == 0.0); // WGSL leaves 0^0 open
  storev_y(i, loadv_x(i) * power * select(V(T(1)), V(T(p.below)), base < V(T(0))));
}
