//!use flat
// y[row, rank] = pick(value, index) of the row's element of that rank.
// Expects x, sorted (places in x, row by row), y, pick; p.count, the number of elements of y; p.length (elements of a
// row of x), p.k (of y). An invocation takes one element.

fn compute(i: u32) {
  let start = i / p.k * p.length;
  let place = u32(load_sorted(start + i % p.k));
  store_y(i, pick(load_x(place), integer(i32(place - start))));
}
