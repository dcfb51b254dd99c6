//!use by_row
// Weighted sums of rows of x.
// Expects id (i32), weight, x; p.row, the V's of a row; p.rows, the rows of x (an id out of range names the nearest
// one); COMBINER (1: divisors are sums of weights; 2: of their squares); p.first.x and p.end.x, the updates of a row to
// add up here; before and before_divisor, the sums of updates before these, or absent; resume(sum, before), which
// chooses sum or before; sorted (the numbers of updates, ordered by row) and p.updates, how many there are; what
// lib/by_row.wgsl expects, and before(row).

// `some`: whether the row has an update.
struct Sums { sum: V, divisor: V, some: bool }

// The sums for V number i of the result.
fn add_updates(i: u32) -> Sums {
  let row = i32(i / p.row);
  let first = before(row);
  var sum = resumev(V(0), loadv_before(i));
  var divisor = resumev(V(0), loadv_before_divisor(i));
  for (var k = first + u32(p.first.x); k < min(first + u32(p.end.x), p.updates); k++) {
    if (row_at(k) != row) { break; }
    let update = u32(load_sorted(k));
    let id = u32(clamp(load_id(update), 0, i32(p.rows) - 1));
    let weight = load_weight(update);
    sum += weight * loadv_x(id * p.row + i % p.row);
    divisor += V(select(weight * weight, weight, COMBINER == 1u));
  }
  let some = first < p.updates && row_at(min(first, p.updates - 1u)) == row;
  return Sums(sum, divisor, some);
}
