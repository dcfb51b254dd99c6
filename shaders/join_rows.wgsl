//!use flat by_row
// y[row] = start, joined in order with x[update] for updates of the row: at most p.most of them, from number p.first
// on.
// Expects start (FIRST 1: one element; 0: the result of an earlier dispatch), x, y; join(a, b); p.count, the V's of y;
// p.row, the V's of a row of y; p.step, the V's of a row of x, 0 if x is one row for all; sorted (the numbers of
// updates, ordered by row) and p.updates, how many there are; what lib/by_row.wgsl expects, and before(row). An
// invocation computes one V.

fn compute(i: u32) {
  let row = i32(i / p.row);
  var v = splat_start(0u);
  if (FIRST == 0u) { v = loadv_start(i); }
  let first = before(row) + p.first;
  for (var k = first; k < min(first + p.most, p.updates); k++) {
    if (row_at(k) != row) { break; }
    v = joinv(v, loadv_x(u32(load_sorted(k)) * p.step + i % p.row));
  }
  storev_y(i, v);
}
