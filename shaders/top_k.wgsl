//!use flat
// y[row, rank] = the element with that rank in a row of x, index[row, rank] = its place in the row, in the order of
// lib/order.wgsl or lib/int64_order.wgsl, for ranks below p.k; among equals the lowest index comes first.
// Expects x, y, index; p.count, the elements of x; p.length (elements of a row), p.k; what the order
// expects. An invocation ranks one element.

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
    store_y(row * p.k + rank, load_x(i));
    store_index(row * p.k + rank, i32(i - start));
  }
}
