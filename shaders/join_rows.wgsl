//!use flat by_row
// y[row] = start, joined with x[update] for p.most updates of the row, from its p.first on, in their order.
// Expects start (FIRST 1: one element; 0: what an earlier dispatch came to), x, y, join; p.count, the number of V's of
// y; p.row, the V's of a row of y, and p.step, those of x, 0 where x is one row for all; what lib/by_row.wgsl expects.
// An invocation joins one V.

fn compute(i: u32) {
  let row = i32(i / p.row);
  var v = splat_start(0u);
  if (FIRST == 0u) { v = loadv_start(i); }
  let first = before(row) + p.first;
  for (var k = first; k < min(first + p.most, p.updates); k++) {
    let update = u32(load_sorted(k));
    if (load_row_of(update) != row) { break; }
    v = joinv(v, loadv_x(update * p.step + i % p.row));
  }
  storev_y(i, v);
}
