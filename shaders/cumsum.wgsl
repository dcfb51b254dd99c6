//!use flat
// y = the sums of x along rows, up to each element.
// Expects x, y; plus(a, b); p.count (rows), p.length (elements of a row), p.inner (distance between the elements of a
// row; rows whose numbers differ by less than p.inner are side by side); EXCLUSIVE (1: without the element itself),
// REVERSE (1: from the end of the row). An invocation sums a row.

fn compute(row: u32) {
  let start = row / p.inner * (p.inner * p.length) + row % p.inner;
  var sum = T(0);
  for (var k = 0u; k < p.length; k++) {
    let i = start + select(k, p.length - 1u - k, REVERSE == 1u) * p.inner;
    let next = plus(sum, load_x(i));
    store_y(i, select(next, sum, EXCLUSIVE == 1u));
    sum = next;
  }
}
