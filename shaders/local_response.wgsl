//!use flat response
// y = x / (p.bias + p.alpha * sum of x^2)^p.beta, where the sum runs over up to p.radius neighbours on either side
// along an axis.
// Expects x, y; p.count, the V's of y; p.length (extent of the axis), p.inner (V's between neighbours along it);
// p.radius; p.first.x and p.end.x, which of an element's neighbours inside of x to add up here; before, the sum of
// those before these, or absent; resume(sum, before), which chooses sum or before; finish(x, sum), which is
// normalised(x, sum), or sum; what lib/response.wgsl expects. An invocation computes one V.

fn compute(i: u32) {
  let at = i / p.inner % p.length;
  let before = min(at, p.radius);
  let after = min(p.length - 1u - at, p.radius);
  var sum = resumev(V(T(0)), loadv_before(i));
  let start = i - before * p.inner;
  let end = min(u32(p.end.x), before + 1u + after);
  for (var n = u32(p.first.x); n < end; n++) {
    let x = loadv_x(start + n * p.inner);
    sum += x * x;
  }
  storev_y(i, finishv(loadv_x(i), sum));
}
