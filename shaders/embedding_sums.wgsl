//!use flat embedding_sums
// y[row] = the sum of x[id[update]] * weight[update] over the updates of the row, in their order. COMBINER 1 divides it
// by the sum of the weights, 2 by the root of the sum of their squares, unless the row has no update.
// Expects y; p.count, the V's of y; what lib/embedding_sums.wgsl expects. An invocation computes one V.

fn compute(i: u32) {
  let sums = add_updates(i);
  var divisor = sums.divisor;
  if (COMBINER == 2u) { divisor = sqrt(divisor); }
  storev_y(i, select(sums.sum, sums.sum / divisor, sums.some && COMBINER != 0u));
}
