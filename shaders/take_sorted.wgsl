//!use flat
// y[row, rank] = pick(value, index) of the element with that rank in a row of x.
// Expects x, sorted (places in x, row by row), y; pick(value, index); p.count, the elements of y; p.length (elements of
// a row of x), p.k (of a row of y). An invocation computes one element.

fn compute(i: u32) {
  let start = i / p.k * p.length;
  let place = u32(load_sorted(start + i % p.k));
  store_y(i, pick(load_x(place), integer(i32(place - start))));
}
