//!use flat
// y = apply(bias + the sum of p.parts tensors that lie one behind the other).
// Expects x [parts, count], y [count], and bias [row], which is added to each row of that length, all in V's; p.count,
// p.parts, p.row. An invocation computes one V.

fn compute(i: u32) {
  var sum = loadv_bias(i % p.row);
  for (var part = 0u; part < p.parts; part++) {
    sum += loadv_x(part * p.count + i);
  }
  storev_y(i, applyv(sum));
}
