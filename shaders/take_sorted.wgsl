//!use flat
// y[row, rank] = the element with that rank in a row of x, index[row, rank] = its place in the row.
// Expects x, sorted (places in x, row by row), y, index; p.count, the elements of y; p.length (elements of a row of x),
// p.k (of a row of y). An invocation computes one element.

fn compute(i: u32) {
  let start = i / p.k * p.length;
  let place = u32(load_sorted(start + i % p.k));
  store_y(i, load_x(place));
  store_index(i, i32(place - start));
}
