//!use flat
// y = the sum of p.parts tensors that lie one behind the other.
// Expects x [parts, count], y [count], both in V's; p.count, p.parts. An invocation computes one V.

fn compute(i: u32) {
  var sum = V();
  for (var part = 0u; part < p.parts; part++) {
    sum += loadv_x(part * p.count + i);
  }
  storev_y(i, sum);
}
