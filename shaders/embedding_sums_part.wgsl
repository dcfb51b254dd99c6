//!use flat embedding_sums
// y and y_divisor: the sums of shaders/embedding_sums.wgsl over a part of the updates of each row.
// Expects y, y_divisor; p.count, the V's of y; what lib/embedding_sums.wgsl expects. An invocation computes one V.

fn compute(i: u32) {
  let sums = add_updates(i);
  storev_y(i, sums.sum);
  storev_y_divisor(i, sums.divisor);
}
