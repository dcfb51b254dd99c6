//!use flat by_row
// y[row] = the sum of x[id[update]] * weight[update] over the updates of the row, in their order. COMBINER 1 divides it
// by the sum of the weights, 2 by the root of the sum of their squares, unless the row has no update.
// Expects id (i32), weight, x, y; p.count, the V's of y; p.row, the V's of a row; p.rows, the rows of x (an id out of
// range names the nearest one); COMBINER; sorted, row_of and p.updates for lib/by_row.wgsl. An invocation computes one
// V.

fn compute(i: u32) {
  let row = i32(i / p.row);
  var sum = V(0);
  var divisor = T(0);
  var some = false;
  for (var k = before(row); k < p.updates; k++) {
    let update = u32(load_sorted(k));
    if (load_row_of(update) != row) { break; }
    let id = u32(clamp(load_id(update), 0, i32(p.rows) - 1));
    let weight = load_weight(update);
    sum += weight * loadv_x(id * p.row + i % p.row);
    divisor += select(weight * weight, weight, COMBINER == 1u);
    some = true;
  }
  if (COMBINER == 2u) { divisor = sqrt(divisor); }
  storev_y(i, select(sum, sum / divisor, some && COMBINER != 0u));
}
