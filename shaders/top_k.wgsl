//!use flat
// y[row, rank] = pick(value, index) of the row's element of that rank in the order of
// lib/order.wgsl or lib/int64_order.wgsl, the lowest index first among equals, for ranks below p.k.
// Expects x, y; p.count, the number of elements of x; p.length (elements of a row), p.k; what these expect.
// An invocation ranks one element.

fn compute(i: u32) {
  let row = i / p.length;
  let start = row * p.length;
  let own = order(load_x(i));
  var rank = 0u;
  for (var j = start; j < start + p.length; j++) {
    let other = order(load_x(j));
    rank += select(0u, 1u, sooner(other, own) || (!sooner(own, other) && j < i));
  }
  if (rank < p.k) {
    store_y(row * p.k + rank, pick(load_x(i), integer(i32(i - start))));
  }
}
